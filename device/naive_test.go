// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/reason"
)

// candidates are the devices that a request may have in the world, in order, and
// how many there would be if all were free. ok is false while not all of the
// node's pools are complete.
func (w *world) candidates(exact *resourceapi.ExactDeviceRequest) (free []candidate, all int, ok bool) {
	ok = true
	ids := map[device.PoolID][]*resourceapi.ResourceSlice{}
	var order []device.PoolID
	for _, s := range w.slices {
		if s.Spec.Pool.Generation != 2 {
			continue
		}
		id := device.PoolID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name}
		if ids[id] == nil {
			order = append(order, id)
		}
		ids[id] = append(ids[id], s)
	}
	slices.SortFunc(order, func(a, b device.PoolID) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool))
	})
	for _, id := range order {
		published := ids[id]
		slices.SortFunc(published, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
		incomplete := int64(len(published)) != published[0].Spec.Pool.ResourceSliceCount
		for _, s := range published {
			visible := w.here(s.Spec.NodeName, s.Spec.AllNodes, s.Spec.NodeSelector)
			for _, d := range s.Spec.Devices {
				if s.Spec.PerDeviceNodeSelection != nil {
					if !w.here(d.NodeName, d.AllNodes, d.NodeSelector) {
						continue
					}
					visible = true
				}
				if !visible || incomplete || !wanted(exact, id.Driver, d) {
					continue
				}
				all++
				if w.held(id, d.Name) || sick(exact, d) {
					continue
				}
				free = append(free, candidate{attributes: d.Attributes, id: reason.Device{Driver: id.Driver, Pool: id.Pool, Name: d.Name}})
			}
			if visible && incomplete {
				ok = false
			}
		}
	}
	return free, all, ok
}

// here reads the few kinds of node selection that drawWorld writes.
func (w *world) here(node *string, all *bool, selector *v1.NodeSelector) bool {
	switch {
	case node != nil:
		return *node == w.node.Name
	case selector != nil:
		return slices.Contains(selector.NodeSelectorTerms[0].MatchExpressions[0].Values, w.node.Labels["zone"])
	}
	return all != nil
}

// wanted reads the few selectors that drawWorld writes.
func wanted(exact *resourceapi.ExactDeviceRequest, driver string, d resourceapi.Device) bool {
	if exact.DeviceClassName == "gpu" && driver != "gpu.test" {
		return false
	}
	for _, selector := range exact.Selectors {
		if !strings.HasSuffix(selector.CEL.Expression, fmt.Sprintf("%q", *d.Attributes["gpu.test/model"].StringValue)) {
			return false
		}
	}
	return true
}

func (w *world) held(id device.PoolID, name string) bool {
	for _, claim := range w.holding {
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.Driver == id.Driver && r.Pool == id.Pool && r.Device == name {
				return true
			}
		}
	}
	return false
}

func sick(exact *resourceapi.ExactDeviceRequest, d resourceapi.Device) bool {
	return len(d.Taints) > 0 && d.Taints[0].Effect != resourceapi.DeviceTaintEffectNone && len(exact.Tolerations) == 0
}

func (w *world) constraintsHold(slots []slot, picked []int) bool {
	for c, claim := range w.claims {
		for _, constraint := range claim.Spec.Devices.Constraints {
			seen := map[string]bool{}
			for i, pick := range picked {
				name := claim.Spec.Devices.Requests[min(slots[i].request, len(claim.Spec.Devices.Requests)-1)].Name
				if slots[i].claim != c || len(constraint.Requests) > 0 && !slices.Contains(constraint.Requests, name) {
					continue
				}
				a, ok := slots[i].candidates[pick].attributes[resourceapi.QualifiedName(*constraint.MatchAttribute)]
				if !ok {
					return false
				}
				seen[a.String()] = true
			}
			if len(seen) > 1 {
				return false
			}
		}
	}
	return true
}
