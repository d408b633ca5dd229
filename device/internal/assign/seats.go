// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import "slices"

// seating tests a Distinct constraint for itself: each value is a seat that one
// device can take, and each of its requests needs so many of them. That is a
// question of matching requests with values.
type seating struct {
	wants []want
	bits  []uint64
	free  Set
}

// seated says whether each Distinct constraint has values enough for the requests
// that have chosen, as far as it can be seen of it alone. A device of several
// values counts as if it took any one of them, a device that the constraint does
// not concern as if it was always there.
func (s *Solver) seated(st *state) bool {
	for c := range st.problem.Constraints {
		if st.problem.Constraints[c].Kind == Distinct && !s.seats(st, c) {
			return false
		}
	}
	return true
}

func (s *Solver) seats(st *state, c int) bool {
	constraint := &st.problem.Constraints[c]
	t := &s.seating
	size := Words(int(s.portrait.ends[c]))
	t.wants = t.wants[:0]
	t.bits = zeroed(t.bits, size*(len(constraint.Members)+1))
	for i := range constraint.Members {
		member := &constraint.Members[i]
		if st.chosen[member.Request] != int32(member.Choice) || st.need[member.Request] == 0 {
			continue
		}
		values := Set(t.bits[i*size : (i+1)*size])
		need := int(st.need[member.Request])
		accept := s.wants.accept[member.Request]
		for d := accept.Next(0); d >= 0; d = accept.Next(d + 1) {
			s.steps++
			if member.Values.One[d] == Exempt {
				need--
				continue
			}
			for _, v := range member.Values.list(d) {
				values.Add(int(v))
			}
		}
		t.wants = append(t.wants, want{demand: need, accept: values})
	}
	t.free = slices.Grow(t.free[:0], size)[:size]
	for w := range t.free {
		t.free[w] = ^uint64(0)
	}
	s.matching.reset(t.free, len(t.wants))
	for w := range t.wants {
		for n := t.wants[w].demand; n > 0; n-- {
			if !s.matching.augment(w, t.wants) {
				return false
			}
		}
	}
	return true
}
