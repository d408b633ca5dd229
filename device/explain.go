// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/device/internal/assign"
	"github.com/berth-scheduler/berth/reason"
)

// Explain says why the claims cannot be allocated on the node, with all facts,
// and nil when they can. It asks for the same as [Problem.Solve] and starts with
// the same code, claim and request; what else stands in the way at the same time
// is in Also, each alternative for itself. It takes longer and is not meant for
// every node of every attempt.
func (p *Problem) Explain(node NodeView) *reason.Rejection {
	var all []*reason.Rejection
	for i := range p.allocated {
		if c := &p.allocated[i]; !c.reachable(node.Node) {
			all = append(all, c.elsewhere(node.Node))
		}
	}
	if len(p.requests) > 0 {
		s := p.search()
		defer p.finish(s)
		s.offer.fill(p, node)
		all = append(all, s.explain()...)
	}
	if len(all) == 0 {
		return nil
	}
	all[0].Also = all[1:]
	return all[0]
}

func (c *allocatedClaim) elsewhere(node *v1.Node) *reason.Rejection {
	r := &reason.Rejection{
		Code: reason.ClaimElsewhere, Node: node.Name, Claim: c.ref,
		Facts: reason.Facts{Attribute: c.where.Key, Values: slices.Clone(c.where.Values)},
	}
	if !c.handled(node) {
		r.Facts.Feature = needDeclared.they()
	}
	return r
}

func (s *search) explain() []*reason.Rejection {
	o := &s.offer
	if dead := o.weigh(); dead.code != "" {
		return o.explainDead(dead)
	}
	switch s.solve(o.ask()) {
	case assign.Ended:
		r := o.rejection(reason.SearchEnded, 0, 0)
		r.Facts.Steps = s.solver.Steps()
		return []*reason.Rejection{r}
	case assign.Impossible:
		found := s.blame()
		all := append(s.explainFault(found), s.explainOthers(found)...)
		if first := o.wayOut(found); first.code != found.code {
			all = slices.Insert(all, 0, o.explainShortage(first.code, first.request, first.choice))
		}
		return all
	}
	return nil
}

func (s *search) explainFault(found fault) []*reason.Rejection {
	switch found.code {
	case reason.ConstraintUnmet:
		return []*reason.Rejection{s.offer.explainUnmet(found)}
	case reason.ClaimTooLarge:
		r := s.offer.rejection(found.code, found.request, found.choice)
		r.Facts = tooLarge(r.Claim, r.Request, int64(s.leastLimit(found))).Facts
		r.Facts.Class = s.offer.problem.choice(found.request, found.choice).class.Name
		return []*reason.Rejection{r}
	}
	return s.explainTogether(found, s.together(found))
}

// explainOthers tells of the other alternatives of the request that is to blame
// why each of them cannot be had in place of the one that is told of already.
func (s *search) explainOthers(first fault) []*reason.Rejection {
	o := &s.offer
	alternatives := o.alive[first.request]
	var all []*reason.Rejection
	for _, k := range alternatives {
		if k == first.choice {
			continue
		}
		o.alive[first.request] = []int{k}
		if s.solve(o.ask()) == assign.Impossible {
			if found := s.blame(); found.request == first.request {
				all = append(all, s.explainFault(found)[0])
			}
		}
	}
	o.alive[first.request] = alternatives
	return all
}

// explainDead tells of each request that cannot be met even alone, the given one
// first, and why each of its alternatives cannot.
func (o *offer) explainDead(head refusal) []*reason.Rejection {
	all := []*reason.Rejection{o.explainShortage(head.code, head.request, head.choice)}
	for r := range o.problem.requests {
		if len(o.alive[r]) > 0 {
			continue
		}
		for k := range o.problem.requests[r].choices {
			if r != head.request || k != head.choice {
				all = append(all, o.explainShortage(o.shortage(r, k), r, k))
			}
		}
	}
	return all
}

func (o *offer) explainShortage(code reason.Code, request, index int) *reason.Rejection {
	of := &o.problem.requests[request]
	c := &of.choices[index]
	r := o.rejection(code, request, index)
	facts := &r.Facts
	facts.Class, facts.Devices = c.class.Name, o.facts(c)
	switch code {
	case reason.PoolIncomplete, reason.PoolInvalid:
		b := &o.blocked[0]
		if !c.all {
			b = o.blockedFor(c)
		}
		o.node.Pools[b.pool].Pool.explain(b.fault, facts)
	case reason.SelectorFailed:
		w := o.firstFailure(&o.problem.sieves[c.sieve])
		facts.Expression, facts.Detail = w.Expression, fmt.Sprintf("device %s: %s", w.Device, w.Error)
	case reason.AttributeFailed:
		o.explainUnderivable(c, facts)
	case reason.CapacityInvalid:
		facts.Detail = o.firstUncounted(c)
	case reason.ClaimTooLarge:
		wanted := c.count
		if c.all {
			wanted = int64(o.total(request, index))
		}
		*facts = tooLarge(r.Claim, r.Request, wanted).Facts
		facts.Class = c.class.Name
	default:
		facts.Wanted, facts.Had = number(max(o.demand(of, index), 1)), number(facts.Devices.Free)
		switch code {
		case reason.DevicesUnsupported:
			facts.Devices.Unusable, facts.Feature = o.unusable(c)
		case reason.CountersUnknown:
			o.explainUntold(c, facts)
		case reason.NotEnoughDevices:
			o.explainConstraint(request, index, facts)
		}
		if o.sieved[c.sieve].failed {
			w := o.firstFailure(&o.problem.sieves[c.sieve])
			facts.Expression, facts.Detail = w.Expression, shortError(w.Error)
		}
	}
	return r
}

// shortError leaves out the advice that follows a CEL error.
func shortError(text string) string {
	text, _, _ = strings.Cut(text, ". consider using CEL")
	return text
}

// explain says what is wrong with the pool: it is incomplete if it has no fault.
func (p *Pool) explain(fault string, facts *reason.Facts) {
	facts.Object = reason.Ref{Kind: "ResourcePool", Name: p.id.String()}
	facts.Generation = p.generation
	facts.Detail = fault
	if fault == "" {
		facts.Wanted, facts.Had = number(int(p.announced)), number(len(p.slices))
	}
}

func (o *offer) explainUnderivable(c *choice, facts *reason.Facts) {
	device, column, _ := o.underivable(c)
	key, at := o.problem.columns[column], o.devices[device]
	facts.Attribute, facts.Expression = string(key.attribute), key.program.key.expression
	facts.Detail = fmt.Sprintf("device %s: %s", o.name(device), shortError(o.node.Pools[at.pool].Pool.column(key, o.problem.options.Selectors).failed[at.device]))
	facts.Devices = nil
}

func (o *offer) firstUncounted(c *choice) string {
	for i := range o.devices {
		if why := o.misfit(&o.problem.sieves[c.sieve], i); why.broken != "" {
			return fmt.Sprintf("device %s: %s", o.name(i), why.broken)
		}
	}
	return ""
}

// explainUntold names the pool of which nobody can know what is left.
func (o *offer) explainUntold(c *choice, facts *reason.Facts) {
	match := o.sieved[c.sieve].match
	for i := match.Next(0); i >= 0; i = match.Next(i + 1) {
		if at := o.devices[i]; len(o.uses[at.pool].gone) > 0 {
			facts.Object = reason.Ref{Kind: "ResourcePool", Name: o.node.Pools[at.pool].Pool.id.String()}
			facts.Detail = strings.Join(o.uses[at.pool].gone, ", ")
			return
		}
	}
}

// unusable counts the matching devices that only a missing part of the API keeps
// from the choice, and says what those need.
func (o *offer) unusable(c *choice) (devices int, they string) {
	var texts []string
	match := o.sieved[c.sieve].match
	for i := match.Next(0); i >= 0; i = match.Next(i + 1) {
		if o.obstacleOf(c, i) != beyond {
			continue
		}
		devices++
		at := o.devices[i]
		if text := (o.node.Pools[at.pool].Pool.devices[at.device].needs & o.missing).they(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return devices, strings.Join(texts, ", or ")
}

// explainTogether tells of each of the requests that cannot be met together; the
// breaking one comes first and has what they want together.
func (s *search) explainTogether(found fault, members []int) []*reason.Rejection {
	o := &s.offer
	var all []*reason.Rejection
	var names []string
	union := make(assign.Set, assign.Words(len(o.devices)))
	wanted := 0
	inOrder := slices.Clone(members)
	slices.SortStableFunc(members, func(a, b int) int {
		switch found.request {
		case a:
			return -1
		case b:
			return 1
		}
		return 0
	})
	for _, m := range inOrder {
		names = append(names, o.problem.fullName(m, o.alive[m][0]))
	}
	for _, m := range members {
		k := o.alive[m][0]
		c := o.problem.choice(m, k)
		r := o.rejection(found.code, m, k)
		r.Facts.Class, r.Facts.Devices = c.class.Name, o.facts(c)
		r.Facts.Wanted = number(o.demand(&o.problem.requests[m], k))
		wanted += o.demand(&o.problem.requests[m], k)
		for w, word := range o.sieved[c.sieve].free {
			union[w] |= word
		}
		all = append(all, r)
	}
	all[0].Facts.Wanted = number(wanted)
	if len(members) > 1 {
		all[0].Facts.Requests = names
	} else if most, known := s.mostOf(members[0]); known {
		all[0].Facts.Had = number(most)
	}
	if found.code == reason.DevicesShared {
		all[0].Facts.Had = number(union.Count())
	}
	return all
}

func (p *Problem) fullName(request, choice int) string {
	r := &p.requests[request]
	if len(p.open) == 1 {
		return r.choices[choice].name
	}
	return p.open[r.claim].Name + "/" + r.choices[choice].name
}

func number(n int) *resource.Quantity { return resource.NewQuantity(int64(n), resource.DecimalSI) }

// misfit is what is taken of a device that the selectors of a sieve accept.
func (o *offer) misfit(s *sieve, i int) draw {
	at := o.devices[i]
	pool := o.node.Pools[at.pool].Pool
	o.rowsOf(s, pool)
	if o.judge(pool, o.rows, at.device) != accepted || !o.problem.options.Features.ConsumableCapacity {
		return draw{}
	}
	return s.demand.on(&pool.devices[at.device], o.problem.options.Features)
}

// obstacleOf is what keeps a matching device from a choice.
func (o *offer) obstacleOf(c *choice, i int) obstacle {
	at := o.devices[i]
	return o.obstacle(&o.problem.sieves[c.sieve], o.node.Pools[at.pool].Pool, o.uses[at.pool], at.device, o.misfit(&o.problem.sieves[c.sieve], i).amounts)
}

// constraintFacts is what a constraint of the question is about.
func (o *offer) constraintFacts(index int, facts *reason.Facts) {
	if index < len(o.problem.constraints) {
		c := &o.problem.constraints[index]
		facts.Attribute = string(c.attribute)
		facts.Constraint = "matchAttribute"
		if c.kind == assign.Distinct {
			facts.Constraint = "distinctAttribute"
		}
		return
	}
	facts.Constraint = "compatibilityGroups"
	facts.Attribute = o.question.sets[index-len(o.problem.constraints)].name()
}
