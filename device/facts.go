// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	"github.com/berth-scheduler/berth/reason"
)

// facts counts what one choice finds, and says of each device of the class that it
// cannot have why not.
func (o *offer) facts(c *choice) *reason.Devices {
	s, sieved := &o.problem.sieves[c.sieve], &o.sieved[c.sieve]
	d := &reason.Devices{InClass: sieved.inClass, Match: sieved.match.Count(), Free: sieved.free.Count()}
	if c.all {
		d.Match -= sieved.passed
	}
	refuse := func(i int, why string) {
		d.Refused = append(d.Refused, reason.Refused{Device: o.name(i), Why: why})
	}
	for i, at := range o.devices {
		if !sieved.match.Has(i) {
			if w, failed := o.failure(s, i); failed {
				refuse(i, "selector failed: "+shortError(w.Error))
			} else if why := o.misfit(s, i); why.misfit != "" || why.broken != "" {
				refuse(i, why.misfit+why.broken)
			}
			continue
		}
		if sieved.free.Has(i) {
			continue
		}
		view, u := &o.node.Pools[at.pool], o.uses[at.pool]
		device := &view.Pool.devices[at.device]
		switch o.obstacleOf(c, i) {
		case held:
			holders := view.Use.of(o.name(i))
			d.Held = append(d.Held, holders...)
			if len(holders) == 0 {
				refuse(i, "in use")
			}
		case tainted:
			refuse(i, "taint "+o.taint(s, device).String())
		case beyond:
			refuse(i, (device.needs & o.missing).why())
		case spent:
			refuse(i, o.spentWhy(c, i))
			d.Held = append(d.Held, view.Use.of(o.name(i))...)
		case untold:
			refuse(i, "counters that devices in use and no longer published may consume too")
		case drained:
			refuse(i, drainedWhy(view.Pool, u, at.device))
		case apart:
			refuse(i, "no compatibility group in common with devices in use of the same counter set")
		}
	}
	d.Counters = o.counters(c)
	return d
}

func (o *offer) spentWhy(c *choice, i int) string {
	at := o.devices[i]
	takes := o.misfit(&o.problem.sieves[c.sieve], i).amounts
	left := o.uses[at.pool].remaining[at.device]
	j, _ := shortOf(left, takes)
	d := &o.node.Pools[at.pool].Pool.devices[at.device]
	of := d.capacity[j]
	format := d.api.Capacity[of.name].Value.Format
	needed, rest := of.unit.of(takes[j], format), of.unit.of(max(left[j], 0), format)
	return fmt.Sprintf("%s of capacity %s needed, %s left", needed.String(), of.name, rest.String())
}

func drainedWhy(pool *Pool, u *usage, device int32) string {
	for _, amount := range pool.counters.charges[device] {
		if amount.Value > u.left[amount.Counter] {
			c := &pool.counters.all[amount.Counter]
			needed, rest := c.quantity(amount.Value), c.quantity(max(u.left[amount.Counter], 0))
			return fmt.Sprintf("%s of counter %s needed, %s left", needed.String(), c, rest.String())
		}
	}
	return ""
}

// counters are those that are not whole and that matching devices consume.
func (o *offer) counters(c *choice) []reason.Counter {
	var all []reason.Counter
	match := o.sieved[c.sieve].match
	for i := range o.segments {
		at := &o.segments[i]
		pool, u := o.node.Pools[at.pool].Pool, o.uses[at.pool]
		if pool.counters.charges == nil || i > 0 && o.segments[i-1].pool == at.pool {
			continue
		}
		seen := make([]bool, len(pool.counters.all))
		for d := match.Next(0); d >= 0; d = match.Next(d + 1) {
			if int(o.devices[d].pool) == at.pool {
				for _, amount := range pool.counters.charges[o.devices[d].device] {
					seen[amount.Counter] = true
				}
			}
		}
		for j := range pool.counters.all {
			if n := &pool.counters.all[j]; seen[j] && u.left[j] < n.total {
				all = append(all, reason.Counter{Name: n.String(), Total: n.exact.DeepCopy(), Left: n.quantity(max(u.left[j], 0))})
			}
		}
	}
	return all
}
