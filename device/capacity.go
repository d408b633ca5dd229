// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// capacity is one capacity of a device that may be shared: the shares of the
// device may not consume more of it than value.
type capacity struct {
	name  resourceapi.QualifiedName
	unit  unit
	value int64
}

// capacities returns those of a device that may be shared, by name, and apart the
// names of those that cannot be counted.
func capacities(d *resourceapi.Device) (all []capacity, vast []resourceapi.QualifiedName) {
	all = make([]capacity, 0, len(d.Capacity))
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		u, value, ok := finest(d.Capacity[name].Value)
		if !ok {
			vast = append(vast, name)
			continue
		}
		all = append(all, capacity{name: name, unit: u, value: value})
	}
	return all, vast
}

// ample says whether there is so much of each capacity that cannot be counted that
// all requests of the Problem together, and the shares that there are, leave some of
// it: then nobody has to count.
func (o *offer) ample(d *poolDevice, h *holder) bool {
	for _, name := range d.vast {
		total := resource.Quantity{}
		if h != nil {
			total = h.consumed[name].DeepCopy()
		}
		for i := range o.problem.requests {
			most := resource.Quantity{}
			for k := range o.problem.requests[i].choices {
				s := &o.problem.sieves[o.problem.choice(i, k).sieve]
				amounts, err := s.demand.amounts(d.api, o.problem.options.Features)
				if amount := amounts[name]; err == nil && amount.Cmp(most) > 0 {
					most = amount
				}
			}
			total.Add(most)
		}
		if value := d.api.Capacity[name].Value; value.Cmp(total) < 0 {
			return false
		}
	}
	return true
}

// remaining is what the shares of a device leave of each capacity. Where they
// consume less than one unit can tell, it counts as the whole unit.
func remaining(of []capacity, h *holder) []int64 {
	left := make([]int64, len(of))
	for i, c := range of {
		left[i] = c.value - c.unit.atLeast(h.consumed[c.name])
	}
	return left
}

// demand is the part of a device's capacity that a request asks for
// (CapacityRequirements). Requests that ask for the same share one.
type demand struct {
	requests map[resourceapi.QualifiedName]resource.Quantity
	// key tells demands apart.
	key string
}

func newDemand(api *resourceapi.CapacityRequirements, f Features) demand {
	if api == nil {
		return demand{}
	}
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(api.Requests)) {
		q := api.Requests[name]
		fmt.Fprintf(&key, "%s=%s;", name, q.String())
	}
	return demand{requests: api.Requests, key: key.String()}
}

// drawRow is what one demand takes of each device of a pool, filled in when it is
// first asked for.
type drawRow struct{ devices []atomic.Pointer[draw] }

type drawKey struct {
	demand     string
	fractional fractions
}

type fractions bool

// draw is what a demand takes of a device.
type draw struct {
	// amounts are those of each capacity, in its unit; only for a device that may be
	// shared.
	amounts []int64
	// misfit says why the device is not one that the demand asks for: it has not got
	// so much, or not such a capacity. broken says why nobody can tell.
	misfit, broken string
}

func (p *Pool) draws(of demand, f Features) *drawRow {
	key := drawKey{demand: of.key, fractional: fractions(f.FractionalCapacityRange)}
	if row, ok := p.drawn.find(key); ok {
		return row
	}
	return p.drawn.keep(key, &drawRow{devices: make([]atomic.Pointer[draw], len(p.devices))})
}

func (p *Pool) draw(row *drawRow, device int32, of demand, f Features) *draw {
	if known := row.devices[device].Load(); known != nil {
		return known
	}
	found := of.on(&p.devices[device], f)
	row.devices[device].Store(&found)
	return &found
}

// on works out what the demand takes of a device: of every capacity that it has,
// also of those that are not asked for.
func (m demand) on(d *poolDevice, f Features) draw {
	for _, name := range slices.Sorted(maps.Keys(m.requests)) {
		if _, ok := d.api.Capacity[name]; !ok {
			return draw{misfit: fmt.Sprintf("no capacity %s", name)}
		}
	}
	amounts, err := m.amounts(d.api, f)
	if err != nil {
		return draw{broken: err.Error()}
	}
	var found draw
	for _, name := range slices.Sorted(maps.Keys(d.api.Capacity)) {
		has, takes := d.api.Capacity[name], amounts[name]
		if !valid(takes, has.RequestPolicy, f) {
			return draw{misfit: fmt.Sprintf("%s of capacity %s not given", takes.String(), name)}
		}
		if takes.Cmp(has.Value) > 0 {
			return draw{misfit: fmt.Sprintf("%s of capacity %s needed, %s there", takes.String(), name, has.Value.String())}
		}
	}
	for _, c := range d.capacity {
		n, ok := c.unit.in(amounts[c.name])
		if !ok {
			takes := amounts[c.name]
			return draw{broken: fmt.Sprintf("capacity %s: %s of it %v", c.name, takes.String(), errUncountable)}
		}
		found.amounts = append(found.amounts, n)
	}
	return found
}

// amounts are what the demand takes of each capacity of a device.
func (m demand) amounts(d *resourceapi.Device, f Features) (map[resourceapi.QualifiedName]resource.Quantity, error) {
	all := make(map[resourceapi.QualifiedName]resource.Quantity, len(d.Capacity))
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		has := d.Capacity[name]
		var requested *resource.Quantity
		if q, ok := m.requests[name]; ok {
			requested = &q
		}
		amount, err := consumed(requested, &has, f)
		if err != nil {
			return nil, fmt.Errorf("capacity %s: %w", name, err)
		}
		all[name] = amount
	}
	return all, nil
}

// givesAll says whether every request without a demand may have the device and
// takes all of it: it is not shared and no policy speaks about its capacity.
func givesAll(d *resourceapi.Device) bool {
	if ptr.Deref(d.AllowMultipleAllocations, false) {
		return false
	}
	for _, c := range d.Capacity {
		if c.RequestPolicy != nil || c.Value.Sign() < 0 {
			return false
		}
	}
	return true
}
