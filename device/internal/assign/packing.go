// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import "slices"

// The columns of a price, the most important first. After them come, for each
// level of the topology, two more, and at last the shared devices.
const (
	// wholes counts the clusters of shared counters that nobody used before.
	wholes = iota
	// shrinks adds up by how much the largest partition that is left gets smaller.
	shrinks
	levels
)

// packing prices what Packed wants to keep. While it is not active, nothing has a
// price and width is 0.
//
// Most of a price is paid for marks: a mark is something that the first use breaks
// and that later uses do not break again, such as a topology group that was
// complete. To the clusters a mark is a resource of which nothing is taken: it joins
// devices, and it is 0 before it is touched and 1 after.
type packing struct {
	active bool
	// width is how many columns a price has.
	width int
	// topology are the levels that have a price.
	topology [][]int32

	// idle are the devices that nobody used before, and that the requests for all
	// do not take.
	idle Set
	// units are the clusters of shared counters. unit has that of each counter and,
	// for those that charge something, of each device.
	units        []unit
	unitOf       []int32
	unitOfDevice []int32
	parts        []part
	devices      []int32
	// groups are how many there are in each level and those before, complete says
	// which can be broken.
	groups   []int32
	complete []bool
	// marks are where the resources of each kind begin.
	unitMarks, groupMarks, requestMarks, deviceMarks int32

	// total is a price that is added up, touched has the marks that are in it.
	total   []int64
	touched []bool
	marks   []mark
}

// mark is something that a use breaks, and the column of its price. A resource of
// none is broken by every use anew.
type mark struct {
	resource, column int32
}

func (k *packing) stop() { k.active, k.width = false, 0 }

// indifferent says whether all solutions with the same choices are equally good.
func (s *Solver) indifferent() bool {
	for _, level := range s.problem.Topology {
		if slices.ContainsFunc(level, func(group int32) bool { return group >= 0 }) {
			return false
		}
	}
	return !s.priced()
}

// priced says whether anything but the topology has a price.
func (s *Solver) priced() bool {
	return slices.ContainsFunc(s.problem.Charge, func(charge []Amount) bool { return len(charge) > 0 }) ||
		s.problem.Shared != nil && s.problem.Shared.Common(s.problem.Idle) >= 0
}

// start finds out what there is to keep in a state, of these levels of the topology.
func (k *packing) start(s *Solver, st *state, topology [][]int32) {
	p := st.problem
	k.active, k.topology = true, topology
	k.width = levels + 2*len(topology) + 1
	k.idle = append(k.idle[:0], p.Idle...)
	for w := range k.idle {
		k.idle[w] &^= st.used()[w] | st.paid()[w]
	}
	k.survey(s, st)
	k.count()
	base := int32(s.uses.marksFrom)
	s.uses.left = s.uses.left[:base]
	k.unitMarks = base
	k.groupMarks = k.unitMarks + int32(len(k.units))
	groups := k.groups[len(k.groups)-1]
	k.requestMarks = k.groupMarks + groups
	k.deviceMarks = k.requestMarks + groups*int32(len(p.Requests))
	s.uses.left = append(s.uses.left, make([]int64, int(k.deviceMarks-base)+p.Devices)...)
}

// count numbers the groups of the topology.
func (k *packing) count() {
	k.groups = append(k.groups[:0], 0)
	for l, level := range k.topology {
		end := int32(0)
		for _, group := range level {
			end = max(end, group+1)
		}
		k.groups = append(k.groups, k.groups[l]+end)
	}
	k.complete = zeroed(k.complete, int(k.groups[len(k.groups)-1]))
	for i := range k.complete {
		k.complete[i] = true
	}
	for l, level := range k.topology {
		for d, group := range level {
			if group >= 0 && !k.idle.Has(d) {
				k.complete[k.groups[l]+group] = false
			}
		}
	}
}

// tells says whether it matters which request has the devices of a choice.
func (k *packing) tells(s *Solver, slot int) bool {
	return k.active && len(k.topology) > 0 && s.rules.slots[slot].size() > 1
}

// appendMarks appends what a use breaks. To observe a device breaks nothing.
func (k *packing) appendMarks(marks []mark, s *Solver, slot, d int) []mark {
	p := s.problem
	if u := k.unitOfDevice[d]; u >= 0 && k.units[u].whole {
		marks = append(marks, mark{resource: k.unitMarks + u, column: wholes})
	}
	for l, level := range k.topology {
		group := level[d]
		at := k.groups[l] + group
		column := int32(levels + 2*l)
		if k.tells(s, slot) {
			spread := mark{resource: nobody, column: column}
			if group >= 0 {
				spread.resource = k.requestMarks + int32(s.rules.slots[slot].request)*k.groups[len(k.groups)-1] + at
			}
			marks = append(marks, spread)
		}
		if group >= 0 && k.complete[at] {
			marks = append(marks, mark{resource: k.groupMarks + at, column: column + 1})
		}
	}
	if p.Shared.Has(d) && k.idle.Has(d) {
		marks = append(marks, mark{resource: k.deviceMarks + int32(d), column: int32(k.width - 1)})
	}
	return marks
}

// touch breaks the marks of a use, and adds the price.
func (k *packing) touch(c *clusters, marks []mark, left, price []int64) {
	for _, m := range marks {
		if m.resource != nobody {
			if left[c.local[m.resource]] > 0 {
				continue
			}
			left[c.local[m.resource]] = 1
		}
		price[m.column]++
	}
}
