// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import "slices"

// want is what requests want that nothing tells apart: so many of the same devices,
// on the same terms.
type want struct {
	// requests are those that were merged.
	requests []int32
	demand   int
	// slot is the choice, or open if that is not made yet: then the want is the
	// least that any of the choices would want.
	slot   int
	accept Set
}

// wants is what is left to decide in a state, without the open constraints.
type wants struct {
	all []want
	// accept has the devices that each request could be given next, of all its
	// choices if it is open; live are the requests that want something.
	accept []Set
	live   []int32

	bits     []uint64
	requests []int32
}

// read says what is wanted in a state. It is false if some request finds too few
// devices for itself.
func (t *wants) read(s *Solver, st *state) bool {
	p := st.problem
	size := Words(p.Devices)
	t.bits = zeroed(t.bits, size*(len(p.Requests)+1))
	t.accept = slices.Grow(t.accept[:0], len(p.Requests))[:len(p.Requests)]
	t.live, t.all = t.live[:0], t.all[:0]
	t.requests = slices.Grow(t.requests[:0], len(p.Requests))
	scratch := Set(t.bits[len(p.Requests)*size:])
	for r, chosen := range st.chosen {
		accept := Set(t.bits[r*size : (r+1)*size])
		t.accept[r] = accept
		if chosen != open {
			if st.need[r] == 0 {
				continue
			}
			if s.accepted(st, s.rules.slot(r, int(chosen)), accept) < int(st.need[r]) {
				return false
			}
			t.live = append(t.live, int32(r))
			continue
		}
		t.live = append(t.live, int32(r))
		for k := range s.rules.choices(r) {
			if slot := s.rules.slot(r, k); s.viable(st, slot, scratch) {
				for w, word := range scratch {
					accept[w] |= word
				}
			}
		}
	}
	for _, r := range t.live {
		t.join(s, st, int(r))
	}
	return true
}

// join merges a request with those before it that want the same, if there are any.
func (t *wants) join(s *Solver, st *state, r int) {
	if st.chosen[r] == open {
		if least := s.least(st, r); least > 0 {
			t.add(r, want{demand: least, slot: int(open), accept: t.accept[r]})
		}
		return
	}
	slot := s.rules.slot(r, int(st.chosen[r]))
	for i := range t.all {
		if w := &t.all[i]; w.slot != int(open) && s.same(st, w, slot, r) {
			// The requests of a want lie next to each other: make room.
			t.insert(i, int32(r))
			t.all[i].demand += int(st.need[r])
			return
		}
	}
	t.add(r, want{demand: int(st.need[r]), slot: slot, accept: t.accept[r]})
}

func (t *wants) add(r int, w want) {
	from := len(t.requests)
	t.requests = append(t.requests, int32(r))
	w.requests = t.requests[from:]
	t.all = append(t.all, w)
}

func (t *wants) insert(i int, r int32) {
	at := 0
	for j := range t.all[:i+1] {
		at += len(t.all[j].requests)
	}
	t.requests = slices.Insert(t.requests, at, r)
	at = 0
	for j := range t.all {
		n := len(t.all[j].requests)
		if j == i {
			n++
		}
		t.all[j].requests = t.requests[at : at+n]
		at += n
	}
}

// accepted finds the devices that a choice could be given next, and counts them.
func (s *Solver) accepted(st *state, slot int, into Set) int {
	candidates := s.rules.slots[slot].Candidates
	count := 0
	clear(into)
	for d := candidates.Next(0); d >= 0; d = candidates.Next(d + 1) {
		s.steps++
		if st.pinned(slot, d) && st.fits(slot, d) {
			into.Add(d)
			count++
		}
	}
	return count
}

// viable says whether an open choice could be made, for all that can be seen of it
// alone, and finds its devices.
func (s *Solver) viable(st *state, slot int, into Set) bool {
	at := &s.rules.slots[slot]
	size := at.size()
	return size <= int(st.room[at.claim]) && (size > 0 || !at.All) && s.accepted(st, slot, into) >= size
}

// least is how many devices an open request takes at least. It is 0 where not all
// of its choices take them for themselves.
func (s *Solver) least(st *state, r int) int {
	least := st.problem.Devices
	for k := range s.rules.choices(r) {
		slot := s.rules.slot(r, k)
		if !s.viable(st, slot, s.scratch) {
			continue
		}
		if s.rules.slots[slot].Observe {
			return 0
		}
		least = min(least, s.rules.slots[slot].size())
	}
	return least
}

// same says whether a request that has chosen can join a want.
func (s *Solver) same(st *state, w *want, slot, r int) bool {
	a, b := &s.rules.slots[w.slot], &s.rules.slots[slot]
	accept := s.wants.accept[r]
	if a.Observe != b.Observe || s.rules.observed && a.claim != b.claim || !slices.Equal(w.accept, accept) {
		return false
	}
	if st.need[r] != 1 || w.demand != len(w.requests) {
		// A device that is shared is in each request once, so how many devices a
		// request wants makes a difference, unless that is one.
		if st.problem.Shared != nil && accept.Common(st.problem.Shared) >= 0 || s.pack.tells(s, slot) || s.pack.tells(s, w.slot) {
			return false
		}
	}
	if a.Draw != nil || b.Draw != nil {
		for d := accept.Next(0); d >= 0; d = accept.Next(d + 1) {
			s.steps++
			if !slices.Equal(a.draw(d), b.draw(d)) {
				return false
			}
		}
	}
	return s.sameSeats(accept, w.slot, slot)
}

// sameSeats says whether two choices take the same values under the same Distinct
// constraints.
func (s *Solver) sameSeats(accept Set, a, b int) bool {
	as, bs := s.rules.of(a), s.rules.of(b)
	for {
		as, bs = skipMatch(as), skipMatch(bs)
		if len(as) == 0 || len(bs) == 0 {
			return len(as) == len(bs)
		}
		if as[0].constraint != bs[0].constraint || !s.sameValues(accept, as[0].values, bs[0].values) {
			return false
		}
		as, bs = as[1:], bs[1:]
	}
}

func skipMatch(rules []rule) []rule {
	for len(rules) > 0 && rules[0].kind == Match {
		rules = rules[1:]
	}
	return rules
}

func (s *Solver) sameValues(devices Set, a, b *Values) bool {
	if a == b {
		return true
	}
	for d := devices.Next(0); d >= 0; d = devices.Next(d + 1) {
		s.steps++
		if !a.same(d, b, d) {
			return false
		}
	}
	return true
}

// same says whether device d has the same values here as device e has there.
func (v *Values) same(d int, w *Values, e int) bool {
	if v.One[d] != w.One[e] {
		return false
	}
	return v.One[d] != Many || slices.Equal(v.Lists[int32(d)], w.Lists[int32(e)])
}
