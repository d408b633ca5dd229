// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

// starved says whether some request finds too few devices for each of its choices,
// whatever the others get.
func (s *Solver) starved() bool {
	for r := range s.problem.Requests {
		starved := true
		for k := range s.problem.Requests[r].Choices {
			choice := &s.problem.Requests[r].Choices[k]
			candidates := choice.Candidates.Count()
			if choice.All {
				starved = starved && candidates == 0
			} else {
				starved = starved && candidates < choice.Count
			}
		}
		if starved {
			return true
		}
	}
	return false
}

// firstFit gives each request of the problem the first devices that are left to
// it, by its first choice, and never goes back. If that works out, no solution
// comes before it in order, and it is the answer.
func (s *Solver) firstFit() bool {
	for r := range s.problem.Requests {
		if s.rules.choices(r) == 0 || !s.root.choose(r, 0) {
			return false
		}
		candidates := s.problem.Requests[r].Choices[0].Candidates
		if s.problem.Requests[r].Choices[0].All {
			s.answer.all(r, candidates)
		}
		for d := candidates.Next(0); s.root.need[r] > 0; d = candidates.Next(d + 1) {
			if d < 0 {
				return false
			}
			s.steps++
			if s.root.give(r, d) {
				s.answer.Devices[r] = append(s.answer.Devices[r], int32(d))
			}
		}
	}
	return true
}

func (a *Answer) all(r int, devices Set) {
	for d := devices.Next(0); d >= 0; d = devices.Next(d + 1) {
		a.Devices[r] = append(a.Devices[r], int32(d))
	}
}

// keepFirstFit makes the answer of the first fit the witness.
func (s *Solver) keepFirstFit() {
	s.witness.reset(len(s.problem.Requests))
	for r := range s.witness.choices {
		s.witness.choices[r] = 0
		if !s.problem.Requests[r].Choices[0].All {
			s.witness.devices[r] = append(s.witness.devices[r], s.answer.Devices[r]...)
		}
	}
}
