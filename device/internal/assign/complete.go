// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import "slices"

// frame is one state on the way down, and what can be done next.
type frame struct {
	state   state
	options []int32
	spare   []int32
	// looks are what the options look like, key is the state's.
	looks [][]byte
	key   []byte
}

// repeats says whether an option looks like one before it: it leads to the same.
func (f *frame) repeats(i int) bool {
	return slices.ContainsFunc(f.looks[:i], func(l []byte) bool { return string(l) == string(f.looks[i]) })
}

func (s *Solver) frame(depth int) *frame {
	for depth >= len(s.frames) {
		s.frames = append(s.frames, &frame{})
	}
	return s.frames[depth]
}

// complete says whether the requests can be given all that they want from where
// the state is. If so, s.trial is one way to do it. The state stays as it is.
//
// It looks at the state without what makes it hard, the constraints that are open
// and the choices that are. If that cannot be completed, neither can the state; if
// what was found holds with the constraints too, that is the answer; otherwise it
// branches over whatever has the fewest options.
func (s *Solver) complete(from *state, depth int) answer {
	f := s.frame(depth)
	f.state.copy(from)
	st := &f.state
	if s.ended() {
		return ended
	}
	if !s.settle(st) || !s.wants.read(s, st) || !s.seated(st) {
		return never
	}
	match, concerned := s.tightest(f)
	if concerned && len(f.options) == 0 {
		return never
	}
	if found := s.relax(st); found != yes {
		return found
	}
	request := s.undecided(f, concerned)
	if s.completes(st) {
		copy(s.trial.choices, st.chosen)
		return yes
	}
	f.key = s.describe(st, f.key[:0])
	if _, known := s.failed.recall(f.key); known {
		return never
	}
	var found answer
	if request >= 0 {
		found = s.branchChoices(f, request, depth)
	} else {
		found = s.branchValues(f, match, depth)
	}
	if found == never {
		s.failed.remember(f.key, 0)
	}
	return found
}

// settle makes the choices that are no choices: where one is left that could be
// made.
func (s *Solver) settle(st *state) bool {
	for again := true; again; {
		again = false
		for r := range st.chosen {
			if st.chosen[r] != open {
				continue
			}
			options, only := 0, 0
			for k := range s.rules.choices(r) {
				if s.viable(st, s.rules.slot(r, k), s.scratch) {
					options++
					only = k
				}
			}
			switch options {
			case 0:
				return false
			case 1:
				if !st.choose(r, only) {
					return false
				}
				again = true
			}
		}
	}
	return s.rooms(st)
}

// rooms says whether each claim has room for the least that its requests want.
func (s *Solver) rooms(st *state) bool {
	for claim := range st.room {
		room := int(st.room[claim])
		for r := range st.chosen {
			if st.problem.Requests[r].Claim != claim || st.chosen[r] != open {
				continue
			}
			least := st.problem.Devices
			for k := range s.rules.choices(r) {
				least = min(least, s.rules.slots[s.rules.slot(r, k)].size())
			}
			room -= least
		}
		if room < 0 {
			return false
		}
	}
	return true
}

// tightest finds the open Match with the fewest values to pin it to, which become
// the options.
func (s *Solver) tightest(f *frame) (match int, concerned bool) {
	f.options = f.options[:0]
	for c := range f.state.pins {
		if f.state.problem.Constraints[c].Kind != Match || f.state.pins[c] != open {
			continue
		}
		var concerns bool
		f.spare, concerns = s.appendViable(&f.state, c, f.spare[:0])
		if concerns && (!concerned || len(f.spare) < len(f.options)) {
			f.options, f.spare = f.spare, f.options
			match, concerned = c, true
		}
	}
	return match, concerned
}

// undecided finds the open request with the fewest choices, if it has fewer than
// there are values to pin. Its choices become the options.
func (s *Solver) undecided(f *frame, concerned bool) int {
	request := -1
	for r, chosen := range f.state.chosen {
		if chosen != open {
			continue
		}
		f.spare = f.spare[:0]
		for k := range s.rules.choices(r) {
			if s.viable(&f.state, s.rules.slot(r, k), s.scratch) {
				f.spare = append(f.spare, int32(k))
			}
		}
		if request < 0 && !concerned || len(f.spare) < len(f.options) {
			f.options, f.spare = f.spare, f.options
			request = r
		}
	}
	return request
}

func (s *Solver) branchChoices(f *frame, request, depth int) answer {
	child := s.frame(depth + 1)
	for _, k := range f.options {
		child.state.copy(&f.state)
		if !child.state.choose(request, int(k)) {
			continue
		}
		if found := s.complete(&child.state, depth+1); found != never {
			return found
		}
	}
	return never
}

func (s *Solver) branchValues(f *frame, match, depth int) answer {
	s.looksOf(f, match)
	child := s.frame(depth + 1)
	for i, v := range f.options {
		if f.repeats(i) {
			continue
		}
		child.state.copy(&f.state)
		child.state.pins[match] = v
		if found := s.complete(&child.state, depth+1); found != never {
			return found
		}
	}
	return never
}
