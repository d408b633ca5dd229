// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/device/internal/assign"
)

// column is the values of one attribute on all devices of a pool, as numbers that
// count from 0 in the order of devices: equal values, equal numbers.
type column struct {
	key columnKey
	assign.Values
	// values are what the numbers mean.
	values []value
	// failed has what a derived attribute failed with, by device.
	failed map[int32]string
}

// columnKey is what a column is of: an attribute that drivers publish or, with a
// program, one that is derived from what they publish.
type columnKey struct {
	attribute resourceapi.FullyQualifiedName
	program   *program
	// lists: an attribute may have a list of values. Otherwise a list is no value.
	lists listing
}

type listing uint8

const (
	scalarsOnly listing = iota
	listsToo
	// firstOnly takes a list for its first value.
	firstOnly
)

// column returns the values that a constraint compares.
func (o *offer) column(p *Pool, number int) *column {
	key, lately := &o.problem.columns[number], &p.lately[number%slots]
	if c := lately.Load(); c != nil && c.key == *key {
		return c
	}
	c := p.column(*key, o.problem.options.Selectors)
	lately.Store(c)
	return c
}

// column returns the values of an attribute.
func (p *Pool) column(key columnKey, selectors *Selectors) *column {
	if c, ok := p.columns.find(key); ok {
		return c
	}
	c := &column{key: key, Values: assign.Values{One: make([]int32, len(p.devices))}}
	numbers := map[value]int32{}
	for i := range p.devices {
		c.One[i] = assign.None
		a, ok, err := p.attribute(key, int32(i))
		if err != nil {
			if c.failed == nil {
				c.failed = map[int32]string{}
			}
			c.failed[int32(i)] = err.Error()
		}
		if !ok || listed(a) && key.lists == scalarsOnly {
			continue
		}
		values := valuesOf(a)
		if key.lists == firstOnly && len(values) > 1 {
			values = values[:1]
		}
		c.set(int32(i), values, numbers)
	}
	return p.columns.keep(key, selectors.shareColumn(c))
}

func (c *column) set(device int32, values []value, numbers map[value]int32) {
	var list []int32
	for _, v := range values {
		number, known := numbers[v]
		if !known {
			number = int32(len(c.values))
			numbers[v] = number
			c.values = append(c.values, v)
		}
		list = append(list, number)
	}
	switch len(list) {
	case 0:
	case 1:
		c.One[device] = list[0]
	default:
		c.One[device] = assign.Many
		if c.Lists == nil {
			c.Lists = map[int32][]int32{}
		}
		c.Lists[device] = list
	}
}

// attribute returns an attribute of a device, published or derived.
func (p *Pool) attribute(key columnKey, device int32) (resourceapi.DeviceAttribute, bool, error) {
	d := p.devices[device].api
	if key.program == nil {
		a, ok := attributeOf(p.id.Driver, d, key.attribute)
		return a, ok, nil
	}
	found := key.program.on(p.id.Driver, d)
	if found.err != nil || found.attribute == nil {
		return resourceapi.DeviceAttribute{}, false, found.err
	}
	return *found.attribute, true, nil
}
