// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// drawRichWorld is drawWorld with everything that the API has.
func drawRichWorld(t *rapid.T, most size) *world {
	w := drawWorld(t, most)
	if rapid.Bool().Draw(t, "declares") {
		w.node.Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
	}
	for i, s := range w.slices {
		if rapid.IntRange(0, 9).Draw(t, "skips") == 0 {
			s.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
		}
		if s.Spec.Pool.Generation == 2 && rapid.IntRange(0, 2).Draw(t, "partitioned") == 0 {
			w.partition(t, i)
		}
		for d := range s.Spec.Devices {
			enrich(t, &s.Spec.Devices[d])
		}
	}
	w.holding = nil
	w.drawRichHolders(t)
	for _, claim := range w.claims {
		enrichClaim(t, claim)
	}
	return w
}

// partition gives the devices of a slice shared counters, declared in a slice of
// their own, which all slices of the pool then count.
func (w *world) partition(t *rapid.T, index int) {
	of := w.slices[index]
	for _, s := range w.slices {
		if s.Spec.Driver == of.Spec.Driver && s.Spec.Pool.Name == of.Spec.Pool.Name && s.Spec.Pool.Generation == 2 {
			s.Spec.Pool.ResourceSliceCount++
		}
	}
	counters := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: of.Name + "-counters"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: of.Spec.Driver, Pool: of.Spec.Pool, AllNodes: ptr.To(true),
	}}
	total := rapid.SampledFrom([]string{"2", "3", "4", "1500m", "4Gi"})
	amount := rapid.SampledFrom([]string{"1", "1", "2", "500m", "0", "1Gi"})
	for i := range rapid.IntRange(1, 2).Draw(t, "counter sets") {
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{
			Name:     fmt.Sprintf("%s-%d", of.Name, i),
			Counters: map[string]resourceapi.Counter{"a": {Value: resource.MustParse(total.Draw(t, "a"))}, "b": {Value: resource.MustParse(total.Draw(t, "b"))}},
		})
	}
	grouped := rapid.IntRange(0, 3).Draw(t, "grouped") == 0
	for d := range of.Spec.Devices {
		for i := range counters.Spec.SharedCounters {
			if rapid.Bool().Draw(t, "consumes") {
				continue
			}
			c := resourceapi.DeviceCounterConsumption{CounterSet: fmt.Sprintf("%s-%d", of.Name, i), Counters: map[string]resourceapi.Counter{}}
			for _, name := range []string{"a", "b"} {
				if rapid.Bool().Draw(t, "of "+name) {
					c.Counters[name] = resourceapi.Counter{Value: resource.MustParse(amount.Draw(t, "amount"))}
				}
			}
			if grouped {
				c.CompatibilityGroups = rapid.SampledFrom([][]string{nil, {"x"}, {"y"}, {"x", "y"}, {"z"}}).Draw(t, "groups")
			}
			of.Spec.Devices[d].ConsumesCounters = append(of.Spec.Devices[d].ConsumesCounters, c)
		}
	}
	w.slices = append(w.slices, counters)
}

func enrich(t *rapid.T, d *resourceapi.Device) {
	seldom := rapid.SampledFrom([]bool{false, false, false, false, true})
	if seldom.Draw(t, "list") {
		d.Attributes["gpu.test/numa"] = resourceapi.DeviceAttribute{IntValues: rapid.SampledFrom([][]int64{{0, 1}, {1}, {1, 2}, {2, 0}}).Draw(t, "numa")}
	}
	if seldom.Draw(t, "lists of roots") {
		d.Attributes["gpu.test/root"] = resourceapi.DeviceAttribute{StringValues: rapid.SampledFrom([][]string{{"x", "y"}, {"z"}, {"y", "z"}}).Draw(t, "roots")}
	}
	if root, ok := d.Attributes["gpu.test/root"]; ok && seldom.Draw(t, "without its domain") {
		delete(d.Attributes, "gpu.test/root")
		d.Attributes["root"] = root
	}
	if len(d.Taints) > 0 && seldom.Draw(t, "two taints") {
		d.Taints = append(d.Taints, resourceapi.DeviceTaint{Key: "sick", Value: "very", Effect: resourceapi.DeviceTaintEffectNoExecute})
	}
	if seldom.Draw(t, "binding") {
		d.BindingConditions, d.BindingFailureConditions = []string{"ready"}, []string{"broken"}
	}
	d.BindsToNode = rapid.SampledFrom([]*bool{nil, nil, ptr.To(true)}).Draw(t, "binds")
	if seldom.Draw(t, "allocatable") {
		d.NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{v1.ResourceCPU: {}}
	}
	if rapid.IntRange(0, 2).Draw(t, "capacity") > 0 {
		return
	}
	d.AllowMultipleAllocations = ptr.To(rapid.IntRange(0, 3).Draw(t, "shared") > 0)
	d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {
		Value:         resource.MustParse(rapid.SampledFrom([]string{"4", "6", "4500m"}).Draw(t, "memory")),
		RequestPolicy: drawPolicy(t),
	}}
	if seldom.Draw(t, "two capacities") {
		d.Capacity["gpu.test/units"] = resourceapi.DeviceCapacity{Value: resource.MustParse("3"), RequestPolicy: drawPolicy(t)}
	}
}

func drawPolicy(t *rapid.T) *resourceapi.CapacityRequestPolicy {
	quantity := func(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }
	return rapid.SampledFrom([]*resourceapi.CapacityRequestPolicy{
		nil,
		{Default: quantity("2")},
		{Default: quantity("1"), ValidValues: []resource.Quantity{*quantity("1"), *quantity("3")}},
		{Default: quantity("0"), ValidValues: []resource.Quantity{*quantity("0"), *quantity("1500m"), *quantity("2")}},
		{Default: quantity("1"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity("1"), Max: quantity("4")}},
		{Default: quantity("2"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity("1"), Step: quantity("2")}},
		{Default: quantity("500m"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity("500m"), Max: quantity("4"), Step: quantity("500m")}},
		{Default: quantity("250m"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity("250m"), Step: quantity("750m")}},
	}).Draw(t, "policy")
}

func (w *world) drawRichHolders(t *rapid.T) {
	for _, s := range w.slices {
		for _, d := range s.Spec.Devices {
			if rapid.IntRange(0, 7).Draw(t, "held") != 0 {
				continue
			}
			result := resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d.Name}
			if rapid.IntRange(0, 19).Draw(t, "gone") == 0 {
				result.Device = "gone"
			}
			if ptr.Deref(d.AllowMultipleAllocations, false) {
				result.ShareID = ptr.To(types.UID("share-" + d.Name))
				result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(rapid.SampledFrom([]string{"1", "2", "500m"}).Draw(t, "share"))}
			}
			if rapid.IntRange(0, 5).Draw(t, "admin") == 0 {
				result.AdminAccess = ptr.To(true)
			}
			w.holding = append(w.holding, holderOf(fmt.Sprintf("holder-%d", len(w.holding)), result))
		}
	}
}

func holderOf(name string, results ...resourceapi.DeviceRequestAllocationResult) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: name},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: results},
		}},
	}
}

func enrichClaim(t *rapid.T, claim *resourceapi.ResourceClaim) {
	spec := &claim.Spec.Devices
	for i := range spec.Requests {
		r := &spec.Requests[i]
		exact := r.Exactly
		if rapid.IntRange(0, 7).Draw(t, "admin") == 0 {
			exact.AdminAccess = ptr.To(true)
		}
		if rapid.IntRange(0, 4).Draw(t, "asks for capacity") == 0 {
			exact.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
				"memory": resource.MustParse(rapid.SampledFrom([]string{"1", "2", "3", "1200m", "100"}).Draw(t, "amount")),
			}}
			if rapid.IntRange(0, 3).Draw(t, "asks for units") == 0 {
				exact.Capacity.Requests["gpu.test/units"] = resource.MustParse(rapid.SampledFrom([]string{"0", "1", "1500m"}).Draw(t, "units"))
			}
		}
		if rapid.IntRange(0, 7).Draw(t, "derives") == 0 {
			exact.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{
				Name: "gpu.test/root", Expression: rapid.SampledFrom([]string{
					`device.attributes["gpu.test"].model`, `device.driver`, `device.attributes["gpu.test"].missing`, `[device.driver, "a"]`,
				}).Draw(t, "expression"),
			}}
		}
		if rapid.IntRange(0, 19).Draw(t, "reads capacity") == 0 {
			exact.Selectors = append(exact.Selectors, selectors(`device.capacity["gpu.test"].units.compareTo(quantity("1")) >= 0 || device.allowMultipleAllocations`)...)
		}
		if len(exact.Tolerations) > 0 && rapid.IntRange(0, 3).Draw(t, "picky") == 0 {
			exact.Tolerations[0] = rapid.SampledFrom([]resourceapi.DeviceToleration{
				{Key: "sick", Operator: resourceapi.DeviceTolerationOpEqual, Value: "yes"}, {Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute},
			}).Draw(t, "toleration")
		}
		if exact.AdminAccess == nil && rapid.IntRange(0, 3).Draw(t, "alternatives") == 0 {
			r.Exactly = nil
			for k := range rapid.IntRange(1, 3).Draw(t, "how many") {
				sub := resourceapi.DeviceSubRequest{
					Name: fmt.Sprintf("alt%d", k), DeviceClassName: exact.DeviceClassName, Selectors: exact.Selectors, Tolerations: exact.Tolerations,
					Capacity: exact.Capacity, DerivedAttributes: exact.DerivedAttributes,
					AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(3 - k),
				}
				if rapid.IntRange(0, 5).Draw(t, "all of") == 0 {
					sub.AllocationMode, sub.Count = resourceapi.DeviceAllocationModeAll, 0
				}
				r.FirstAvailable = append(r.FirstAvailable, sub)
			}
		}
	}
	for i := range spec.Constraints {
		c := &spec.Constraints[i]
		if rapid.IntRange(0, 2).Draw(t, "distinct") == 0 {
			c.DistinctAttribute, c.MatchAttribute = c.MatchAttribute, nil
		}
		if first := spec.Requests[0]; len(first.FirstAvailable) > 0 && slices.Contains(c.Requests, first.Name) && rapid.Bool().Draw(t, "of one alternative") {
			c.Requests[slices.Index(c.Requests, first.Name)] = first.Name + "/alt0"
		}
	}
}
