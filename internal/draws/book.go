// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package draws

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/volume"
)

// DefaultSettle is how long a draw outlasts the binding of its claim when the
// capacity object does not change.
const DefaultSettle = 2 * time.Minute

// Book holds the draws of one cluster. Use New to make one. All methods may be
// called concurrently.
type Book struct {
	clock clock.WithDelayedExecution

	mutex sync.Mutex
	// settle is less than zero until somebody has set it.
	settle time.Duration
	onFree []func()
	// freed is set when less is drawn than before, until onFree has been told.
	freed    bool
	byClaim  map[types.UID]*entry
	segments map[string]*segment
}

// entry is one draw.
type entry struct {
	draw    volume.Draw
	segment string
	// owners are the pods that reserved it and have not given up.
	owners sets.Set[types.UID]
	// placed: the claim names its node, so a provisioner is at work.
	placed bool
	// settling: the storage is taken for certain, and the object may show it.
	settling bool
	timer    clock.Timer
}

// New returns an empty Book.
func New(c clock.WithDelayedExecution) *Book {
	return &Book{clock: c, settle: -1, byClaim: map[types.UID]*entry{}, segments: map[string]*segment{}}
}

// SettleWithin sets how long a draw outlasts the binding of its claim; with zero
// it ends there. Of several callers the most patient one counts; without any it
// is DefaultSettle.
func (b *Book) SettleWithin(d time.Duration) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.settle = max(b.settle, d)
}

// OnFree has f called whenever less is drawn than before, so that pods that wait
// for capacity can be tried again. f must not block and may call the Book.
func (b *Book) OnFree(f func()) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.onFree = append(b.onFree, f)
}

// Reserve enters the draws of one pod from one capacity, all or none. It returns
// an error when the newest object that the Book knows does not have room for
// them beside the other draws. A claim that draws already does not draw twice.
func (b *Book) Reserve(owner types.UID, from *volume.Capacity, draws ...volume.Draw) error {
	var refused error
	b.change(func() {
		s := b.observe(from)
		var sum resource.Quantity
		for _, d := range draws {
			if e := b.byClaim[d.UID]; e == nil || e.segment != from.Segment() {
				sum.Add(d.Size)
			}
		}
		if free := s.free(); free != nil && free.Cmp(sum) < 0 {
			refused = fmt.Errorf("%s of CSIStorageCapacity %s/%s are left, %s are wanted",
				free.String(), s.object.Namespace, s.object.Name, sum.String())
			return
		}
		for _, d := range draws {
			b.enter(s, from.Segment(), d).owners.Insert(owner)
		}
	})
	return refused
}

// Join makes the owner one of those who count on the draw of the claim, if there
// is one.
func (b *Book) Join(owner, claim types.UID) {
	b.on(claim, func(e *entry) { e.owners.Insert(owner) })
}

// Counts says whether the owner counts on the draw of the claim.
func (b *Book) Counts(owner, claim types.UID) bool {
	counts := false
	b.on(claim, func(e *entry) { counts = e.owners.Has(owner) })
	return counts
}

// Undo takes the owner out of the draw of the claim, which ends with its last
// owner unless a provisioner is at work. It may be repeated.
func (b *Book) Undo(owner, claim types.UID) {
	b.on(claim, func(e *entry) {
		e.owners.Delete(owner)
		b.endIfIdle(e)
	})
}

// Placed says that the claim names its node, and returns false if it draws
// nothing that is known; then Adopt may enter what it draws.
func (b *Book) Placed(claim types.UID) bool {
	known := false
	b.on(claim, func(e *entry) { e.placed, known = true, true })
	return known
}

// Adopt enters the draw of a claim that somebody else has given to its
// provisioner, or that was before this process started. There is no check: the
// provisioner is at work, whether there is room or not.
func (b *Book) Adopt(from *volume.Capacity, d volume.Draw) {
	b.change(func() {
		s := b.observe(from)
		if b.byClaim[d.UID] == nil {
			b.enter(s, from.Segment(), d).placed = true
		}
	})
}

// Unplaced says that the claim names no node any more, which is how a provisioner
// gives it back, or not yet.
func (b *Book) Unplaced(claim types.UID) {
	b.on(claim, func(e *entry) {
		e.placed = false
		b.endIfIdle(e)
	})
}

// Bound says that the claim has its volume. The draw settles.
func (b *Book) Bound(claim types.UID) { b.on(claim, b.startSettling) }

// Gone says that the claim was deleted. Its volume may have been made, so the
// draw settles if a provisioner was at work.
func (b *Book) Gone(claim types.UID) {
	b.on(claim, func(e *entry) {
		if e.placed {
			b.startSettling(e)
		}
	})
}

// Reported says what the driver reports now.
func (b *Book) Reported(now *volume.Capacity) {
	b.change(func() {
		if b.segments[now.Segment()] != nil {
			b.observe(now)
		}
	})
}

// Drawn returns what is drawn from the capacity and not shown by it, the oldest
// draw first.
func (b *Book) Drawn(from *volume.Capacity) []volume.Draw {
	var drawn []volume.Draw
	b.change(func() {
		if b.segments[from.Segment()] != nil {
			drawn = b.observe(from).drawn()
		}
	})
	return drawn
}

// observe takes over an object, credits what has fallen since the last one, and
// ends the draws that were waiting for it. The Book keeps the segment only while
// something is drawn from it, so it may be one that enter has to bring in.
func (b *Book) observe(now *volume.Capacity) *segment {
	s := b.segments[now.Segment()]
	if s == nil {
		return &segment{object: now.Object()}
	}
	if !s.take(now.Object()) {
		return s
	}
	b.freed = true
	for _, e := range slices.Clone(s.entries) {
		if e.settling {
			b.end(e)
		}
	}
	return s
}

// enter returns the draw of the claim from the segment, a new one if there is
// none yet.
func (b *Book) enter(s *segment, name string, d volume.Draw) *entry {
	e := b.byClaim[d.UID]
	if e != nil && e.segment == name {
		return e
	}
	if e != nil {
		b.end(e)
	}
	e = &entry{draw: d, segment: name, owners: sets.New[types.UID]()}
	b.byClaim[d.UID] = e
	b.segments[name] = s
	s.entries = append(s.entries, e)
	return e
}

func (b *Book) startSettling(e *entry) {
	if e.settling {
		return
	}
	e.settling = true
	settle := b.settle
	switch {
	case settle < 0:
		settle = DefaultSettle
	case settle == 0:
		b.end(e)
		return
	}
	e.timer = b.clock.AfterFunc(settle, func() {
		b.on(e.draw.UID, func(now *entry) {
			if now == e {
				e.timer = nil
				b.end(e)
			}
		})
	})
}

func (b *Book) endIfIdle(e *entry) {
	if e.owners.Len() == 0 && !e.placed && !e.settling {
		b.end(e)
	}
}

func (b *Book) end(e *entry) {
	delete(b.byClaim, e.draw.UID)
	b.segments[e.segment].remove(e)
	b.forget(e.segment)
	b.freed = true
	if e.timer != nil {
		e.timer.Stop()
	}
}

// forget drops a segment that nothing is drawn from.
func (b *Book) forget(name string) {
	if s := b.segments[name]; s != nil && len(s.entries) == 0 {
		delete(b.segments, name)
	}
}

// on applies f to the draw of the claim, if there is one.
func (b *Book) on(claim types.UID, f func(*entry)) {
	b.change(func() {
		if e := b.byClaim[claim]; e != nil {
			f(e)
		}
	})
}

// change runs f with the Book locked. If less is drawn afterwards, those who
// want to know are told.
func (b *Book) change(f func()) {
	b.mutex.Lock()
	f()
	var tell []func()
	if b.freed {
		tell = slices.Clone(b.onFree)
		b.freed = false
	}
	b.mutex.Unlock()
	for _, f := range tell {
		f()
	}
}
