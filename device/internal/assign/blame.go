// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

// Cause is what makes a problem impossible.
type Cause uint8

const (
	// Unknown: the budget ended before the cause was found, or there is none.
	Unknown Cause = iota
	// Competing: the requests want more devices than there are for them, whatever
	// constraints and counters say.
	Competing
	// Crowded: the requests want more than one claim may have.
	Crowded
	// Overdrawn: the counters do not suffice for the requests, whatever constraints
	// say.
	Overdrawn
	// Unmet: the constraint cannot be held together with those before it.
	Unmet
)

// Blame says why a problem is impossible. The caller owns it.
type Blame struct {
	Cause Cause
	// Requests cannot be met together, though they could without any one of them.
	// When the budget ends too early there may be more of them than it takes.
	Requests []int
	// Constraint is the one that is Unmet.
	Constraint int
	// Counters are those that are Overdrawn: with more of any one of them the
	// requests might be met. Wanted is the least that the requests take of all of
	// them, Left what is left of all; where Wanted is not more than Left, it is not
	// the amounts that are in the way but how they are spread.
	Counters     []int32
	Wanted, Left int64
}

// Blame finds out why a problem is impossible. It adds what could be the cause bit
// by bit, devices, claims, counters and then each constraint, until the problem is
// impossible, and leaves out what is not needed for that.
func (s *Solver) Blame(p *Problem, budget int64) Blame {
	b := blaming{solver: s, budget: budget, problem: *p}
	q := &b.problem
	q.Charge, q.Constraints, q.Limit = nil, nil, 1<<30
	q.Requests = make([]Request, len(p.Requests))
	for r := range p.Requests {
		q.Requests[r] = p.Requests[r]
		q.Requests[r].Choices = undrawn(p.Requests[r].Choices)
	}
	if b.impossible() {
		return Blame{Cause: Competing, Requests: b.needed()}
	}
	q.Limit = p.Limit
	if b.impossible() {
		return Blame{Cause: Crowded, Requests: b.needed()}
	}
	q.Charge = p.Charge
	for r := range p.Requests {
		q.Requests[r].Choices = p.Requests[r].Choices
	}
	if b.impossible() {
		return b.overdrawn()
	}
	for c := range p.Constraints {
		q.Constraints = p.Constraints[:c+1]
		if b.impossible() {
			return Blame{Cause: Unmet, Constraint: c, Requests: b.needed()}
		}
	}
	return Blame{}
}

// blaming is a problem that is changed until only the cause is left of it.
type blaming struct {
	solver  *Solver
	budget  int64
	problem Problem
}

func undrawn(choices []Choice) []Choice {
	without := make([]Choice, len(choices))
	for k, choice := range choices {
		choice.Draw = nil
		without[k] = choice
	}
	return without
}

// impossible is false where the budget ends before that is known.
func (b *blaming) impossible() bool {
	if b.budget <= 0 {
		return false
	}
	verdict := b.solver.Solve(&b.problem, InOrder, b.budget)
	b.budget -= b.solver.Steps() + 1
	return verdict == Impossible
}

// needed leaves out one request after the other, as long as the problem remains
// impossible, and returns those that had to stay.
func (b *blaming) needed() []int {
	var needed []int
	nothing := make(Set, Words(b.problem.Devices))
	for r, request := range b.problem.Requests {
		without := make([]Choice, len(request.Choices))
		for k := range without {
			without[k].Candidates = nothing
		}
		b.problem.Requests[r].Choices = without
		if !b.impossible() {
			b.problem.Requests[r] = request
			needed = append(needed, r)
		}
	}
	return needed
}

// overdrawn finds the requests and the counters that do not suffice for them.
func (b *blaming) overdrawn() Blame {
	blame := Blame{Cause: Overdrawn, Requests: b.needed()}
	left := b.problem.Left
	b.problem.Left = append([]int64(nil), left...)
	for c := range left {
		b.problem.Left[c] = plenty
		if !b.impossible() {
			b.problem.Left[c] = left[c]
			blame.Counters = append(blame.Counters, int32(c))
			blame.Left = plus(blame.Left, max(left[c], 0))
		}
	}
	for _, r := range blame.Requests {
		blame.Wanted = plus(blame.Wanted, b.least(&b.problem.Requests[r], blame.Counters))
	}
	return blame
}

// plenty is more of a counter than devices could take.
const plenty = 1 << 62

// least is the least that a request takes of the counters together.
func (b *blaming) least(r *Request, counters []int32) int64 {
	least := int64(plenty)
	for k := range r.Choices {
		choice := &r.Choices[k]
		if choice.Observe {
			return 0
		}
		one, all := int64(plenty), int64(0)
		for d := choice.Candidates.Next(0); d >= 0; d = choice.Candidates.Next(d + 1) {
			amount := int64(0)
			for _, c := range counters {
				if b.problem.Charge != nil && !b.problem.Shared.Has(d) {
					amount = plus(amount, amountOf(b.problem.Charge[d], c))
				}
				amount = plus(amount, amountOf(choice.draw(d), c))
			}
			one, all = min(one, amount), plus(all, amount)
		}
		if !choice.All {
			all = 0
			for range choice.Count {
				all = plus(all, one)
			}
		}
		least = min(least, all)
	}
	return least
}
