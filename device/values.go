// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"

	"github.com/berth-scheduler/berth/device/internal/assign"
)

// constraints passes on those of the claims, and one more for each counter set
// whose devices declare compatibility groups.
func (o *offer) constraints() {
	q, p := &o.question, &o.question.problem
	p.Constraints = p.Constraints[:0]
	if len(o.problem.constraints) > 0 {
		// The values stay where they are while members point at them.
		q.values = resize(q.values, len(o.problem.columns))
		var common *numbering
		if o.problem.mixed {
			common = &q.numbering
			common.reset()
		}
		for i := range q.values {
			q.values[i] = o.values(i, common)
		}
	}
	for i := range o.problem.constraints {
		c := &o.problem.constraints[i]
		from := len(q.members)
		for _, m := range c.members {
			if k := slices.Index(o.alive[m.request], m.choice); k >= 0 {
				q.members = append(q.members, assign.Member{Request: m.request, Choice: k, Values: &q.values[m.column]})
			}
		}
		p.Constraints = append(p.Constraints, assign.Constraint{Kind: c.kind, Members: q.members[from:len(q.members):len(q.members)]})
	}
	for i := range o.node.Pools {
		if u := o.uses[i]; u.peers != nil && o.problem.options.Features.DeviceCompatibilityGroups && o.problem.options.Features.PartitionableDevices {
			for set := range u.peers {
				o.compatible(i, int32(set))
			}
		}
	}
}

// numbering gives equal values equal numbers, which count from 0.
type numbering struct {
	numbers map[value]int32
	values  []value
}

func (n *numbering) reset() {
	clear(n.numbers)
	n.values = n.values[:0]
}

func (n *numbering) of(v value) int32 {
	number, known := n.numbers[v]
	if !known {
		if n.numbers == nil {
			n.numbers = map[value]int32{}
		}
		number = int32(len(n.values))
		n.numbers[v] = number
		n.values = append(n.values, v)
	}
	return number
}

// values are those of one column on all devices of the offer, in a numbering that
// other columns may have in common with it, or in one of its own if that is nil.
func (o *offer) values(column int, common *numbering) assign.Values {
	if common == nil && len(o.segments) == 1 {
		at := &o.segments[0]
		c := o.column(o.node.Pools[at.pool].Pool, column)
		if at.first == 0 || c.Lists == nil {
			return assign.Values{One: c.One[at.first:at.end], Lists: c.Lists}
		}
	}
	v := assign.Values{One: make([]int32, 0, len(o.devices))}
	if common == nil {
		common = &numbering{}
	}
	for i := range o.segments {
		at := &o.segments[i]
		c := o.column(o.node.Pools[at.pool].Pool, column)
		for d := at.first; d < at.end; d++ {
			local := c.One[d]
			switch {
			case local >= 0:
				local = common.of(c.values[local])
			case local == assign.Many:
				list := make([]int32, len(c.Lists[d]))
				for j, n := range c.Lists[d] {
					list[j] = common.of(c.values[n])
				}
				if v.Lists == nil {
					v.Lists = map[int32][]int32{}
				}
				v.Lists[int32(len(v.One))] = list
			}
			v.One = append(v.One, local)
		}
	}
	return v
}

// compatible adds the rule of one counter set: the devices that consume from it
// have a compatibility group in common, with those in use too, or all of them have
// none. That is a value that all of them have, "no group" being one.
func (o *offer) compatible(pool int, set int32) {
	q, p, view, u := &o.question, &o.question.problem, o.node.Pools[pool].Pool, o.uses[pool]
	if len(view.counters.sets[set].groups) == 0 {
		return
	}
	v := &assign.Values{One: make([]int32, len(o.devices))}
	for i := range v.One {
		v.One[i] = assign.Exempt
	}
	for i := range o.segments {
		at := &o.segments[i]
		if at.pool != pool {
			continue
		}
		for d := at.first; d < at.end; d++ {
			for _, m := range view.counters.memberships[d] {
				if m.set == set && u.of(d) == idle {
					enter(v, int32(at.base)+d-at.first, u.peers[set], m.groups)
				}
			}
		}
	}
	from := len(q.members)
	for r := range p.Requests {
		for k := range p.Requests[r].Choices {
			if !p.Requests[r].Choices[k].Observe {
				q.members = append(q.members, assign.Member{Request: r, Choice: k, Values: v})
			}
		}
	}
	q.sets = append(q.sets, groupedSet{pool: view, set: set})
	p.Constraints = append(p.Constraints, assign.Constraint{Kind: assign.Match, Members: q.members[from:len(q.members):len(q.members)]})
}

// groupedSet is a counter set whose devices declare compatibility groups.
type groupedSet struct {
	pool *Pool
	set  int32
}

func (s groupedSet) name() string {
	return s.pool.id.String() + "/" + s.pool.counters.sets[s.set].name
}

// values are what the values of its devices mean.
func (s groupedSet) values() []string {
	return append([]string{"no group"}, s.pool.counters.sets[s.set].groups...)
}

// noGroup is the value of a device without compatibility groups.
const noGroup int32 = 0

func enter(v *assign.Values, place int32, in peers, groups []int32) {
	admitted := in.admitted(groups)
	switch {
	case !in.admits(groups):
		v.One[place] = assign.None
	case len(groups) == 0:
		v.One[place] = noGroup
	case len(admitted) == 1:
		v.One[place] = noGroup + 1 + admitted[0]
	default:
		v.One[place] = assign.Many
		list := make([]int32, len(admitted))
		for i, g := range admitted {
			list[i] = noGroup + 1 + g
		}
		if v.Lists == nil {
			v.Lists = map[int32][]int32{}
		}
		v.Lists[place] = list
	}
}
