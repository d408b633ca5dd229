// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/reason"
)

// PoolView is a pool and who uses it. Use is nil when nobody does.
type PoolView struct {
	Pool *Pool
	Use  *Use
}

// NodeView is what one node can see: every pool that may have something for it,
// in the order of [PoolID] (driver first), which is the order in which devices
// are offered. A pool that turns out to have nothing for the node does no harm.
// Whoever receives a NodeView must not change Pools.
type NodeView struct {
	Node  *v1.Node
	Pools []PoolView
}

// View is all pools of the cluster at one moment, indexed by node. It is
// immutable and safe for concurrent use.
type View struct {
	pools []PoolView
	// local are the indices of pools by the node that their slices name; wide
	// are those of the pools that may reach any node. Both ascend.
	local map[string][]int
	wide  []int
	// widePools are the pools of wide.
	widePools []PoolView
}

// NewView freezes the pools, in any order. A nil Pool is left out. The slice is
// not kept.
func NewView(pools []PoolView) *View {
	v := &View{pools: slices.Clone(pools), local: map[string][]int{}}
	v.pools = slices.DeleteFunc(v.pools, func(view PoolView) bool { return view.Pool == nil })
	slices.SortStableFunc(v.pools, func(a, b PoolView) int { return a.Pool.id.compare(b.Pool.id) })
	for i, view := range v.pools {
		nodes, wide := view.Pool.reach()
		if wide {
			v.wide = append(v.wide, i)
			v.widePools = append(v.widePools, view)
			continue
		}
		for _, node := range nodes {
			v.local[node] = append(v.local[node], i)
		}
	}
	return v
}

// Node returns what the node can see. Its cost depends on the pools that name
// the node or may reach any node, not on how many nodes there are.
func (v *View) Node(node *v1.Node) NodeView {
	local, wide := v.local[node.Name], v.wide
	switch {
	case len(local) == 0:
		return NodeView{Node: node, Pools: v.widePools}
	case len(local) == 1 && len(wide) == 0:
		return NodeView{Node: node, Pools: v.pools[local[0] : local[0]+1 : local[0]+1]}
	}
	pools := make([]PoolView, 0, len(local)+len(wide))
	for len(local) > 0 || len(wide) > 0 {
		var next int
		if len(wide) == 0 || len(local) > 0 && local[0] < wide[0] {
			next, local = local[0], local[1:]
		} else {
			next, wide = wide[0], wide[1:]
		}
		pools = append(pools, v.pools[next])
	}
	return NodeView{Node: node, Pools: pools}
}

// Devices lists the devices of the pools that the node can use, in the order in
// which they are offered: pools with binding conditions last, then by pool, name of
// the slice, and as the slice lists them.
func (v NodeView) Devices(f Features) []reason.Device {
	var o offer
	o.collect(&Problem{options: Options{Features: f}, missing: f.missing()}, v)
	all := make([]reason.Device, len(o.devices))
	for i := range all {
		all[i] = o.name(i)
	}
	return all
}

// reach returns the nodes that the slices of the pool name, or wide if any of
// them does not name one. Slices of older generations count: where they were
// usable, the pool can be one that is being updated.
func (p *Pool) reach() (nodes []string, wide bool) {
	if len(p.wide) > 0 {
		return nil, true
	}
	if p.sole != "" {
		nodes = append(nodes, p.sole)
	}
	for node := range p.local {
		nodes = append(nodes, node)
	}
	for _, s := range p.outdated {
		if s.node == "" {
			return nil, true
		}
		nodes = append(nodes, s.node)
	}
	slices.SortFunc(nodes, cmp.Compare[string])
	return slices.Compact(nodes), false
}
