// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// calls counts the calls to the API server and lets one of them go wrong.
type calls struct {
	fault fault

	mutex sync.Mutex
	n, at int
	// open are the calls without an answer yet.
	open   int
	killed bool
	end    func()
}

// patch is a write; before alone is a read.
func (s *calls) patch(apply func() (runtime.Object, error)) (runtime.Object, error) {
	struck, err := s.begin()
	defer s.answered()
	if err != nil {
		return nil, err
	}
	obj, err := apply()
	if err != nil || !struck {
		return obj, err
	}
	if s.fault.slow {
		time.Sleep(20 * time.Millisecond)
		return obj, nil
	}
	return nil, s.strike(s.fault.after)
}

func (s *calls) before() error {
	_, err := s.begin()
	defer s.answered()
	return err
}

// begin counts a call. It returns whether the answer is to be struck, or the error
// for a call that is not to be carried out.
func (s *calls) begin() (struck bool, err error) {
	s.mutex.Lock()
	s.open++
	if s.killed {
		s.mutex.Unlock()
		return false, errLost
	}
	s.n++
	struck = s.n == s.at
	s.mutex.Unlock()
	if struck && s.fault.before != nil {
		return false, s.strike(s.fault.before)
	}
	return struck, nil
}

func (s *calls) answered() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.open--
}

func (s *calls) strike(err error) error {
	s.mutex.Lock()
	s.killed = s.fault.kill
	end := s.end
	s.mutex.Unlock()
	if s.fault.kill || s.fault.cancel {
		// Ending a scheduler waits for what it does, and this is a part of it.
		go end()
	}
	return err
}

// idle returns when no call has been made or answered for a moment.
func (s *calls) idle() {
	for last := -1; ; time.Sleep(3 * time.Millisecond) {
		s.mutex.Lock()
		now, open := s.n, s.open
		s.mutex.Unlock()
		if now == last && open == 0 {
			return
		}
		last = now
	}
}

// ends sets what ends the attempts, or the scheduler.
func (s *calls) ends(end func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.end = end
}

func (s *calls) dead() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.killed
}

func (s *calls) revive() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.killed = false
}

func (s *calls) count() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.n
}
