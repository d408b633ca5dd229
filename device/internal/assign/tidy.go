// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import "slices"

// tidy makes the witness use earlier devices where that costs nothing: earlier
// requests first, by changing what two requests have, or one device of a request
// for an earlier one.
func (s *Solver) tidy() {
	for r := range s.witness.devices {
		own := s.witness.devices[r]
		slices.Sort(own)
		for q := r + 1; q < len(s.witness.devices); q++ {
			slices.Sort(s.witness.devices[q])
			if slices.Compare(s.witness.devices[q], s.witness.devices[r]) < 0 && len(s.witness.devices[q]) == len(own) {
				s.exchange(r, q)
			}
		}
		for i := range s.witness.devices[r] {
			s.advance(r, i)
		}
		slices.Sort(s.witness.devices[r])
	}
}

// exchange changes the devices of two requests, if the witness is as good then.
func (s *Solver) exchange(r, q int) {
	devices := s.witness.devices
	devices[r], devices[q] = devices[q], devices[r]
	if !s.asGood() {
		devices[r], devices[q] = devices[q], devices[r]
	}
}

// advance gives a request an earlier device for one that it has, if the witness is
// as good then.
func (s *Solver) advance(r, i int) {
	own := s.witness.devices[r]
	slot := s.rules.slot(r, int(s.root.chosen[r]))
	candidates := s.rules.slots[slot].Candidates
	tries := 0
	for d := candidates.Next(0); d >= 0 && d < int(own[i]) && tries < repairs; d = candidates.Next(d + 1) {
		if slices.Contains(own, int32(d)) || !s.root.fits(slot, d) {
			continue
		}
		if holder, _ := s.witness.holder(d); holder >= 0 && !s.problem.Shared.Has(d) {
			continue
		}
		tries++
		e := own[i]
		own[i] = int32(d)
		if s.asGood() {
			return
		}
		own[i] = e
	}
}

// asGood says whether the witness still completes the root, at the best price.
func (s *Solver) asGood() bool {
	return !s.ended() && s.holds(&s.root, &s.witness) && slices.Equal(s.priceOf(&s.witness), s.best)
}

// priceOf is the price of a witness that completes the root, and that was the last to be
// asked whether it holds. It is good until the next one.
func (s *Solver) priceOf(w *witness) []int64 {
	k := &s.pack
	k.total = zeroed(k.total, k.width)
	k.touched = zeroed(k.touched, len(s.uses.left)-s.uses.marksFrom)
	for r, devices := range w.devices {
		slot := s.rules.slot(r, int(s.root.chosen[r]))
		if s.rules.slots[slot].Observe {
			continue
		}
		for _, d := range devices {
			k.marks = k.appendMarks(k.marks[:0], s, slot, int(d))
			for _, m := range k.marks {
				s.steps++
				if m.resource == nobody {
					k.total[m.column]++
					continue
				}
				if at := int(m.resource) - s.uses.marksFrom; !k.touched[at] {
					k.touched[at] = true
					k.total[m.column]++
				}
			}
		}
	}
	for u := range k.units {
		parts := k.parts[k.units[u].from:k.units[u].to]
		before := k.largest(s, parts, func(counter int32) int64 { return s.root.left[counter] })
		after := k.largest(s, parts, func(counter int32) int64 { return s.probe.left[counter] })
		k.total[shrinks] += int64(before - after)
	}
	return k.total
}
