// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/device/internal/assign"
)

// spread is where the devices of a pool are in the topology: a column per
// attribute, nil for one that no device has.
type spread struct {
	of      []resourceapi.FullyQualifiedName
	columns []*column
}

// spread returns the columns of the topology attributes. A scheduler asks for the
// same ones all the time, so the last answer is kept.
func (o *offer) spread(p *Pool) []*column {
	of := o.problem.options.TopologyAttributes
	if known := p.spread.Load(); known != nil && slices.Equal(known.of, of) {
		return known.columns
	}
	selectors := o.problem.options.Selectors
	s := &spread{of: of, columns: make([]*column, len(of))}
	for i, name := range of {
		if c := p.column(columnKey{attribute: name, lists: firstOnly}, selectors); len(c.values) > 0 {
			s.columns[i] = c
		}
	}
	s = selectors.shareSpread(s)
	p.spread.Store(s)
	return s.columns
}

// topology groups the devices by each of the topology attributes, those of each
// pool for themselves.
func (o *offer) topology() {
	q, attributes := &o.question, o.problem.options.TopologyAttributes
	q.levels, q.groups = q.levels[:0], q.groups[:0]
	for level := range attributes {
		from, base, next := len(q.groups), int32(0), int32(0)
		for i := range o.segments {
			at := &o.segments[i]
			c := o.spread(o.node.Pools[at.pool].Pool)[level]
			if c == nil {
				continue
			}
			if next == 0 {
				for range o.devices {
					q.groups = append(q.groups, assign.None)
				}
			}
			if i == 0 || o.segments[i-1].pool != at.pool {
				base = next
				next += int32(len(c.values))
			}
			for d := at.first; d < at.end; d++ {
				if group := c.One[d]; group >= 0 {
					q.groups[from+at.base+int(d-at.first)] = base + group
				}
			}
		}
		if next > 0 {
			q.levels = append(q.levels, q.groups[from:len(q.groups):len(q.groups)])
		}
	}
	q.problem.Topology = q.levels
}
