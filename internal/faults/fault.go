// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrLost is the error of a call that nobody knows the outcome of.
var ErrLost = errors.New("connection lost")

// slowness is long enough for everybody else to see what a call has done.
const slowness = 20 * time.Millisecond

// Fault is what happens to one call.
type Fault struct {
	// Name completes a sentence that begins with "the call".
	Name string
	// Before refuses the call; After loses the answer of one that was carried out.
	Before, After error
	// Slow: the answer comes when everybody else has seen what it is about.
	Slow bool
	// Outage is how many calls after it are lost too.
	Outage int
	// Cancel ends the contexts of the callers, as preemption does.
	Cancel bool
	// Kill ends the callers: no call after it is carried out, until Revive.
	Kill bool
}

// All are the ways in which a call can go wrong.
func All() []Fault {
	objects := schema.GroupResource{Resource: "objects"}
	tested := errors.New("tested")
	return []Fault{
		{Name: "fails", Before: apierrors.NewInternalError(tested)},
		{Name: "is forbidden", Before: apierrors.NewForbidden(objects, "name", tested)},
		{Name: "conflicts", Before: apierrors.NewConflict(objects, "name", tested)},
		{Name: "is lost", Before: ErrLost},
		{Name: "is slow", Slow: true},
		{Name: "loses its answer", After: ErrLost},
		{Name: "is the first of an outage", Before: ErrLost, Outage: 2},
		{Name: "is the first of an outage, with effect", After: ErrLost, Outage: 2},
		{Name: "times out with effect", After: context.DeadlineExceeded},
		{Name: "is cancelled", Before: context.Canceled, Cancel: true},
		{Name: "is cancelled too late", After: context.Canceled, Cancel: true},
		{Name: "is the last of a scheduler that dies", Before: ErrLost, Kill: true},
		{Name: "is the last of a scheduler that dies, with effect", After: ErrLost, Kill: true},
	}
}
