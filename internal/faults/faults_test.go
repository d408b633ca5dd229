// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each fault, at the second of five calls: which of them are carried out, and
// which of them succeed as their callers see it.
func TestFaults(t *testing.T) {
	for _, fault := range All() {
		t.Run(fault.Name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			killed := make(chan struct{})
			calls := At(fault, 2)
			calls.Ends(cancel, func() { close(killed) })
			var carriedOut, succeeded []int
			for i := range 5 {
				_, err := calls.Do(func() (runtime.Object, error) {
					carriedOut = append(carriedOut, i+1)
					return nil, nil
				})
				if err == nil {
					succeeded = append(succeeded, i+1)
				}
			}
			wantCarriedOut, wantSucceeded := []int{1}, []int{1}
			if fault.Before == nil {
				wantCarriedOut = append(wantCarriedOut, 2)
			}
			if fault.Slow {
				wantSucceeded = append(wantSucceeded, 2)
			}
			for i := 3 + fault.Outage; i <= 5 && !fault.Kill; i++ {
				wantCarriedOut, wantSucceeded = append(wantCarriedOut, i), append(wantSucceeded, i)
			}
			if !slices.Equal(carriedOut, wantCarriedOut) || !slices.Equal(succeeded, wantSucceeded) {
				t.Errorf("carried out %v and succeeded %v, want %v and %v", carriedOut, succeeded, wantCarriedOut, wantSucceeded)
			}
			if ended := ctx.Err() != nil; ended != (fault.Cancel || fault.Kill) {
				t.Errorf("the callers' context has ended: %v", ended)
			}
			if calls.Dead() != fault.Kill {
				t.Errorf("the callers are dead: %v", calls.Dead())
			}
			if fault.Kill {
				<-killed
				calls.Revive()
				if _, err := calls.Do(func() (runtime.Object, error) { return nil, nil }); err != nil {
					t.Errorf("a call of the next callers: %v", err)
				}
			}
			calls.WaitUntilIdle()
		})
	}
}

func TestErrorOfACallIsItsOwn(t *testing.T) {
	refused := errors.New("refused")
	calls := At(Fault{After: ErrLost}, 1)
	if _, err := calls.Do(func() (runtime.Object, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("got %v, want the error that the call had", err)
	}
	if calls.Count() != 1 {
		t.Errorf("counted %d calls", calls.Count())
	}
}

func TestEventsWaitWhileTheyAreHeldBack(t *testing.T) {
	var watches Watches
	from := watch.NewFake()
	to := watches.Through(from)
	watches.Hold()
	from.Add(&v1.Pod{}) // returns when the event was taken, which waits now
	select {
	case <-to.ResultChan():
		t.Error("an event has passed")
	default:
	}
	watches.Release()
	if event := <-to.ResultChan(); event.Type != watch.Added {
		t.Errorf("got event %v", event.Type)
	}
	watches.Hold()
	from.Delete(&v1.Pod{})
	to.Stop()
	if _, open := <-to.ResultChan(); open {
		t.Error("an event has passed after the watch was stopped")
	}
	watches.Release()
}
