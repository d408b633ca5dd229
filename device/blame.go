// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"
	"sort"

	"github.com/berth-scheduler/berth/device/internal/assign"
	"github.com/berth-scheduler/berth/reason"
)

// fault is why requests that could each be met alone cannot be met together.
type fault struct {
	code reason.Code
	// request is the first that cannot be met along with those before it, or the
	// first under the constraint.
	request int
	// choice is the first of its choices that is under the constraint, as the question
	// numbers them; 0 without a constraint.
	choice int
	// constraint is the first that cannot be held along with those before it, as the
	// question numbers them; -1 if none is to blame.
	constraint int
}

// relaxation is what a question leaves out.
type relaxation uint8

const (
	// countOnly leaves out counters, capacity and constraints, noCapacity the latter
	// two, noConstraints the last.
	countOnly relaxation = iota
	noCapacity
	noConstraints
)

// blame finds out why the last question has no answer: it asks again for less,
// and what makes the answer a no is the reason. Where the budget ends before that
// is known, whatever comes last is to blame.
func (s *search) blame() fault {
	q := &s.offer.question.problem
	code := reason.DevicesShared
	for _, step := range [...]struct {
		leaveOut relaxation
		code     reason.Code
		counts   bool
	}{
		{countOnly, reason.DevicesShared, true},
		{noCapacity, reason.CountersShort, q.Charge != nil},
		{noConstraints, reason.CapacityShort, drawing(q)},
	} {
		if !step.counts {
			continue
		}
		code = step.code
		if relaxed := s.relax(q, step.leaveOut); s.impossible(&relaxed) {
			return fault{code: code, request: s.breaking(relaxed), constraint: -1}
		}
	}
	if len(q.Constraints) == 0 {
		return fault{code: code, request: s.breaking(*q), constraint: -1}
	}
	last := len(q.Constraints) - 1
	relaxed := *q
	for c := range last {
		relaxed.Constraints = q.Constraints[:c+1]
		if s.impossible(&relaxed) {
			last = c
			break
		}
	}
	first := q.Constraints[last].Members[0]
	return fault{code: reason.ConstraintUnmet, constraint: last, request: first.Request, choice: first.Choice}
}

func (s *search) relax(q *assign.Problem, leaveOut relaxation) assign.Problem {
	relaxed := *q
	relaxed.Constraints = nil
	if leaveOut == countOnly {
		relaxed.Charge = nil
	}
	if leaveOut != noConstraints && drawing(q) {
		relaxed.Requests = slices.Clone(q.Requests)
		for r := range relaxed.Requests {
			relaxed.Requests[r].Choices = slices.Clone(relaxed.Requests[r].Choices)
			for k := range relaxed.Requests[r].Choices {
				relaxed.Requests[r].Choices[k].Draw = nil
			}
		}
	}
	return relaxed
}

// drawing says whether any choice takes a part of a device's capacity.
func drawing(q *assign.Problem) bool {
	for r := range q.Requests {
		for k := range q.Requests[r].Choices {
			if q.Requests[r].Choices[k].Draw != nil {
				return true
			}
		}
	}
	return false
}

func (s *search) impossible(q *assign.Problem) bool {
	return s.solver.Solve(q, assign.InOrder, s.offer.problem.options.Budget) == assign.Impossible
}

// breaking is the first request that cannot be met along with those before it.
func (s *search) breaking(q assign.Problem) int {
	requests := q.Requests
	first := sort.Search(len(requests)-1, func(n int) bool {
		q.Requests = requests[:n+1]
		return s.impossible(&q)
	})
	return first
}

// together are requests that cannot be met together, while they could be without
// any one of them. The breaking one is among them.
func (s *search) together(f fault) []int {
	q := s.offer.question.problem
	q.Constraints, q.Requests = nil, q.Requests[:f.request+1]
	if found := s.solver.Blame(&q, s.offer.problem.options.Budget); len(found.Requests) > 0 {
		return found.Requests
	}
	return []int{f.request}
}

// mostOf is how many devices a request could have if it was alone and there were no
// constraints.
func (s *search) mostOf(request int) (most int, known bool) {
	q := s.offer.question.problem
	of := q.Requests[request]
	if len(of.Choices) != 1 || of.Choices[0].All {
		return 0, false
	}
	choices := []assign.Choice{of.Choices[0]}
	q.Constraints, q.Requests = nil, []assign.Request{{Claim: of.Claim, Choices: choices}}
	return sort.Search(of.Choices[0].Count, func(n int) bool {
		choices[0].Count = n + 1
		return s.impossible(&q)
	}), true
}
