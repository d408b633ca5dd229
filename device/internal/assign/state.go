// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import "slices"

// state is how far a search has come: the choices that are made, the values that
// are pinned, the devices that are taken, and what all this leaves.
type state struct {
	problem *Problem
	rules   *rules

	// bits are the sets: the devices taken, the shared devices whose charge is
	// paid, those that each claim uses (only where somebody observes), and those
	// that each request may not have, because it has them or had to give them up.
	bits []uint64
	// left is what is left of each counter, not negative.
	left []int64
	// chosen is the choice of each request, or open. need is how many devices a
	// request still wants, once it has chosen. room is how many devices each claim
	// may still choose.
	chosen, need, room []int32
	// pins has the value of each Match that was pinned: open if it was not.
	pins []int32
	// values are, for a Match, those that all its devices have; for a Distinct,
	// those that some device has. bound says whether there was a device.
	values [][]int32
	bound  []bool
}

const open int32 = -1

// reset goes back to the beginning.
func (s *state) reset(p *Problem, t *rules) {
	s.problem, s.rules = p, t
	s.bits = zeroed(s.bits, Words(p.Devices)*s.sets())
	s.left = append(s.left[:0], p.Left...)
	for i, left := range s.left {
		s.left[i] = max(left, 0)
	}
	s.chosen = filled(s.chosen, len(p.Requests), open)
	s.need = filled(s.need, len(p.Requests), 0)
	s.room = filled(s.room, t.claims, int32(min(p.Limit, 1<<30)))
	s.pins = filled(s.pins, len(p.Constraints), open)
	s.bound = zeroed(s.bound, len(p.Constraints))
	s.values = slices.Grow(s.values[:0], len(p.Constraints))[:len(p.Constraints)]
	for c := range s.values {
		s.values[c] = s.values[c][:0]
	}
}

// copy makes s the same as from.
func (s *state) copy(from *state) {
	s.problem, s.rules = from.problem, from.rules
	s.bits = append(s.bits[:0], from.bits...)
	s.left = append(s.left[:0], from.left...)
	s.chosen = append(s.chosen[:0], from.chosen...)
	s.need = append(s.need[:0], from.need...)
	s.room = append(s.room[:0], from.room...)
	s.pins = append(s.pins[:0], from.pins...)
	s.bound = append(s.bound[:0], from.bound...)
	s.values = slices.Grow(s.values[:0], len(from.values))[:len(from.values)]
	for c := range s.values {
		s.values[c] = append(s.values[c][:0], from.values[c]...)
	}
}

// sets is how many sets a state has. The order is: used, paid, barred of each
// request, seen of each claim.
func (s *state) sets() int {
	n := 2 + len(s.problem.Requests)
	if s.rules.observed {
		n += s.rules.claims
	}
	return n
}

func (s *state) set(i int) Set {
	size := Words(s.problem.Devices)
	return Set(s.bits[i*size : (i+1)*size])
}

func (s *state) used() Set              { return s.set(0) }
func (s *state) paid() Set              { return s.set(1) }
func (s *state) barred(request int) Set { return s.set(2 + request) }
func (s *state) seen(claim int) Set     { return s.set(2 + len(s.problem.Requests) + claim) }

// choose makes a choice for a request that is open. A choice of all takes its
// devices at once. It says whether that is possible; if it is not, the state is
// of no use any more.
func (s *state) choose(request, choice int) bool {
	at := s.rules.slot(request, choice)
	slot := &s.rules.slots[at]
	size := slot.size()
	if size > int(s.room[slot.claim]) {
		return false
	}
	s.room[slot.claim] -= int32(size)
	s.chosen[request] = int32(choice)
	if !slot.All {
		s.need[request] = int32(size)
		return true
	}
	if size == 0 {
		return false
	}
	for d := slot.Candidates.Next(0); d >= 0; d = slot.Candidates.Next(d + 1) {
		if !s.pinned(at, d) || !s.take(at, d) {
			return false
		}
	}
	return true
}

// give takes a device for a request that has chosen and still wants one.
func (s *state) give(request, device int) bool {
	if !s.take(s.rules.slot(request, int(s.chosen[request])), device) {
		return false
	}
	s.need[request]--
	return true
}

// take uses a device for a choice, unless something forbids it: then the state
// remains as it is.
func (s *state) take(slot, device int) bool {
	if !s.fits(slot, device) {
		return false
	}
	at := &s.rules.slots[slot]
	s.barred(at.request).Add(device)
	if s.rules.observed && !s.problem.Shared.Has(device) {
		s.seen(at.claim).Add(device)
	}
	for _, rule := range s.rules.of(slot) {
		s.bind(rule, device)
	}
	if at.Observe {
		return true
	}
	s.pay(at, device)
	if s.problem.Shared.Has(device) {
		s.paid().Add(device)
	} else {
		s.used().Add(device)
	}
	return true
}

// fits says whether a choice can use a device, whatever is pinned.
func (s *state) fits(slot, device int) bool {
	at := &s.rules.slots[slot]
	if !at.Candidates.Has(device) || s.barred(at.request).Has(device) {
		return false
	}
	if !s.problem.Shared.Has(device) {
		if !at.Observe && s.used().Has(device) || s.rules.observed && s.seen(at.claim).Has(device) {
			return false
		}
	}
	for _, rule := range s.rules.of(slot) {
		if !s.allows(rule, device) {
			return false
		}
	}
	if at.Observe || !s.pay(at, device) {
		return at.Observe
	}
	s.refund(at, device)
	return true
}
