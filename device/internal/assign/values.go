// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

// tally counts values.
type tally struct {
	counts, met []int32
}

// viable appends the values that a Match could be pinned to: those that each
// member has enough devices of. none says that the constraint concerns nobody for
// now.
func (s *Solver) appendViable(st *state, c int, viable []int32) (found []int32, concerns bool) {
	constraint := &st.problem.Constraints[c]
	end := int(s.portrait.ends[c])
	s.counts.met = filled(s.counts.met, end, 0)
	members := int32(0)
	valued := false
	for i := range constraint.Members {
		member := &constraint.Members[i]
		r := member.Request
		if st.chosen[r] != int32(member.Choice) || st.need[r] == 0 {
			continue
		}
		members++
		s.counts.counts = filled(s.counts.counts, end, 0)
		exempt := int32(0)
		accept := s.wants.accept[r]
		for d := accept.Next(0); d >= 0; d = accept.Next(d + 1) {
			s.steps++
			if member.Values.One[d] == Exempt {
				exempt++
				continue
			}
			valued = true
			for _, v := range member.Values.list(d) {
				s.counts.counts[v]++
			}
		}
		for v, count := range s.counts.counts {
			if count+exempt >= st.need[r] {
				s.counts.met[v]++
			}
		}
		s.steps += int64(end)
	}
	switch {
	case members == 0 || !valued:
		return viable, false
	case st.bound[c]:
		for _, v := range st.values[c] {
			if s.counts.met[v] == members {
				viable = append(viable, v)
			}
		}
	default:
		for v, met := range s.counts.met {
			if met == members {
				viable = append(viable, int32(v))
			}
		}
	}
	return viable, true
}
