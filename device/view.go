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
	// local are the pools by the node that their slices name, wide are those that
	// may reach any node. Both are in the order of their IDs. Those of a node lie
	// next to each other: looking at one node after the other is mostly waiting for
	// memory, so each node should need few pieces of it.
	local map[string][]PoolView
	wide  []PoolView
}

// NewView freezes the pools, in any order. A nil Pool is left out. The slice is
// not kept.
func NewView(pools []PoolView) *View {
	pools = slices.DeleteFunc(slices.Clone(pools), func(view PoolView) bool { return view.Pool == nil })
	slices.SortStableFunc(pools, func(a, b PoolView) int { return a.Pool.id.compare(b.Pool.id) })
	type berth struct {
		node string
		view PoolView
	}
	var local []berth
	v := &View{local: make(map[string][]PoolView, len(pools))}
	for _, view := range pools {
		if view.Use.empty() {
			view.Use = nil
		}
		nodes, wide := view.Pool.reach()
		if wide {
			v.wide = append(v.wide, view)
			continue
		}
		for _, node := range nodes {
			local = append(local, berth{node, view})
		}
	}
	slices.SortStableFunc(local, func(a, b berth) int { return cmp.Compare(a.node, b.node) })
	views := make([]PoolView, len(local))
	for from, to := 0, 0; from < len(local); from = to {
		for to = from; to < len(local) && local[to].node == local[from].node; to++ {
			views[to] = local[to].view
		}
		v.local[local[from].node] = views[from:to:to]
	}
	return v
}

// Node returns what the node can see. Its cost depends on the pools that name
// the node or may reach any node, not on how many nodes there are.
func (v *View) Node(node *v1.Node) NodeView {
	local, wide := v.local[node.Name], v.wide
	switch {
	case len(local) == 0:
		return NodeView{Node: node, Pools: wide}
	case len(wide) == 0:
		return NodeView{Node: node, Pools: local}
	}
	pools := make([]PoolView, 0, len(local)+len(wide))
	for len(local) > 0 && len(wide) > 0 {
		if local[0].Pool.id.compare(wide[0].Pool.id) < 0 {
			pools, local = append(pools, local[0]), local[1:]
		} else {
			pools, wide = append(pools, wide[0]), wide[1:]
		}
	}
	return NodeView{Node: node, Pools: append(append(pools, local...), wide...)}
}

// Emptied is what the node would see if nobody held a device of its pools.
func (v NodeView) Emptied() NodeView {
	pools := slices.Clone(v.Pools)
	for i := range pools {
		pools[i].Use = nil
	}
	return NodeView{Node: v.Node, Pools: pools}
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
