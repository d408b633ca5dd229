// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"math"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/device"
)

// Objects that no API server would let through are refused with a reason or
// handled; nothing panics and no plan breaks a rule.
func TestBrokenObjectsAreHandled(t *testing.T) { rapid.Check(t, solveBroken(device.NewSelectors(100))) }

func FuzzSolve(f *testing.F) { f.Fuzz(rapid.MakeFuzz(solveBroken(device.NewSelectors(100)))) }

func solveBroken(shared *device.Selectors) func(*rapid.T) {
	return func(t *rapid.T) { solveBrokenWorld(t, shared) }
}

func solveBrokenWorld(t *rapid.T, shared *device.Selectors) {
	w := drawRichWorld(t, size{pools: 3, devicesPerSlice: 4, claims: 3, requests: 3, count: 3})
	for _, s := range w.slices {
		breakSlice(t, s)
	}
	for _, claim := range w.claims {
		breakClaim(t, claim)
	}
	var on device.Features
	gates := reflect.ValueOf(&on).Elem()
	for i := range gates.NumField() {
		gates.Field(i).SetBool(rapid.IntRange(0, 5).Draw(t, gates.Type().Field(i).Name) > 0)
	}
	problem, refused := device.Compile(w.claims, w.class, device.Options{Features: on, Selectors: shared, Strategy: drawStrategy(t), Budget: rapid.Int64Range(0, 5000).Draw(t, "budget")})
	if (problem == nil) != (refused != nil) {
		t.Fatalf("compiled to %v and %v", problem, refused)
	}
	if refused != nil {
		_ = refused.Sentence()
		return
	}
	node := w.view().Node(w.node)
	plan, refused := problem.Solve(node)
	explained := problem.Explain(node)
	if (refused == nil) != (explained == nil) || refused != nil && refused.Code != explained.Code {
		t.Fatalf("Solve says %v, Explain says %v", refused, explained)
	}
	if refused != nil {
		return
	}
	plan.Warnings()
	if err := device.Verify(problem, node, plan); err != nil {
		t.Fatalf("the plan breaks a rule: %v", err)
	}
}

func breakSlice(t *rapid.T, s *resourceapi.ResourceSlice) {
	switch rapid.IntRange(0, 29).Draw(t, "break slice") {
	case 0:
		s.Spec.Pool.ResourceSliceCount = rapid.Int64().Draw(t, "slice count")
	case 1:
		s.Spec.Pool.Generation = rapid.Int64().Draw(t, "generation")
	case 2:
		s.Spec.Devices = append(s.Spec.Devices, s.Spec.Devices...)
	case 3:
		s.Spec.NodeName, s.Spec.AllNodes = nil, nil
		s.Spec.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: make([]v1.NodeSelectorTerm, rapid.IntRange(0, 2).Draw(t, "terms"))}
	case 4:
		s.Spec.NodeName, s.Spec.AllNodes = nil, nil
		s.Spec.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: "Sideways"}},
		}}}
	case 5:
		s.Spec.NodeName, s.Spec.AllNodes, s.Spec.NodeSelector, s.Spec.PerDeviceNodeSelection = nil, nil, nil, nil
	case 6:
		s.Spec.PerDeviceNodeSelection = ptr.To(true)
	case 7:
		for i := range s.Spec.Devices {
			s.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"gpu.test/root": {}, "root": {StringValues: []string{"x"}}, "": {IntValue: ptr.To(int64(1))},
			}
		}
	case 8:
		s.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "odd", Counters: map[string]resourceapi.Counter{"": {Value: drawQuantity(t)}, "x": {Value: drawQuantity(t)}}}}
		for i := range s.Spec.Devices {
			s.Spec.Devices[i].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "odd", Counters: map[string]resourceapi.Counter{"x": {Value: drawQuantity(t)}}}}
		}
	case 9:
		for i := range s.Spec.Devices {
			s.Spec.Devices[i].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "nowhere"}, {}}
		}
	case 10, 11, 12:
		for i := range s.Spec.Devices {
			breakCapacity(t, &s.Spec.Devices[i])
		}
	}
}

// drawQuantity draws what no driver should publish too.
func drawQuantity(t *rapid.T) resource.Quantity {
	return resource.MustParse(rapid.SampledFrom([]string{"0", "-1", "1", "1n", "100m", "3", "8Ei", "9223372036854775807", "1e30", "-5Gi", "0.3"}).Draw(t, "quantity"))
}

func breakCapacity(t *rapid.T, d *resourceapi.Device) {
	d.AllowMultipleAllocations = ptr.To(rapid.Bool().Draw(t, "shared"))
	policy := &resourceapi.CapacityRequestPolicy{}
	some := func() *resource.Quantity {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		return ptr.To(drawQuantity(t))
	}
	switch rapid.IntRange(0, 3).Draw(t, "policy") {
	case 0:
		policy = nil
	case 1:
		policy.Default, policy.ValidValues = some(), []resource.Quantity{drawQuantity(t), drawQuantity(t)}
	default:
		policy.Default, policy.ValidRange = some(), &resourceapi.CapacityRequestPolicyRange{Min: some(), Max: some(), Step: some()}
	}
	d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: drawQuantity(t), RequestPolicy: policy}}
}

func breakClaim(t *rapid.T, claim *resourceapi.ResourceClaim) {
	spec := &claim.Spec.Devices
	first := &spec.Requests[0]
	if first.Exactly == nil {
		breakAlternatives(t, first)
		return
	}
	switch rapid.IntRange(0, 39).Draw(t, "break claim") {
	case 0:
		first.Exactly = nil
	case 1:
		first.Exactly.Count = rapid.Int64().Draw(t, "any count")
	case 2:
		first.Exactly.AllocationMode = "Sometimes"
	case 3:
		first.Exactly.DeviceClassName = rapid.SampledFrom([]string{"", "missing"}).Draw(t, "any class")
	case 4:
		first.Exactly.Selectors = []resourceapi.DeviceSelector{{}}
	case 5:
		first.Exactly.Selectors = selectors(rapid.SampledFrom([]string{"", "1", "device.", `device.attributes["x"].y`, `device.attributes["gpu.test"].nothing`}).Draw(t, "expression"))
	case 6:
		spec.Requests = append(spec.Requests, spec.Requests...)
	case 7:
		spec.Constraints = append(spec.Constraints, resourceapi.DeviceConstraint{})
	case 8:
		spec.Constraints = append(spec.Constraints, resourceapi.DeviceConstraint{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("/"))})
	case 9:
		spec.Constraints = append(spec.Constraints, resourceapi.DeviceConstraint{MatchAttribute: ptr.To(attributeNames[0]), Requests: []string{"", "r0/sub"}})
	case 10:
		spec.Requests = nil
	case 11:
		claim.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: "Sideways"}},
		}}}}
	case 12:
		claim.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: &v1.NodeSelector{}}
	case 13:
		first.Exactly.Tolerations = []resourceapi.DeviceToleration{{Operator: "Sideways"}}
	case 14, 15, 16, 17:
		first.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": drawQuantity(t)}}
	case 18:
		first.Exactly.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: attributeNames[0], Expression: "nothing"}, {}}
	}
}

func breakAlternatives(t *rapid.T, r *resourceapi.DeviceRequest) {
	sub := &r.FirstAvailable[len(r.FirstAvailable)-1]
	switch rapid.IntRange(0, 9).Draw(t, "break alternatives") {
	case 0:
		r.FirstAvailable = append(r.FirstAvailable, r.FirstAvailable...)
	case 1:
		sub.Count = rapid.SampledFrom([]int64{-1, 33, math.MaxInt64}).Draw(t, "count")
	case 2:
		sub.AllocationMode = "Sometimes"
	case 3:
		sub.DeviceClassName = "missing"
	case 4:
		r.Exactly = &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"}
	case 5:
		sub.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": drawQuantity(t)}}
	}
}
