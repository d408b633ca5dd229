// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "github.com/berth-scheduler/berth/device/internal/assign"

// question puts an offer into numbers for the search. It is memory that is used
// again for the next node.
type question struct {
	problem assign.Problem
	choices []assign.Choice
	members []assign.Member
	values  []assign.Values
	// numbering is that of all columns together, where some are mixed.
	numbering numbering
	// sets are the counter sets that the constraints after those of the claims are
	// about.
	sets    []groupedSet
	amounts []assign.Amount
	charges [][]assign.Amount
	draws   [][]assign.Amount
	// places are the numbers of the first counter of each device that may be shared,
	// which are those of its capacity.
	places []int32
	levels [][]int32
	groups []int32
}

// ask makes the question. What weigh found dead is left out.
func (o *offer) ask() *assign.Problem {
	q := &o.question
	p := &q.problem
	size := assign.Words(len(o.devices))
	p.Devices, p.Limit = len(o.devices), claimLimit
	p.Shared, p.Idle = resize(p.Shared, size), resize(p.Idle, size)
	p.Left, p.Charge, p.Topology = p.Left[:0], nil, nil
	q.amounts, q.draws, q.choices, q.members, q.values = q.amounts[:0], q.draws[:0], q.choices[:0], q.members[:0], q.values[:0]
	q.sets = q.sets[:0]
	o.count()
	o.requests()
	o.constraints()
	if o.problem.options.Strategy == Packed {
		o.idle()
		o.topology()
	}
	return p
}

// count numbers what is left of counters and of capacity, and says what the use
// of each device takes of counters.
func (o *offer) count() {
	q, p := &o.question, &o.question.problem
	charging, sharing := false, false
	for i := range o.segments {
		pool := o.node.Pools[o.segments[i].pool].Pool
		charging = charging || pool.needs&needCounters != 0 && o.problem.options.Features.PartitionableDevices
		sharing = sharing || pool.sharing && o.problem.options.Features.ConsumableCapacity
	}
	if charging {
		o.charges()
	}
	if !sharing {
		q.places = q.places[:0]
		return
	}
	q.places = resize(q.places, len(o.devices))
	for i := range o.segments {
		at := &o.segments[i]
		pool, u := o.node.Pools[at.pool].Pool, o.uses[at.pool]
		for d := at.first; d < at.end; d++ {
			device := &pool.devices[d]
			place := at.base + int(d-at.first)
			if !device.shareable {
				continue
			}
			p.Shared.Add(place)
			q.places[place] = int32(len(p.Left))
			if left := u.remaining[d]; left != nil {
				p.Left = append(p.Left, left...)
				continue
			}
			for _, c := range device.capacity {
				p.Left = append(p.Left, c.value)
			}
		}
	}
}

// manyCounters is how many counters of a pool are numbered without a look at which
// of them the devices of the node consume.
const manyCounters = 128

func (o *offer) charges() {
	q, p := &o.question, &o.question.problem
	q.charges = resize(q.charges, len(o.devices))
	p.Charge = q.charges
	var numbers map[int32]int32
	pool, base := -1, int32(0)
	for i := range o.segments {
		at := &o.segments[i]
		view, u := o.node.Pools[at.pool].Pool, o.uses[at.pool]
		if view.counters.charges == nil {
			continue
		}
		sparse := len(view.counters.all) > manyCounters
		if at.pool != pool {
			pool, base, numbers = at.pool, int32(len(p.Left)), nil
			if sparse {
				numbers = map[int32]int32{}
			} else {
				p.Left = append(p.Left, u.left...)
			}
		}
		for d := at.first; d < at.end; d++ {
			charge := view.counters.charges[d]
			if len(charge) == 0 || u.of(d) != idle {
				continue
			}
			if base == 0 && !sparse {
				p.Charge[at.base+int(d-at.first)] = charge
				continue
			}
			from := len(q.amounts)
			for _, a := range charge {
				number := base + a.Counter
				if sparse {
					known, ok := numbers[a.Counter]
					if !ok {
						known = int32(len(p.Left))
						numbers[a.Counter] = known
						p.Left = append(p.Left, u.left[a.Counter])
					}
					number = known
				}
				q.amounts = append(q.amounts, assign.Amount{Counter: number, Value: a.Value})
			}
			p.Charge[at.base+int(d-at.first)] = q.amounts[from:len(q.amounts):len(q.amounts)]
		}
	}
}

// requests passes on the choices that are alive.
func (o *offer) requests() {
	q, p := &o.question, &o.question.problem
	p.Requests = p.Requests[:0]
	for r := range o.problem.requests {
		from := len(q.choices)
		for _, k := range o.alive[r] {
			c := o.problem.choice(r, k)
			s := &o.problem.sieves[c.sieve]
			q.choices = append(q.choices, assign.Choice{
				Count: o.demand(&o.problem.requests[r], k), All: c.all, Candidates: o.sieved[c.sieve].free,
				Observe: s.access == observes, Draw: o.draw(c),
			})
		}
		p.Requests = append(p.Requests, assign.Request{
			Claim: o.problem.requests[r].claim, Choices: q.choices[from:len(q.choices):len(q.choices)],
		})
	}
}

// draw is what a choice takes of the capacity of each device that may be shared.
func (o *offer) draw(c *choice) [][]assign.Amount {
	q, s := &o.question, &o.problem.sieves[c.sieve]
	if len(q.places) == 0 || s.access == observes {
		return nil
	}
	from := len(q.draws)
	for range o.devices {
		q.draws = append(q.draws, nil)
	}
	draws := q.draws[from:len(q.draws):len(q.draws)]
	free := o.sieved[c.sieve].free
	for i := range o.segments {
		at := &o.segments[i]
		pool := o.node.Pools[at.pool].Pool
		if !pool.sharing {
			continue
		}
		row := pool.draws(s.demand, o.problem.options.Features)
		for d := at.first; d < at.end; d++ {
			place := at.base + int(d-at.first)
			if !pool.devices[d].shareable || !free.Has(place) {
				continue
			}
			first := len(q.amounts)
			for j, n := range pool.draw(row, d, s.demand, o.problem.options.Features).amounts {
				if n > 0 {
					q.amounts = append(q.amounts, assign.Amount{Counter: q.places[place] + int32(j), Value: n})
				}
			}
			draws[place] = q.amounts[first:len(q.amounts):len(q.amounts)]
		}
	}
	return draws
}

// idle are the devices that nobody uses.
func (o *offer) idle() {
	for i := range o.segments {
		at := &o.segments[i]
		u := o.uses[at.pool]
		for d := at.first; d < at.end; d++ {
			if u.of(d) == idle {
				o.question.problem.Idle.Add(at.base + int(d-at.first))
			}
		}
	}
}
