// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	resourceapi "k8s.io/api/resource/v1"
)

// Rank says how early the alternatives that the plan takes stand in their lists
// (DeviceRequest.FirstAvailable): 8 for the first of a list, one less for each
// later one, added up over all requests. Plans of one Problem for different nodes
// can be compared by it. It is 0 without alternatives.
func (p Plan) Rank() int {
	rank := 0
	last := int32(-1)
	for _, pick := range p.picks {
		if pick.request == last || len(p.problem.requests[pick.request].choices) < 2 {
			continue
		}
		last = pick.request
		rank += resourceapi.FirstAvailableDeviceRequestMaxSize - int(pick.choice)
	}
	return rank
}

// Fullness returns, of the pools that the plan takes devices of, how many devices
// will be in use and how many there are. Plans for different nodes can be compared
// by it: where the share is greater, a plan leaves less that is whole. Both are 0
// for a plan that takes nothing.
func (p Plan) Fullness() (inUse, all int) {
	pools := map[int32]bool{}
	taken := map[place]bool{}
	for _, pick := range p.picks {
		if taken[pick.place] || p.problem.choice(int(pick.request), int(pick.choice)).access == observes {
			continue
		}
		taken[pick.place] = true
		view := &p.node.Pools[pick.place.pool]
		used := func(name string) bool { return view.Use != nil && view.Use.holders[name] != nil }
		if !pools[pick.place.pool] {
			pools[pick.place.pool] = true
			all += len(view.Pool.devices)
			for i := range view.Pool.devices {
				if used(view.Pool.devices[i].api.Name) {
					inUse++
				}
			}
		}
		if !used(view.Pool.devices[pick.place.device].api.Name) {
			inUse++
		}
	}
	return inUse, all
}
