// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/device/internal/assign"
)

// counters are the shared counters of a pool (ResourceSliceSpec.SharedCounters)
// and what its devices consume of them, as whole numbers of a unit that each
// counter has for itself.
type counters struct {
	sets []counterSet
	all  []counter
	// charges are what each device consumes, nil if no device consumes anything.
	charges [][]assign.Amount
	// memberships say which counter sets a device consumes from and with which
	// compatibility groups; nil if no device declares groups.
	memberships [][]membership
	// fault says why no node can use the counters, empty if nothing is wrong.
	fault string
}

type counterSet struct {
	name string
	// slice is where it is declared.
	slice  string
	byName map[string]int32
	// groups are the names of the compatibility groups, by number.
	groups []string
}

type counter struct {
	set, name string
	total     int64
	// unit is what total counts, in so many parts of the common unit.
	unit  unit
	parts int64
	exact resource.Quantity
	// ample: there is enough for all devices together, of amounts that are too large
	// to count with. Nothing is charged.
	ample bool
}

func (c *counter) String() string { return c.set + "/" + c.name }

// quantity is the amount as the driver would write it.
func (c *counter) quantity(amount int64) resource.Quantity {
	return c.unit.of(amount*c.parts, c.exact.Format)
}

// membership is a device's part in a counter set. groups are numbers, ascending.
type membership struct {
	set    int32
	groups []int32
}

// consumption is one counter that one device consumes, before it is counted.
type consumption struct {
	device  int
	counter int32
	value   resource.Quantity
}

// compileCounters reads the counter sets and what devices consume of them.
func compileCounters(p *Pool) counters {
	var c counters
	index := map[string]int{}
	for i := range p.slices {
		api := p.slices[i].api
		for j := range api.Spec.SharedCounters {
			set := &api.Spec.SharedCounters[j]
			if other, twice := index[set.Name]; twice {
				c.fault = fmt.Sprintf("counter set %s is in ResourceSlice %s and again in %s", set.Name, c.sets[other].slice, api.Name)
				return c
			}
			index[set.Name] = len(c.sets)
			c.declare(set, api.Name)
		}
	}
	var consumed []consumption
	for i := range p.devices {
		d := p.devices[i].api
		for j := range d.ConsumesCounters {
			part := &d.ConsumesCounters[j]
			set, ok := index[part.CounterSet]
			if !ok {
				c.fault = fmt.Sprintf("device %s: consumesCounters[%d]: counter set %q is not among the pool's shared counters", d.Name, j, part.CounterSet)
				return c
			}
			for name, value := range part.Counters {
				number, ok := c.sets[set].byName[name]
				if !ok {
					c.fault = fmt.Sprintf("device %s: consumesCounters[%d]: counter set %q has no counter %q", d.Name, j, part.CounterSet, name)
					return c
				}
				consumed = append(consumed, consumption{device: i, counter: number, value: value.Value})
			}
			c.join(i, len(p.devices), int32(set), part)
		}
	}
	c.count(consumed, p)
	return c
}

func (c *counters) declare(set *resourceapi.CounterSet, slice string) {
	declared := counterSet{name: set.Name, slice: slice, byName: make(map[string]int32, len(set.Counters))}
	for _, name := range slices.Sorted(maps.Keys(set.Counters)) {
		declared.byName[name] = int32(len(c.all))
		c.all = append(c.all, counter{set: set.Name, name: name, exact: set.Counters[name].Value})
	}
	c.sets = append(c.sets, declared)
}

// join notes the compatibility groups of a device in a counter set.
func (c *counters) join(device, devices int, set int32, part *resourceapi.DeviceCounterConsumption) {
	if c.memberships == nil {
		c.memberships = make([][]membership, devices)
	}
	m := membership{set: set}
	for _, name := range part.CompatibilityGroups {
		groups := &c.sets[set].groups
		number := slices.Index(*groups, name)
		if number < 0 {
			number = len(*groups)
			*groups = append(*groups, name)
		}
		if !slices.Contains(m.groups, int32(number)) {
			m.groups = append(m.groups, int32(number))
		}
	}
	slices.Sort(m.groups)
	c.memberships[device] = append(c.memberships[device], m)
}

// count finds for each counter a unit in which all that is consumed of it, and
// its total, are small whole numbers.
func (c *counters) count(consumed []consumption, p *Pool) {
	of := make([][]resource.Quantity, len(c.all))
	for i := range c.all {
		of[i] = append(of[i], c.all[i].exact)
	}
	for _, one := range consumed {
		of[one.counter] = append(of[one.counter], one.value)
	}
	for i := range c.all {
		counter := &c.all[i]
		u, ok := common(of[i])
		if !ok && suffices(of[i][0], of[i][1:]) {
			counter.unit, counter.ample = one, true
			continue
		}
		if !ok {
			c.fault = fmt.Sprintf("counter %s: %s, or what devices consume of it, cannot be counted exactly", counter, counter.exact.String())
			return
		}
		counter.unit, counter.parts = u, 0
		for _, q := range of[i] {
			n, _ := u.in(q)
			counter.parts = divisor(counter.parts, n)
		}
		counter.parts = max(counter.parts, 1)
		counter.total, _ = u.in(counter.exact)
		counter.total /= counter.parts
	}
	if len(consumed) == 0 {
		return
	}
	c.charges = make([][]assign.Amount, len(p.devices))
	for _, one := range consumed {
		counter := &c.all[one.counter]
		if counter.ample {
			continue
		}
		n, _ := counter.unit.in(one.value)
		if n < 0 {
			c.fault = fmt.Sprintf("device %s consumes %s of counter %s", p.devices[one.device].api.Name, one.value.String(), counter)
			return
		}
		c.charges[one.device] = append(c.charges[one.device], assign.Amount{Counter: one.counter, Value: n / counter.parts})
	}
	for _, amounts := range c.charges {
		slices.SortFunc(amounts, func(a, b assign.Amount) int { return int(a.Counter - b.Counter) })
	}
}

// suffices says whether a counter has enough for all devices together. None of them
// consumes less than nothing.
func suffices(total resource.Quantity, consumed []resource.Quantity) bool {
	sum := resource.Quantity{}
	for _, q := range consumed {
		if q.Sign() < 0 {
			return false
		}
		sum.Add(q)
	}
	return total.Cmp(sum) >= 0
}

// grouped says whether any device of the pool declares compatibility groups.
func (c *counters) grouped() bool {
	return slices.ContainsFunc(c.sets, func(s counterSet) bool { return len(s.groups) > 0 })
}

func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, -a)
}
