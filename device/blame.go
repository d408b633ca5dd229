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
	// leaveOut is all that is not to blame, without a constraint.
	leaveOut relaxation
	// request is the first that cannot be met along with those before it, or the
	// first under the constraint.
	request int
	// choice is the first of its choices that is under the constraint, or without one
	// the first that is alive.
	choice int
	// constraint is the first that cannot be held along with those before it, as the
	// question numbers them; -1 if none is to blame.
	constraint int
}

// relaxation is what a question leaves out: that, and all that is named after it.
type relaxation uint8

const (
	noLimit relaxation = iota
	noCounters
	noCapacity
	noConstraints
)

// unlimited is a limit that no claim reaches.
const unlimited = 1 << 30

// blame finds out why the last question has no answer: it asks again for less,
// and what makes the answer a no is the reason. It does not ask what it knows: with
// nothing left out the answer is no. Where the budget ends before that is known,
// whatever comes last is to blame.
func (s *search) blame() fault {
	q := &s.offer.question.problem
	steps := [...]struct {
		leaveOut relaxation
		code     reason.Code
		counts   bool
	}{
		{noLimit, reason.DevicesShared, true},
		{noCounters, reason.ClaimTooLarge, crowded(q)},
		{noCapacity, reason.CountersShort, q.Charge != nil},
		{noConstraints, reason.CapacityShort, drawing(q)},
	}
	last := len(steps) - 1
	for !steps[last].counts {
		last--
	}
	for i, step := range steps[:last+1] {
		if !step.counts {
			continue
		}
		relaxed := s.relax(q, step.leaveOut)
		if i == last && len(q.Constraints) == 0 || s.impossible(&relaxed) {
			f := fault{code: step.code, leaveOut: step.leaveOut, request: s.breaking(relaxed), constraint: -1}
			f.choice = s.offer.alive[f.request][0]
			return f
		}
	}
	unmet := len(q.Constraints) - 1
	relaxed := *q
	for c := range unmet {
		relaxed.Constraints = q.Constraints[:c+1]
		if s.impossible(&relaxed) {
			unmet = c
			break
		}
	}
	first := q.Constraints[unmet].Members[0]
	return fault{code: reason.ConstraintUnmet, constraint: unmet, request: first.Request, choice: s.offer.alive[first.Request][first.Choice]}
}

// wayOut is for a claim that wants too many devices by the alternatives that can be
// had on the node. If others can be had as soon as somebody makes room, this is what
// the claim is waiting for.
func (o *offer) wayOut(found fault) fault {
	best := found
	if found.code != reason.ClaimTooLarge {
		return best
	}
	for r := range o.problem.requests {
		if o.problem.requests[r].claim != o.problem.requests[found.request].claim {
			continue
		}
		for k := range o.problem.requests[r].choices {
			if slices.Contains(o.alive[r], k) {
				continue
			}
			if code := o.shortage(r, k); hope(code) > max(hope(best.code), hope(reason.NoDeviceOfClass)) {
				best = fault{code: code, request: r, choice: k, constraint: -1}
			}
		}
	}
	return best
}

func (s *search) relax(q *assign.Problem, leaveOut relaxation) assign.Problem {
	relaxed := *q
	relaxed.Constraints = nil
	if leaveOut <= noLimit {
		relaxed.Limit = unlimited
	}
	if leaveOut <= noCounters {
		relaxed.Charge = nil
	}
	if leaveOut <= noCapacity && drawing(q) {
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

// crowded says whether any claim could want more devices than it may have.
func crowded(q *assign.Problem) bool {
	for first := range q.Requests {
		total := 0
		for r := range q.Requests {
			if q.Requests[r].Claim != q.Requests[first].Claim {
				continue
			}
			most := 0
			for k := range q.Requests[r].Choices {
				most = max(most, q.Requests[r].Choices[k].Count)
			}
			total += most
		}
		if total > q.Limit {
			return true
		}
	}
	return false
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
	q := s.relax(&s.offer.question.problem, f.leaveOut)
	q.Requests = q.Requests[:f.request+1]
	return s.solver.Core(&q, s.offer.problem.options.Budget)
}

// leastLimit is how many devices a claim would have to be allowed for its requests,
// and those before the breaking one, to be met.
func (s *search) leastLimit(f fault) int {
	q := s.relax(&s.offer.question.problem, noCounters)
	q.Requests = q.Requests[:f.request+1]
	most := 0
	for r := range q.Requests {
		for k := range q.Requests[r].Choices {
			most += q.Requests[r].Choices[k].Count
		}
	}
	return q.Limit + 1 + sort.Search(most, func(n int) bool {
		more := q
		more.Limit += 1 + n
		return !s.impossible(&more)
	})
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
