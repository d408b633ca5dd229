// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import "slices"

// inOrder turns the root, which the witness completes, into the solution that
// comes first in order: request by request, each makes the first choice and takes
// the first devices that leave enough for the others. Most of them are accepted
// because the witness has them, or can be repaired to have them; only where it
// cannot is the question whether the rest can be completed asked again.
func (s *Solver) inOrder() Verdict {
	for r := range s.problem.Requests {
		if s.decide(r) == ended || s.pick(r) == ended {
			s.settleFor()
			return Settled
		}
	}
	return Found
}

// settleFor takes the witness as the answer.
func (s *Solver) settleFor() {
	for r, choice := range s.witness.choices {
		if s.root.chosen[r] == open {
			s.answer.Choices[r] = int(choice)
			if c := &s.problem.Requests[r].Choices[choice]; c.All {
				s.answer.all(r, c.Candidates)
			}
		}
		s.answer.Devices[r] = append(s.answer.Devices[r], s.witness.devices[r]...)
		slices.Sort(s.answer.Devices[r])
	}
}

// decide makes the first choice of a request that can be completed.
func (s *Solver) decide(r int) answer {
	if s.root.chosen[r] != open {
		return yes
	}
	for k := range s.rules.choices(r) {
		found := yes
		if s.witness.choices[r] != int32(k) {
			found = s.reconsider(func(st *state) bool { return st.choose(r, k) })
		}
		if found == ended {
			return ended
		}
		if found == yes {
			break
		}
	}
	s.choose(r)
	return yes
}

// choose makes the choice that the witness has for a request.
func (s *Solver) choose(r int) {
	k := int(s.witness.choices[r])
	s.root.choose(r, k)
	s.answer.Choices[r] = k
	if choice := &s.problem.Requests[r].Choices[k]; choice.All {
		s.answer.all(r, choice.Candidates)
	}
}

// pick gives a request the first devices that can be completed.
func (s *Solver) pick(r int) answer {
	slot := s.rules.slot(r, int(s.root.chosen[r]))
	candidates := s.rules.slots[slot].Candidates
	for d := candidates.Next(0); s.root.need[r] > 0; d = candidates.Next(d + 1) {
		s.steps++
		if !s.root.fits(slot, d) {
			continue
		}
		if !s.repair(r, d) {
			found := s.reconsider(func(st *state) bool { return st.give(r, d) })
			if found == ended {
				return ended
			}
			if found == never {
				s.refuse(r, slot, d)
				continue
			}
		}
		s.root.give(r, d)
		s.answer.Devices[r] = append(s.answer.Devices[r], int32(d))
	}
	return yes
}

// reconsider looks for a witness of what a step makes of the root.
func (s *Solver) reconsider(step func(st *state) bool) answer {
	f := s.frame(0)
	f.state.copy(&s.root)
	if !step(&f.state) {
		return never
	}
	found := s.complete(&f.state, 0)
	if found == yes {
		s.witness.copy(&s.trial)
	}
	return found
}

// refuse bars a device from a request, and with it all those that are alike: what
// one of them could not do, none can, and each further step leaves less.
func (s *Solver) refuse(r, slot, d int) {
	candidates := s.rules.slots[slot].Candidates
	for e := candidates.Next(d); e >= 0; e = candidates.Next(e + 1) {
		if s.alike(d, e) {
			s.root.barred(r).Add(e)
		}
	}
}

// alike says whether two devices could change places without anybody noticing.
func (s *Solver) alike(d, e int) bool {
	if d == e {
		return true
	}
	p := s.problem
	for i := range s.root.sets() {
		if set := s.root.set(i); set.Has(d) != set.Has(e) {
			return false
		}
	}
	if p.Shared.Has(d) != p.Shared.Has(e) || !slices.Equal(s.root.charge(d), s.root.charge(e)) {
		return false
	}
	for i := range s.rules.slots {
		s.steps++
		slot := &s.rules.slots[i]
		if slot.Candidates.Has(d) != slot.Candidates.Has(e) || !slices.Equal(slot.draw(d), slot.draw(e)) {
			return false
		}
		for _, rule := range s.rules.of(i) {
			if !rule.values.same(d, rule.values, e) {
				return false
			}
		}
	}
	return true
}

// repairs is how many devices a request offers for the one that it is to have.
const repairs = 4

// repair makes the witness have a device for a request, if that takes no more than
// to change devices: the request gives up another, and whoever had this one takes
// that. The witness then lacks the device, as the root is about to have it.
func (s *Solver) repair(r, d int) bool {
	own := s.witness.devices[r]
	if i := slices.Index(own, int32(d)); i >= 0 {
		s.witness.devices[r] = slices.Delete(own, i, i+1)
		return true
	}
	holder, place := s.witness.holder(d)
	for i := len(own) - 1; i >= max(0, len(own)-repairs); i-- {
		e := own[i]
		own[i] = int32(d)
		if holder >= 0 {
			s.witness.devices[holder][place] = e
		}
		if s.holds(&s.root, &s.witness) {
			s.witness.devices[r] = slices.Delete(own, i, i+1)
			return true
		}
		own[i] = e
		if holder >= 0 {
			s.witness.devices[holder][place] = int32(d)
		}
	}
	return false
}
