// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package draws

import (
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/ledger"
	"github.com/berth-scheduler/berth/volume"
)

// segment is the storage that one CSIStorageCapacity stands for, and what is
// drawn from it. It outlives the object: drivers replace it under another name.
type segment struct {
	// object is the newest that was seen.
	object *storagev1.CSIStorageCapacity
	// entries are the draws, the oldest first.
	entries []*entry
	// credit is how much of the sum of the draws the object shows already:
	// 0 <= credit <= sum.
	credit resource.Quantity
}

// take replaces the object by a newer one and returns whether the driver reports
// something else.
func (s *segment) take(now *storagev1.CSIStorageCapacity) bool {
	old := s.object
	if now == old || older(now, old) {
		return false
	}
	s.object = now
	if equality.Semantic.DeepEqual(old.Capacity, now.Capacity) &&
		equality.Semantic.DeepEqual(old.MaximumVolumeSize, now.MaximumVolumeSize) {
		return false
	}
	if old.Capacity != nil && now.Capacity != nil {
		s.credit.Add(*old.Capacity)
		s.credit.Sub(*now.Capacity)
		s.clip()
	}
	return true
}

// older says that the API server wrote a before b. Objects without comparable
// versions are taken as they come.
func older(a, b *storagev1.CSIStorageCapacity) bool {
	return ledger.AtLeast(b, a) && !ledger.AtLeast(a, b)
}

// remove takes out a draw. If it settled, its storage is taken and it takes along
// the credit that it had.
func (s *segment) remove(e *entry) {
	s.entries = slices.DeleteFunc(s.entries, func(other *entry) bool { return other == e })
	if e.settling {
		s.credit.Sub(e.draw.Size)
	}
	s.clip()
}

// clip keeps the credit between nothing and the sum of the draws.
func (s *segment) clip() {
	var sum resource.Quantity
	for _, e := range s.entries {
		sum.Add(e.draw.Size)
	}
	switch {
	case s.credit.Sign() < 0:
		s.credit = resource.Quantity{}
	case s.credit.Cmp(sum) > 0:
		s.credit = sum
	}
}

// free is what the object offers beside the draws, nil if it reports no total.
func (s *segment) free() *resource.Quantity {
	if s.object.Capacity == nil {
		return nil
	}
	free := s.object.Capacity.DeepCopy()
	for _, d := range s.drawn() {
		free.Sub(d.Size)
	}
	return &free
}

// drawn lists what the object does not show: the draws without the credit, which
// goes to those that settle and then to the oldest.
func (s *segment) drawn() []volume.Draw {
	if len(s.entries) == 0 {
		return nil
	}
	shown := s.shown()
	var left []volume.Draw
	for _, e := range s.entries {
		d := e.draw
		d.Size = d.Size.DeepCopy()
		if size, ok := shown[e]; ok {
			d.Size.Sub(size)
		}
		if !d.Size.IsZero() {
			left = append(left, d)
		}
	}
	return left
}

// shown tells the credit to the draws.
func (s *segment) shown() map[*entry]resource.Quantity {
	entries := slices.Clone(s.entries)
	slices.SortStableFunc(entries, func(a, b *entry) int {
		switch {
		case a.settling == b.settling:
			return 0
		case a.settling:
			return -1
		default:
			return 1
		}
	})
	shown := map[*entry]resource.Quantity{}
	credit := s.credit.DeepCopy()
	for _, e := range entries {
		size := e.draw.Size.DeepCopy()
		if size.Cmp(credit) > 0 {
			size = credit.DeepCopy()
		}
		shown[e] = size
		credit.Sub(size)
	}
	return shown
}
