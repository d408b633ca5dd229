// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// ErrUnsettled is returned by Reserve for an object that is being taken back or
// whose last write is in doubt, and that no pod owns. The pod may try again.
var ErrUnsettled = errors.New("an earlier write of the object is not settled yet")

// Lookup returns the object that the informer store holds under a name, and
// false when it holds none. It is called with the ledger locked and must not
// call back.
type Lookup[T metav1.Object] func(namespace, name string) (T, bool)

// Ledger holds the entries of one kind of object. Use New to make one. All
// methods may be called concurrently. Objects are kept and handed out as they
// are: nobody may change one after it was given to the ledger or by it.
type Ledger[T metav1.Object] struct {
	stored Lookup[T]

	mutex   sync.Mutex
	entries map[types.UID]*entry[T]
}

// New returns an empty ledger for the objects of one informer store.
func New[T metav1.Object](stored Lookup[T]) *Ledger[T] {
	return &Ledger[T]{stored: stored, entries: make(map[types.UID]*entry[T])}
}

// Reserve enters the plans of one pod, all or none: the objects as they will
// look once written. A plan for an object that has an entry already joins it.
//
// contradicts is called with the ledger locked for each plan and each object in
// flight, in order of UID, also for the entry of the same object (same UID), and
// returns an error that names both when they cannot both hold; that error is
// returned. The check and the entry are one step: of two pods that plan the same
// thing, one is refused.
func (l *Ledger[T]) Reserve(owner types.UID, plans []T, contradicts func(plan, other T) error) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.settleAll()

	uids := slices.Sorted(maps.Keys(l.entries))
	for _, plan := range plans {
		if e, ok := l.entries[plan.GetUID()]; ok && e.doubtful && e.orphaned() {
			return fmt.Errorf("%s: %w", name(plan), ErrUnsettled)
		}
		for _, uid := range uids {
			if err := contradicts(plan, l.entries[uid].current()); err != nil {
				return err
			}
		}
	}
	for _, plan := range plans {
		e := l.entry(plan)
		if !e.hasPlan || e.state() == Written {
			e.plan, e.hasPlan = plan, true
		}
		e.done.Delete(owner)
		e.working.Insert(owner)
	}
	return nil
}

// Latest returns what is known about an object that the store holds: the newest
// form that the API server returned when something was written, otherwise the
// plan, otherwise stored itself.
func (l *Ledger[T]) Latest(stored T) (T, State) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	known, e := l.look(stored)
	switch {
	case e == nil:
		return known, None
	case !e.hasWritten:
		return e.plan, e.state()
	default:
		return known, e.state()
	}
}

// Plan returns the newest form of an object that the API server returned, and
// the plan for it, which is known itself when no plan is in force.
func (l *Ledger[T]) Plan(stored T) (known, plan T, state State) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	known, e := l.look(stored)
	switch {
	case e == nil:
		return known, known, None
	case e.hasPlan && e.state() != Written:
		return known, e.plan, e.state()
	default:
		return known, known, e.state()
	}
}

// look returns the newer of what the store holds and what was written last. It
// reads the store again: since the caller did, the store may have caught up and
// the entry left, and the caller's form would be older than both.
func (l *Ledger[T]) look(stored T) (T, *entry[T]) {
	uid := stored.GetUID()
	if current, ok := l.stored(stored.GetNamespace(), stored.GetName()); ok && current.GetUID() == uid && AtLeast(current, stored) {
		stored = current
	}
	l.settle(uid)
	e := l.entries[uid]
	if e == nil || !e.hasWritten || AtLeast(stored, e.written) {
		return stored, e
	}
	return e.written, e
}

// InFlight returns the object of every entry, in order of UID: the plan as long
// as it is in force, otherwise the object as it was written last. A caller that
// reads the store too must call InFlight first; the other order could miss an
// object that goes from the ledger to the store in between.
func (l *Ledger[T]) InFlight() []T {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.settleAll()
	objects := make([]T, 0, len(l.entries))
	for _, uid := range slices.Sorted(maps.Keys(l.entries)) {
		objects = append(objects, l.entries[uid].current())
	}
	return objects
}

// Wrote says that owner has written the object, which the API server returned as
// obj. It may be called without Reserve, for a write that promises nothing.
func (l *Ledger[T]) Wrote(owner types.UID, obj T) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	e := l.entry(obj)
	e.observe(obj)
	e.doubtful = false
	e.working.Delete(owner)
	e.done.Insert(owner)
}

// Replace says that the API server has created the object that was planned under
// the UID uid, which was made up for it. The entry goes on as that of plan, under
// the UID that it has now; no View ever sees both or none of them.
func (l *Ledger[T]) Replace(uid types.UID, plan T) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	e, ok := l.entries[uid]
	if !ok {
		return
	}
	delete(l.entries, uid)
	e.plan, e.hasPlan = plan, true
	l.entries[plan.GetUID()] = e
}

// Doubt says that a write of the object has an unknown outcome.
func (l *Ledger[T]) Doubt(uid types.UID) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if e, ok := l.entries[uid]; ok {
		e.doubtful = true
	}
}

// Settle says that the API server returned the object as obj, by a read or by a
// write that took something back. It ends any doubt; the caller must know that
// no earlier write can still take effect. An answer that is older than what was
// written since ends nothing: it knows nothing of what has been tried after that.
// Without an entry there is one from then on, that nobody owns, if the store shows
// an older form of the object.
func (l *Ledger[T]) Settle(obj T) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	e, ok := l.entries[obj.GetUID()]
	if !ok {
		stored, found := l.stored(obj.GetNamespace(), obj.GetName())
		if !found || stored.GetUID() != obj.GetUID() || AtLeast(stored, obj) {
			return
		}
		e = l.entry(obj)
	}
	e.observe(obj)
	if AtLeast(obj, e.written) {
		e.doubtful = false
	}
}

// Gone says that the API server has no object of that UID any more.
func (l *Ledger[T]) Gone(uid types.UID) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.entries, uid)
}

// Undo takes the owner out of the entry and says whether it was the last, so
// that nobody else counts on what was written. It may be repeated.
//
// A plan that nobody has tried to write leaves with its last owner. An entry of
// which something was written, or is in doubt, stays and is doubtful when its
// last owner leaves; the caller must then end it with Settle or Gone.
func (l *Ledger[T]) Undo(owner, uid types.UID) (last bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	e, ok := l.entries[uid]
	if !ok {
		return true
	}
	owned := e.owned(owner)
	e.working.Delete(owner)
	e.done.Delete(owner)
	if !e.orphaned() {
		return false
	}
	switch {
	case e.hasWritten && owned:
		e.doubtful = true
	case !e.hasWritten && !e.doubtful:
		delete(l.entries, uid)
	}
	return true
}

// Owns says whether the owner has reserved or written the object of an entry.
func (l *Ledger[T]) Owns(owner, uid types.UID) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	e, ok := l.entries[uid]
	return ok && e.owned(owner)
}

// State returns the state of the entry of an object, None without one. An entry
// that the store has caught up with may still count as Written.
func (l *Ledger[T]) State(uid types.UID) State {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if e, ok := l.entries[uid]; ok {
		return e.state()
	}
	return None
}

// Count returns how many entries are in each state.
func (l *Ledger[T]) Count() map[State]int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.settleAll()
	counts := map[State]int{}
	for _, e := range l.entries {
		counts[e.state()]++
	}
	return counts
}

// entry returns the entry of the object and makes an empty one if there is none.
func (l *Ledger[T]) entry(obj T) *entry[T] {
	uid := obj.GetUID()
	e, ok := l.entries[uid]
	if !ok {
		stored, found := l.stored(obj.GetNamespace(), obj.GetName())
		e = &entry[T]{
			working: sets.New[types.UID](),
			done:    sets.New[types.UID](),
			seen:    found && stored.GetUID() == uid,
		}
		l.entries[uid] = e
	}
	return e
}

func (l *Ledger[T]) settleAll() {
	for uid := range l.entries {
		l.settle(uid)
	}
}

// settle removes the entry when the store has caught up with it.
func (l *Ledger[T]) settle(uid types.UID) {
	e, ok := l.entries[uid]
	if !ok || e.state() != Written {
		return
	}
	stored, found := l.stored(e.written.GetNamespace(), e.written.GetName())
	switch {
	case !found:
		if e.seen {
			delete(l.entries, uid)
		}
	case stored.GetUID() != uid:
		if e.seen || AtLeast(stored, e.written) {
			delete(l.entries, uid)
		}
	case AtLeast(stored, e.written):
		delete(l.entries, uid)
	default:
		e.seen = true
	}
}

func name(obj metav1.Object) string {
	if obj.GetNamespace() == "" {
		return obj.GetName()
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}
