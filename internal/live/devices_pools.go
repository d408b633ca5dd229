// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/device"
)

// poolMemo keeps the pools that were compiled last, with the slices they came from.
type poolMemo struct {
	known map[*resourceapi.ResourceSlice]struct{}
	pools map[device.PoolID]pool
	// view has the pools by node, and no uses.
	view *device.View
}

type pool struct {
	from     []*resourceapi.ResourceSlice
	compiled *device.Pool
}

// same says whether the slices are the very objects that the memo came from.
func (m *poolMemo) same(resourceSlices []*resourceapi.ResourceSlice) bool {
	if m.view == nil || len(m.known) != len(resourceSlices) {
		return false
	}
	for _, slice := range resourceSlices {
		if _, ok := m.known[slice]; !ok {
			return false
		}
	}
	return true
}

// next compiles the pools whose slices have changed.
func (m *poolMemo) next(resourceSlices []*resourceapi.ResourceSlice) poolMemo {
	next := poolMemo{
		known: make(map[*resourceapi.ResourceSlice]struct{}, len(resourceSlices)),
		pools: make(map[device.PoolID]pool, len(m.pools)),
	}
	for _, slice := range resourceSlices {
		next.known[slice] = struct{}{}
	}
	var views []device.PoolView
	for _, group := range groupSlices(resourceSlices) {
		p, ok := m.pools[group.id]
		if !ok || !slices.Equal(p.from, group.slices) {
			p = pool{from: group.slices, compiled: device.CompilePool(group.slices)}
		}
		next.pools[group.id] = p
		views = append(views, device.PoolView{Pool: p.compiled})
	}
	next.view = device.NewView(views)
	return next
}

type poolSlices struct {
	id     device.PoolID
	slices []*resourceapi.ResourceSlice
}

// groupSlices groups slices by pool, pools and slices in order of their names.
func groupSlices(all []*resourceapi.ResourceSlice) []poolSlices {
	index := map[device.PoolID]int{}
	var groups []poolSlices
	for _, slice := range all {
		id := device.PoolID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name}
		i, ok := index[id]
		if !ok {
			i = len(groups)
			index[id] = i
			groups = append(groups, poolSlices{id: id})
		}
		groups[i].slices = append(groups[i].slices, slice)
	}
	for _, group := range groups {
		slices.SortFunc(group.slices, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	}
	slices.SortFunc(groups, func(a, b poolSlices) int {
		return cmp.Or(cmp.Compare(a.id.Driver, b.id.Driver), cmp.Compare(a.id.Pool, b.id.Pool))
	})
	return groups
}
