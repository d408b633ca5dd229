// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// Calls counts the calls to an API server and lets one of them go wrong. Use At to
// make one. All methods may be called concurrently.
type Calls struct {
	fault Fault
	at    int

	mutex sync.Mutex
	n     int
	// outage is how many calls are still to be lost.
	outage int
	// open are the calls without an answer yet.
	open         int
	killed       bool
	cancel, kill func()
}

// At lets the nth call go wrong, the first being 1.
func At(fault Fault, n int) *Calls { return &Calls{fault: fault, at: n} }

// Ends sets what ends the contexts of the callers, and what ends the callers
// themselves; either may be nil. To end them waits for what they do, and a call is
// a part of that, so kill is not waited for.
func (c *Calls) Ends(cancel, kill func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.cancel, c.kill = cancel, kill
}

// Do carries the call out, unless its turn to go wrong has come.
func (c *Calls) Do(call func() (runtime.Object, error)) (runtime.Object, error) {
	struck, err := c.begin()
	defer c.answered()
	if err != nil {
		return nil, err
	}
	obj, err := call()
	switch {
	case !struck || err != nil:
		return obj, err
	case c.fault.Slow:
		time.Sleep(slowness)
		return obj, nil
	}
	return nil, c.strike(c.fault.After)
}

// begin counts a call. It returns whether the answer is to be struck, or the error
// of a call that is not to be carried out.
func (c *Calls) begin() (struck bool, err error) {
	c.mutex.Lock()
	c.open++
	switch {
	case c.killed:
		c.mutex.Unlock()
		return false, ErrLost
	case c.outage > 0:
		c.outage--
		c.mutex.Unlock()
		return false, ErrLost
	}
	c.n++
	struck = c.n == c.at
	c.mutex.Unlock()
	if struck && c.fault.Before != nil {
		return false, c.strike(c.fault.Before)
	}
	return struck, nil
}

func (c *Calls) answered() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.open--
}

func (c *Calls) strike(err error) error {
	c.mutex.Lock()
	c.killed = c.fault.Kill
	c.outage = c.fault.Outage
	cancel, kill := c.cancel, c.kill
	c.mutex.Unlock()
	if (c.fault.Cancel || c.fault.Kill) && cancel != nil {
		cancel()
	}
	if c.fault.Kill && kill != nil {
		go kill()
	}
	return err
}

// Count is how many calls there were, without those that were lost in an outage or
// after a kill.
func (c *Calls) Count() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.n
}

// Dead says whether the callers were killed.
func (c *Calls) Dead() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.killed
}

// Revive lets other callers take over from those that were killed.
func (c *Calls) Revive() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.killed = false
}

// WaitUntilIdle returns when no call was made or answered for a moment.
func (c *Calls) WaitUntilIdle() {
	for last := -1; ; time.Sleep(3 * time.Millisecond) {
		c.mutex.Lock()
		now, open := c.n, c.open
		c.mutex.Unlock()
		if now == last && open == 0 {
			return
		}
		last = now
	}
}
