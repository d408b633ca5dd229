// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// Watches hold back the events of watches. The zero value lets all pass.
type Watches struct {
	mutex sync.Mutex
	// released is closed when events are no longer held back, nil when they are not.
	released chan struct{}
}

// Hold has events wait from now on. It may be repeated.
func (w *Watches) Hold() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.released == nil {
		w.released = make(chan struct{})
	}
}

// Release lets all events pass. It may be repeated.
func (w *Watches) Release() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.released != nil {
		close(w.released)
		w.released = nil
	}
}

// Through returns a watch with the events of the other one, except while they are
// held back. To stop it stops the other one.
func (w *Watches) Through(from watch.Interface) watch.Interface {
	events := make(chan watch.Event)
	to := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		defer from.Stop()
		for {
			select {
			case event, ok := <-from.ResultChan():
				if !ok || !w.pass(to.StopChan()) {
					return
				}
				select {
				case events <- event:
				case <-to.StopChan():
					return
				}
			case <-to.StopChan():
				return
			}
		}
	}()
	return to
}

// pass returns when events may pass, false when the watch was stopped before.
func (w *Watches) pass(stopped <-chan struct{}) bool {
	w.mutex.Lock()
	released := w.released
	w.mutex.Unlock()
	if released == nil {
		return true
	}
	select {
	case <-released:
		return true
	case <-stopped:
		return false
	}
}
