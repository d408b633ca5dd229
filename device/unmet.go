// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/device/internal/assign"
	"github.com/berth-scheduler/berth/reason"
)

// explainUnmet tells of a constraint that cannot be held.
func (o *offer) explainUnmet(found fault) *reason.Rejection {
	first := o.question.problem.Constraints[found.constraint].Members[0]
	index := found.choice
	r := o.rejection(found.code, found.request, index)
	c := o.problem.choice(found.request, index)
	facts := &r.Facts
	facts.Class, facts.Devices = c.class.Name, o.facts(c)
	o.constraintFacts(found.constraint, facts)
	t := o.tallyOf(found.constraint, o.free)
	facts.Devices.Groups = t.groups()
	facts.Devices.Refused = append(facts.Devices.Refused, o.valueless(found.constraint, first, c)...)
	if len(t.requests) > 1 {
		for _, m := range t.requests {
			facts.Requests = append(facts.Requests, o.problem.fullName(m.request, m.choice))
		}
	}
	facts.Wanted = number(t.wanted)
	if facts.Constraint == "matchAttribute" {
		all := o.tallyOf(found.constraint, o.obtainable)
		facts.Devices.Most = all.most()
	}
	switch most := t.most(); {
	case facts.Constraint == "compatibilityGroups":
	case most < t.wanted:
		facts.Had = number(most)
	case !t.lists():
		facts.Detail = "this could be had alone, but not together with what the other requests and constraints want"
	}
	return r
}

// explainConstraint adds a constraint of the choice that no devices could meet
// even if nobody held one, if there is any.
func (o *offer) explainConstraint(request, index int, facts *reason.Facts) {
	c := o.problem.choice(request, index)
	for i := range o.problem.constraints {
		of := &o.problem.constraints[i]
		for _, m := range of.members {
			if m.request != request || m.choice != index || of.kind != assign.Match {
				continue
			}
			values := o.values(m.column, nil)
			t := tally{offer: o, kind: of.kind, key: o.problem.columns[m.column], wanted: o.demand(&o.problem.requests[request], index)}
			t.requests = []tallied{{request: request, choice: index, demand: t.wanted, devices: o.obtainable(c), values: &values}}
			if most := t.most(); most < t.wanted {
				free := t
				free.requests = []tallied{{request: request, choice: index, demand: t.wanted, devices: o.free(c), values: &values}}
				facts.Attribute, facts.Constraint = string(of.attribute), "matchAttribute"
				facts.Devices.Most, facts.Devices.Groups = most, free.groups()
				return
			}
		}
	}
}

func (o *offer) free(c *choice) assign.Set { return o.sieved[c.sieve].free }

// obtainable are the devices that the choice could have if nobody held any.
func (o *offer) obtainable(c *choice) assign.Set {
	s, all := &o.problem.sieves[c.sieve], slices.Clone(o.sieved[c.sieve].match)
	for i := all.Next(0); i >= 0; i = all.Next(i + 1) {
		at := o.devices[i]
		d := &o.node.Pools[at.pool].Pool.devices[at.device]
		if d.needs&o.missing != 0 || o.taint(s, d) != nil {
			all.Drop(i)
		}
	}
	return all
}

// tally counts devices by the value of a constraint's attribute. Lists count with
// each of their values.
type tally struct {
	offer *offer
	kind  assign.Kind
	key   columnKey
	// common is the numbering of the values, nil if it is that of the key alone.
	common   *numbering
	requests []tallied
	wanted   int
	// groupNames are what the values mean that are compatibility groups.
	groupNames []string
}

// tallied is one request under the constraint, with the first of its choices that
// is.
type tallied struct {
	request, choice int
	demand          int
	devices         assign.Set
	values          *assign.Values
}

// tallyOf counts those of the devices that each request may have by a function.
func (o *offer) tallyOf(constraint int, of func(*choice) assign.Set) tally {
	q := &o.question.problem.Constraints[constraint]
	t := tally{offer: o, kind: q.Kind}
	if constraint < len(o.problem.constraints) {
		t.key = o.problem.columns[o.problem.constraints[constraint].members[0].column]
		if o.problem.mixed {
			t.common = &o.question.numbering
		}
	} else {
		t.groupNames = o.question.sets[constraint-len(o.problem.constraints)].values()
	}
	for _, m := range q.Members {
		if n := len(t.requests); n > 0 && t.requests[n-1].request == m.Request {
			continue
		}
		k := o.alive[m.Request][m.Choice]
		demand := o.demand(&o.problem.requests[m.Request], k)
		t.wanted += demand
		t.requests = append(t.requests, tallied{
			request: m.Request, choice: k, demand: demand, devices: of(o.problem.choice(m.Request, k)), values: m.Values,
		})
	}
	return t
}

// lists says whether a device has several values: such devices may contradict each
// other in more ways than are counted.
func (t *tally) lists() bool {
	return slices.ContainsFunc(t.requests, func(r tallied) bool { return r.values.Lists != nil })
}

// each calls a function with each value that a device has for a request.
func (t *tally) each(r *tallied, visit func(device int, value int32)) {
	for d := r.devices.Next(0); d >= 0; d = r.devices.Next(d + 1) {
		switch v := r.values.One[d]; {
		case v >= 0:
			visit(d, v)
		case v == assign.Many:
			for _, one := range r.values.Lists[int32(d)] {
				visit(d, one)
			}
		}
	}
}

// groups are the devices by value, the largest group first.
func (t *tally) groups() []reason.Group {
	names := t.groupNames
	if names == nil {
		names = t.names()
	}
	devices := map[int32]map[int]bool{}
	for i := range t.requests {
		t.each(&t.requests[i], func(d int, v int32) {
			if devices[v] == nil {
				devices[v] = map[int]bool{}
			}
			devices[v][d] = true
		})
	}
	var groups []reason.Group
	for v, of := range devices {
		groups = append(groups, reason.Group{Value: names[v], Free: len(of)})
	}
	slices.SortFunc(groups, func(a, b reason.Group) int {
		return cmp.Or(cmp.Compare(b.Free, a.Free), cmp.Compare(a.Value, b.Value))
	})
	return groups
}

// names are what the numbers of the values mean, in the order in which they are
// counted.
func (t *tally) names() []string {
	var names []string
	if t.common != nil {
		for _, v := range t.common.values {
			names = append(names, v.String())
		}
		return names
	}
	seen := map[value]bool{}
	for i := range t.offer.segments {
		at := &t.offer.segments[i]
		c := t.offer.node.Pools[at.pool].Pool.column(t.key, t.offer.problem.options.Selectors)
		if len(t.offer.segments) == 1 {
			for _, v := range c.values {
				names = append(names, v.String())
			}
			return names
		}
		for d := at.first; d < at.end; d++ {
			list := c.Lists[d]
			if one := c.One[d]; one >= 0 {
				list = []int32{one}
			}
			for _, n := range list {
				if v := c.values[n]; !seen[v] {
					seen[v] = true
					names = append(names, v.String())
				}
			}
		}
	}
	return names
}

// most is how many devices the requests can have at best when the constraint is
// all that there is: with one value, or with all values different.
func (t *tally) most() int {
	if t.kind == assign.Distinct {
		return t.fill(func(r int, visit func(seat int)) {
			t.each(&t.requests[r], func(_ int, v int32) { visit(int(v)) })
		})
	}
	// Of many devices each may have a value of its own, so all are looked at once and
	// not once for each value. having are those that each request may have of a value.
	having := map[int32][][]int{}
	for r := range t.requests {
		t.each(&t.requests[r], func(d int, v int32) {
			if having[v] == nil {
				having[v] = make([][]int, len(t.requests))
			}
			having[v][r] = append(having[v][r], d)
		})
	}
	most := 0
	for _, devices := range having {
		most = max(most, t.fill(func(r int, visit func(seat int)) {
			for _, d := range devices[r] {
				visit(d)
			}
		}))
	}
	return most
}

// fill gives seats to requests, as many as possible, along augmenting paths.
func (t *tally) fill(seats func(r int, visit func(seat int))) int {
	owner := map[int]int{}
	var give func(r int, seen map[int]bool) bool
	give = func(r int, seen map[int]bool) (given bool) {
		seats(r, func(seat int) {
			if given || seen[seat] {
				return
			}
			seen[seat] = true
			if other, taken := owner[seat]; !taken || give(other, seen) {
				owner[seat], given = r, true
			}
		})
		return given
	}
	total := 0
	for r := range t.requests {
		for range t.requests[r].demand {
			if !give(r, map[int]bool{}) {
				break
			}
			total++
		}
	}
	return total
}

// valueless are the free devices of a choice that cannot be under a constraint.
func (o *offer) valueless(constraint int, m assign.Member, c *choice) []reason.Refused {
	if constraint >= len(o.problem.constraints) {
		return nil
	}
	var refused []reason.Refused
	attribute := o.problem.constraints[constraint].attribute
	free := o.free(c)
	for i := free.Next(0); i >= 0; i = free.Next(i + 1) {
		if m.Values.One[i] != assign.None {
			continue
		}
		at := o.devices[i]
		pool := o.node.Pools[at.pool].Pool
		why := "no attribute " + string(attribute)
		if a, _ := attributeOf(pool.id.Driver, pool.devices[at.device].api, attribute); listed(a) {
			why = "a list as attribute " + string(attribute) + ", and the feature gate DRAListTypeAttributes is off"
		}
		refused = append(refused, reason.Refused{Device: o.name(i), Why: why})
	}
	return refused
}
