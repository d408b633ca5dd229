// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/device/internal/assign"
	"github.com/berth-scheduler/berth/reason"
)

// claimLimit is how many devices one claim may hold.
const claimLimit = resourceapi.AllocationResultsMaxSize

// search is one question about one node. It is used by one goroutine, and used
// again for another node.
type search struct {
	offer  offer
	solver assign.Solver
}

// Solve looks for devices on one node for all open claims at once. The answer is
// a Plan, or a Rejection that says why not with code, node, claim and request;
// [Problem.Explain] has the facts. With a Rejection the Plan has no devices, only
// the warnings of selectors that failed.
//
// Solve changes nothing. It is the hot path and may run in parallel.
func (p *Problem) Solve(node NodeView) (Plan, *reason.Rejection) {
	for i := range p.allocated {
		if c := &p.allocated[i]; !c.reachable(node.Node) {
			return Plan{}, &reason.Rejection{Code: reason.ClaimElsewhere, Node: node.Node.Name, Claim: c.ref}
		}
	}
	if len(p.requests) == 0 {
		return Plan{problem: p, node: node}, nil
	}
	s := p.search()
	defer p.finish(s)
	s.offer.fill(p, node)
	if dead := s.offer.weigh(); dead.code != "" {
		return s.refused(), s.offer.rejection(dead.code, dead.request, dead.choice)
	}
	if s.offer.indifferent() {
		return s.first(), nil
	}
	switch s.solve(s.offer.ask()) {
	case assign.Impossible:
		found := s.offer.wayOut(s.blame())
		return s.refused(), s.offer.rejection(found.code, found.request, found.choice)
	case assign.Ended:
		return s.refused(), s.offer.rejection(reason.SearchEnded, 0, 0)
	}
	return s.plan(), nil
}

// indifferent says whether there is nothing to search for: one request for some
// devices under no constraint, of which none does more than to be used.
func (o *offer) indifferent() bool {
	p := o.problem
	if len(p.requests) != 1 || len(p.constraints) > 0 || o.alive[0][0] != 0 {
		return false
	}
	if c := &p.requests[0].choices[0]; c.all || c.access == observes {
		return false
	}
	for i := range o.segments {
		pool := o.node.Pools[o.segments[i].pool].Pool
		if pool.sharing || pool.needs&needCounters != 0 {
			return false
		}
		if p.options.Strategy == InOrder {
			continue
		}
		for _, c := range o.spread(pool) {
			if c != nil {
				return false
			}
		}
	}
	return true
}

// first takes the first devices for the only request.
func (s *search) first() Plan {
	o := &s.offer
	c := o.problem.choice(0, 0)
	picks := make([]pick, 0, c.count)
	free := o.sieved[c.sieve].free
	for d := free.Next(0); len(picks) < int(c.count); d = free.Next(d + 1) {
		picks = append(picks, pick{place: o.devices[d]})
	}
	return Plan{problem: o.problem, node: o.node, picks: picks, steps: c.count, failures: o.failures()}
}

func (s *search) solve(q *assign.Problem) assign.Verdict {
	o := &s.offer.problem.options
	strategy := assign.Packed
	if o.Strategy == InOrder {
		strategy = assign.InOrder
	}
	return s.solver.Solve(q, strategy, o.Budget)
}

func (p *Problem) search() *search {
	if s, ok := p.options.Selectors.searches.Get().(*search); ok {
		return s
	}
	return &search{}
}

// finish keeps the memory of a search, but nothing that it was about.
func (p *Problem) finish(s *search) {
	s.offer.problem, s.offer.node = nil, NodeView{}
	clear(s.offer.uses)
	p.options.Selectors.searches.Put(s)
}

func (s *search) refused() Plan {
	return Plan{problem: s.offer.problem, node: s.offer.node, failures: s.offer.failures()}
}

// plan keeps what the search found.
func (s *search) plan() Plan {
	o, answer := &s.offer, s.solver.Answer()
	total := 0
	for _, devices := range answer.Devices {
		total += len(devices)
	}
	picks := make([]pick, 0, total)
	for r, devices := range answer.Devices {
		choice := int32(o.alive[r][answer.Choices[r]])
		for _, d := range devices {
			picks = append(picks, pick{request: int32(r), choice: choice, place: o.devices[d]})
		}
	}
	return Plan{problem: o.problem, node: o.node, picks: picks, steps: s.solver.Steps(), failures: o.failures()}
}

// rejection is the slim form: what was refused, without facts.
func (o *offer) rejection(code reason.Code, request, choice int) *reason.Rejection {
	r := &o.problem.requests[request]
	return &reason.Rejection{Code: code, Node: o.node.Node.Name, Claim: o.problem.claimOf(r), Request: r.choices[choice].name}
}
