// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"math"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// wish is what the API says in two places: an exact request, or one of the
// alternatives of a request.
type wish struct {
	// name is as results and constraints name it: "request" or "request/alternative".
	name string
	// path is the field.
	path      string
	className string
	selectors []resourceapi.DeviceSelector
	all       bool
	// count is 0 for one that wants all.
	count int64
	// mode is the allocation mode as it is written.
	mode        resourceapi.DeviceAllocationMode
	access      access
	tolerations []resourceapi.DeviceToleration
	capacity    *resourceapi.CapacityRequirements
	derived     []resourceapi.DeviceDerivedAttribute
}

// wishes are what a request wants, nil for one of a kind that is not known.
func wishes(r *resourceapi.DeviceRequest, path string) []wish {
	if len(r.FirstAvailable) > 0 {
		all := make([]wish, len(r.FirstAvailable))
		for i := range r.FirstAvailable {
			sub := &r.FirstAvailable[i]
			all[i] = wish{
				name: r.Name + "/" + sub.Name, path: fmt.Sprintf("%s.firstAvailable[%d]", path, i),
				className: sub.DeviceClassName, selectors: sub.Selectors, mode: sub.AllocationMode, count: sub.Count,
				tolerations: sub.Tolerations, capacity: sub.Capacity, derived: sub.DerivedAttributes,
			}
			all[i].defaults()
		}
		return all
	}
	e := r.Exactly
	if e == nil {
		return nil
	}
	w := wish{
		name: r.Name, path: path + ".exactly",
		className: e.DeviceClassName, selectors: e.Selectors, mode: e.AllocationMode, count: e.Count,
		tolerations: e.Tolerations, capacity: e.Capacity, derived: e.DerivedAttributes,
	}
	if ptr.Deref(e.AdminAccess, false) {
		w.access = observes
	}
	w.defaults()
	return []wish{w}
}

// defaults are those of the API server, for claims that did not pass through it.
func (w *wish) defaults() {
	w.all = w.mode == resourceapi.DeviceAllocationModeAll
	switch {
	case w.all:
		w.count = 0
	case w.count == 0:
		w.count = 1
	}
}

// least is the smallest number of devices that a request can be met with.
func least(wishes []wish) int64 {
	fewest := int64(math.MaxInt64)
	for i := range wishes {
		fewest = min(fewest, max(wishes[i].count, 1))
	}
	return fewest
}
