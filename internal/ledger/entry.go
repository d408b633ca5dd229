// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
)

// State says what is known about an object that the ledger has an entry for.
type State string

const (
	// None: the ledger has no entry, the store is right.
	None State = ""
	// Planned: at least one owner has reserved the plan and not written it yet.
	Planned State = "Planned"
	// Written: every owner has written; the store may not show it yet.
	Written State = "Written"
	// Doubtful: a write was tried and nobody knows whether it took effect.
	Doubtful State = "Doubtful"
)

// entry is what the ledger knows about one object.
//
// Legal combinations, guarded by the methods of Ledger and the ledger's mutex:
//
//	Planned   working not empty, not doubtful
//	Written   working empty, has a written object, not doubtful
//	Doubtful  doubtful; owners may be empty (then nobody may join)
//
// plan is set whenever the entry was made by Reserve; an entry made by Wrote
// alone has none and is Written from the start.
type entry[T metav1.Object] struct {
	plan    T
	hasPlan bool
	// written is the newest object that the API server returned.
	written    T
	hasWritten bool
	// working are the owners between Reserve and Wrote or Undo, done are those
	// after Wrote.
	working, done sets.Set[types.UID]
	doubtful      bool
	// seen: the store has shown the object once, so that its absence means that
	// it was deleted. Otherwise absence means that the store is late.
	seen bool
}

func (e *entry[T]) state() State {
	switch {
	case e.doubtful:
		return Doubtful
	case e.working.Len() > 0:
		return Planned
	default:
		return Written
	}
}

func (e *entry[T]) owned(by types.UID) bool { return e.working.Has(by) || e.done.Has(by) }

func (e *entry[T]) orphaned() bool { return e.working.Len() == 0 && e.done.Len() == 0 }

// current is the object that Views must reckon with: the plan as long as it is
// in force, otherwise what was written.
func (e *entry[T]) current() T {
	if e.hasPlan && e.state() != Written || !e.hasWritten {
		return e.plan
	}
	return e.written
}

// observe takes over an object that the API server returned, unless a newer one
// is known.
func (e *entry[T]) observe(obj T) {
	if !e.hasWritten || !AtLeast(e.written, obj) {
		e.written, e.hasWritten = obj, true
	}
}

// AtLeast says whether a is at least as new as b. Both are of the same kind.
// Versions that cannot be compared say nothing, except when they are equal.
func AtLeast(a, b metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	if err != nil {
		return a.GetResourceVersion() == b.GetResourceVersion()
	}
	return order >= 0
}
