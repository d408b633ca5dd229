// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

// Core returns requests of an impossible problem that cannot be met together, though
// they could be without any one of them, in order. When the budget ends too early
// there may be more of them than it takes.
func (s *Solver) Core(p *Problem, budget int64) []int {
	var core []int
	q := *p
	q.Requests = append([]Request(nil), p.Requests...)
	nothing := make(Set, Words(p.Devices))
	for r, request := range p.Requests {
		q.Requests[r].Choices = make([]Choice, len(request.Choices))
		for k := range q.Requests[r].Choices {
			q.Requests[r].Choices[k].Candidates = nothing
		}
		impossible := budget > 0 && s.Solve(&q, InOrder, budget) == Impossible
		budget -= s.Steps() + 1
		if !impossible {
			q.Requests[r] = request
			core = append(core, r)
		}
	}
	return core
}
