// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/device/internal/assign"
)

// sieved is what one sieve lets through.
type sieved struct {
	// inClass is how many devices the class accepts. match are those that the
	// choice accepts too, free those of match that can be had.
	inClass     int
	match, free assign.Set
	// failed: a selector failed on some device, so match may lack devices.
	// uncounted: nobody can tell of some device how much would be taken of it.
	failed, uncounted bool
	// barred counts the others of match by what keeps them. A choice of all devices
	// does without passed of them: those with binding conditions while the feature is
	// off, which then are no devices.
	barred [obstacles]int
	passed int
}

// obstacle is what keeps a device from being used that matches.
type obstacle uint8

const (
	none obstacle = iota
	// beyond: using the device takes a part of the API that is missing or off.
	beyond
	held
	tainted
	// spent: too little of its capacity is left.
	spent
	// untold: nobody can know what is left of the counters that it consumes.
	untold
	// drained: too little of these is left.
	drained
	// apart: it has no compatibility group in common with devices in use.
	apart
	obstacles
)

// sift puts every device through the sieve.
func (o *offer) sift(s *sieve, result *sieved) {
	for i := range o.segments {
		at := &o.segments[i]
		pool, u := o.node.Pools[at.pool].Pool, o.uses[at.pool]
		o.rowsOf(s, pool)
		class, own := o.rows[:len(s.class)], o.rows[len(s.class):]
		var draws *drawRow
		if o.problem.options.Features.ConsumableCapacity && (!pool.plain || s.demand.key != "") {
			draws = pool.draws(s.demand, o.problem.options.Features)
		}
		// Most pools have nothing that keeps a device that is idle from anybody.
		quiet := pool.needs&(o.missing|needCounters) == 0 && !pool.tainted
		for d, place := at.first, at.base; d < at.end; d, place = d+1, place+1 {
			verdict := o.judge(pool, class, d)
			if verdict == accepted {
				result.inClass++
				verdict = o.judge(pool, own, d)
			}
			if verdict != accepted {
				result.failed = result.failed || verdict == failed
				continue
			}
			var takes []int64
			if draws != nil {
				draw := pool.draw(draws, d, s.demand, o.problem.options.Features)
				if draw.misfit != "" || draw.broken != "" {
					result.uncounted = result.uncounted || draw.broken != ""
					continue
				}
				takes = draw.amounts
			}
			result.match.Add(place)
			if quiet && u.of(d) == idle {
				result.free.Add(place)
				continue
			}
			if found := o.obstacle(s, pool, u, d, takes); found == none {
				result.free.Add(place)
			} else {
				result.barred[found]++
				if pool.devices[d].needs&o.missing&needBinding != 0 {
					result.passed++
				}
			}
		}
	}
}

func (o *offer) rowsOf(s *sieve, pool *Pool) {
	o.rows = o.rows[:0]
	for _, program := range s.class {
		o.rows = append(o.rows, pool.row(program))
	}
	for _, program := range s.own {
		o.rows = append(o.rows, pool.row(program))
	}
}

// judge says what the selectors say together: the first that does not accept
// the device decides.
func (o *offer) judge(pool *Pool, rows []*verdictRow, device int32) verdict {
	for _, row := range rows {
		if v := pool.verdict(row, device); v != accepted {
			return v
		}
	}
	return accepted
}

// obstacle finds the first thing that keeps a choice from a device that matches,
// if it is the only one that wants anything. takes is what it would take of a
// device that may be shared.
func (o *offer) obstacle(s *sieve, pool *Pool, u *usage, device int32, takes []int64) obstacle {
	d, state := &pool.devices[device], u.of(device)
	switch {
	case d.needs&o.missing != 0 && o.lacks(d, u.holders[device]) != 0:
		return beyond
	case s.access == observes:
		if o.taint(s, d) != nil {
			return tainted
		}
		return none
	case state == whole, state == shared && !d.shareable:
		return held
	case o.taint(s, d) != nil:
		return tainted
	case state == shared:
		// What it consumes of counters has been paid for.
		if _, short := shortOf(u.remaining[device], takes); short {
			return spent
		}
		return none
	case d.needs&needCounters != 0:
		return o.counterObstacle(pool, u, device)
	}
	return none
}

// lacks are the parts of the API that the device takes and that are missing.
func (o *offer) lacks(d *poolDevice, h *holder) needs {
	n := d.needs & o.missing
	if n == needCounting && o.ample(d, h) {
		return 0
	}
	return n
}

func (o *offer) counterObstacle(pool *Pool, u *usage, device int32) obstacle {
	if len(u.gone) > 0 {
		return untold
	}
	if pool.counters.charges != nil {
		for _, amount := range pool.counters.charges[device] {
			if amount.Value > u.left[amount.Counter] {
				return drained
			}
		}
	}
	if u.peers != nil {
		for _, m := range pool.counters.memberships[device] {
			if !u.peers[m.set].admits(m.groups) {
				return apart
			}
		}
	}
	return none
}

// shortOf finds the first capacity of which less is left than is taken.
func shortOf(left, takes []int64) (int, bool) {
	for i := range takes {
		if takes[i] > left[i] {
			return i, true
		}
	}
	return 0, false
}

// taint returns the first taint that keeps the choice away. Effects other than
// NoSchedule and NoExecute keep nobody away (DeviceTaintEffect).
func (o *offer) taint(s *sieve, d *poolDevice) *resourceapi.DeviceTaint {
	if len(d.api.Taints) == 0 || !o.problem.options.Features.DeviceTaints {
		return nil
	}
	for i := range d.api.Taints {
		taint := &d.api.Taints[i]
		if taint.Effect != resourceapi.DeviceTaintEffectNoSchedule && taint.Effect != resourceapi.DeviceTaintEffectNoExecute {
			continue
		}
		if !slices.ContainsFunc(s.tolerations, func(t resourceapi.DeviceToleration) bool { return resourceclaim.ToleratesTaint(t, *taint) }) {
			return taint
		}
	}
	return nil
}
