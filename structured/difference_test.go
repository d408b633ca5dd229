// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	upstream "k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/structured"
)

// Where the answers differ from upstream's, this is ours, and this is upstream's.
func TestAnswersThatDiffer(t *testing.T) {
	exactly := func(r resourceapi.ExactDeviceRequest) []resourceapi.DeviceRequest {
		r.DeviceClassName = "gpu"
		if r.AllocationMode == "" {
			r.AllocationMode, r.Count = resourceapi.DeviceAllocationModeExactCount, max(r.Count, 1)
		}
		return []resourceapi.DeviceRequest{{Name: "r", Exactly: &r}}
	}
	all := exactly(resourceapi.ExactDeviceRequest{AllocationMode: resourceapi.DeviceAllocationModeAll})
	sameNUMA := resourceapi.DeviceConstraint{MatchAttribute: ptr.To[resourceapi.FullyQualifiedName]("gpu.test/numa")}
	for _, c := range []struct {
		name string
		make func(w *world)
		// ours and theirs are devices, or an error.
		ours, theirs string
	}{
		{"a gone device may still use counters", func(w *world) {
			w.slices = counted(1, "d2")
			w.state.AllocatedDevices.Insert(structured.MakeDeviceID("gpu.test", "pool", "d1"))
			w.claim(exactly(resourceapi.ExactDeviceRequest{}))
		}, "", "d2"},
		{"admin access uses no counters", func(w *world) {
			w.slices = counted(1, "d1")
			w.state.AllocatedDevices.Insert(structured.MakeDeviceID("gpu.test", "pool", "d1"))
			w.claim(exactly(resourceapi.ExactDeviceRequest{AdminAccess: ptr.To(true)}))
		}, "d1", ""},
		{"a pool that is being updated fails one node", func(w *world) {
			w.slices = []*resourceapi.ResourceSlice{devices("pool", "s", 2, "d1")}
			w.claim(all)
		}, "on node: claim ns/claim, request r: asks for all devices, but resource pool gpu.test/pool is currently being updated", "error: claim ns/claim, request r: asks for all devices, but resource pool gpu.test/pool is currently being updated"},
		{"a selector that fails fails one node", func(w *world) {
			w.slices = []*resourceapi.ResourceSlice{devices("pool", "s", 1, "d1")}
			w.claim(exactly(resourceapi.ExactDeviceRequest{Selectors: selectors(`device.attributes["gpu.test"].missing == 1`)}))
		}, "on node: claim ns/claim: selector #0 on device gpu.test/pool/d1: CEL runtime error: ", "error: claim ns/claim: selector #0 on device gpu.test/pool/d1: CEL runtime error: "},
		{"a selector that would fail on a device that is not needed", func(w *world) {
			s := devices("pool", "s", 1, "d1", "d2")
			s.Spec.Devices[0].Attributes["gpu.test/here"] = resourceapi.DeviceAttribute{IntValue: ptr.To[int64](1)}
			w.slices = []*resourceapi.ResourceSlice{s}
			w.claim(exactly(resourceapi.ExactDeviceRequest{Selectors: selectors(`device.attributes["gpu.test"].here == 1`)}))
		}, "d1", "d1"},
		{"slices that disagree about their number", func(w *world) {
			w.slices = []*resourceapi.ResourceSlice{devices("pool", "s1", 2, "d1"), devices("pool", "s2", 3, "d2")}
			w.claim(exactly(resourceapi.ExactDeviceRequest{}))
		}, "on node: invalid resource pools were encountered", "d1"},
		{"a node selector of two terms", func(w *world) {
			s := devices("pool", "s", 1, "d1")
			s.Spec.NodeName = nil
			s.Spec.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{zone("a"), zone("b")}}
			w.slices = []*resourceapi.ResourceSlice{s}
			w.claim(exactly(resourceapi.ExactDeviceRequest{}))
		}, "on node: invalid resource pools were encountered", "error: create NodeSelector for claim claim: unsupported ResourceSlice.NodeSelector with 2 terms"},
		{"the next alternative when a constraint forbids all devices", func(w *world) {
			s := devices("pool", "s", 1, "d1", "d2")
			s.Spec.Devices[1].Attributes["gpu.test/numa"] = resourceapi.DeviceAttribute{IntValue: ptr.To[int64](1)}
			w.slices = []*resourceapi.ResourceSlice{s}
			w.claim([]resourceapi.DeviceRequest{{Name: "r", FirstAvailable: []resourceapi.DeviceSubRequest{
				{Name: "all", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeAll},
				{Name: "one", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
			}}}, sameNUMA)
		}, "d1", "error: claim ns/claim, request all: cannot add device gpu.test/pool/d2 because a claim constraint would not be satisfied"},
		{"all devices that a constraint forbids", func(w *world) {
			s := devices("pool", "s", 1, "d1", "d2")
			s.Spec.Devices[1].Attributes["gpu.test/numa"] = resourceapi.DeviceAttribute{IntValue: ptr.To[int64](1)}
			w.slices = []*resourceapi.ResourceSlice{s}
			w.claim(all, sameNUMA)
		}, "on node: claim ns/claim, request r: cannot add device gpu.test/pool/d2 because a claim constraint would not be satisfied", "error: claim ns/claim, request r: cannot add device gpu.test/pool/d2 because a claim constraint would not be satisfied"},
		{"an older generation that looks complete", func(w *world) {
			newer := devices("pool", "s2", 2, "d2")
			newer.Spec.Pool.Generation, newer.Spec.NodeName = 2, ptr.To("n2")
			w.slices = []*resourceapi.ResourceSlice{devices("pool", "s1", 1, "d1"), newer}
			w.claim(exactly(resourceapi.ExactDeviceRequest{}))
		}, "", "d1"},
		{"a selector that does not compile and has no device to ask about", func(w *world) {
			w.claim(exactly(resourceapi.ExactDeviceRequest{Selectors: selectors(`nonsense`)}))
		}, "error: claim ns/claim: selector #0: CEL compile error: ", ""},
		{"one device of a constraint whose value is a list while lists are off", func(w *world) {
			w.features.ListTypeAttributes = false
			s := devices("pool", "s", 1, "d1")
			s.Spec.Devices[0].Attributes["gpu.test/numa"] = resourceapi.DeviceAttribute{IntValues: []int64{1, 2}}
			w.slices = []*resourceapi.ResourceSlice{s}
			w.claim(exactly(resourceapi.ExactDeviceRequest{}), sameNUMA)
		}, "", "d1"},
		{"no difference: devices that are none without a feature count for no limit", func(w *world) {
			w.features.DeviceBindingAndStatus = false
			var names []string
			for i := range 17 {
				names = append(names, fmt.Sprintf("d%02d", i))
			}
			// Not enough for all: they are counted without having been had.
			w.slices = counted(1, names...)
			s := w.slices[0]
			s.Spec.Devices[3].BindingConditions, s.Spec.Devices[3].BindingFailureConditions = []string{"ready"}, []string{"failed"}
			w.claim(append(slices.Clone(all), resourceapi.DeviceRequest{Name: "again", Exactly: all[0].Exactly}))
		}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := plainWorld()
			c.make(w)
			if got := w.answer(t, structured.NewAllocator); !strings.HasPrefix(got, c.ours) || c.ours == "" && got != "" {
				t.Errorf("ours is %q, want %q", got, c.ours)
			}
			if got := w.answer(t, upstream.NewAllocator); !strings.HasPrefix(got, c.theirs) || c.theirs == "" && got != "" {
				t.Errorf("upstream's is %q, want %q", got, c.theirs)
			}
		})
	}
}

func plainWorld() *world {
	return &world{
		node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}}, features: all,
		classes: map[string]*resourceapi.DeviceClass{"gpu": {ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}},
		state:   structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID]()},
	}
}

func (w *world) claim(requests []resourceapi.DeviceRequest, constraints ...resourceapi.DeviceConstraint) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim"}}
	claim.Spec.Devices = resourceapi.DeviceClaim{Requests: requests, Constraints: constraints}
	w.claims = append(w.claims, claim)
}

// answer is the devices, or the error: of the node, or of the whole attempt.
func (w *world) answer(t *testing.T, make newAllocator) string {
	t.Helper()
	allocator, err := make(t.Context(), w.features, w.state, w, w.slices, cel.NewCache(10, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}))
	if err != nil {
		t.Fatal(err)
	}
	results, err := allocator.Allocate(t.Context(), w.node, w.claims)
	switch {
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return fmt.Sprint("on node: ", err)
	case err != nil:
		return fmt.Sprint("error: ", err)
	}
	return strings.Join(names(results), " ")
}

func names(results []resourceapi.AllocationResult) []string {
	var all []string
	for i := range results {
		for _, r := range results[i].Devices.Results {
			all = append(all, r.Device)
		}
	}
	return all
}

func devices(pool, name string, total int64, names ...string) *resourceapi.ResourceSlice {
	s := poolSlice("gpu.test", pool, name, total)
	for _, name := range names {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"gpu.test/numa": {IntValue: ptr.To[int64](0)},
		}})
	}
	return s
}

// counted is a pool of devices that consume a counter that has enough for so many.
func counted(total int, names ...string) []*resourceapi.ResourceSlice {
	one := map[string]resourceapi.Counter{"memory": {Value: quantity(1)}}
	s, counters := devices("pool", "s", 2, names...), poolSlice("gpu.test", "pool", "counters", 2)
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "set", Counters: map[string]resourceapi.Counter{"memory": {Value: quantity(total)}}}}
	for i := range s.Spec.Devices {
		s.Spec.Devices[i].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "set", Counters: one}}
	}
	return []*resourceapi.ResourceSlice{s, counters}
}

func zone(name string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{name}}}}
}

// What is remembered between allocators is forgotten with any object that is
// replaced.
func TestNewObjectsCount(t *testing.T) {
	w := plainWorld()
	w.slices = []*resourceapi.ResourceSlice{devices("pool", "s", 1, "d1", "d2")}
	w.claim([]resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
	}}})
	cache := cel.NewCache(10, cel.Features{})
	answer := func() string {
		allocator, err := structured.NewAllocator(context.Background(), structured.Features{}, w.state, w, w.slices, cache)
		if err != nil {
			t.Fatal(err)
		}
		results, err := allocator.Allocate(context.Background(), w.node, w.claims)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(names(results), " ")
	}
	var got []string
	step := func() { got = append(got, answer(), answer()) }
	step()
	w.state.AllocatedDevices = sets.New(structured.MakeDeviceID("gpu.test", "pool", "d1"))
	step()
	w.slices = []*resourceapi.ResourceSlice{devices("pool", "s", 1, "d1", "d3")}
	step()
	w.state.AllocatedDevices = nil
	w.claims = []*resourceapi.ResourceClaim{w.claims[0].DeepCopy()}
	w.claims[0].Spec.Devices.Requests[0].Exactly.Count = 2
	step()
	w.classes = map[string]*resourceapi.DeviceClass{"gpu": {ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{Selectors: selectors("false")}}}
	step()
	if diff := cmp.Diff([]string{"d1", "d1", "d2", "d2", "d3", "d3", "d1 d3", "d1 d3", "", ""}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A state that changes between two allocators, as its methods change it, is a new
// one: what is remembered of the old one does not change along.
func TestStatesThatChangeCount(t *testing.T) {
	w := plainWorld()
	s := devices("pool", "s", 1, "d1")
	s.Spec.Devices[0].AllowMultipleAllocations = ptr.To(true)
	s.Spec.Devices[0].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: quantity(10)}}
	w.slices = []*resourceapi.ResourceSlice{s}
	w.claim([]resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": quantity(4)}},
	}}})
	w.state.AggregatedCapacity = structured.NewConsumedCapacityCollection()
	cache := cel.NewCache(10, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	var got []string
	for range 4 {
		allocator, err := structured.NewAllocator(t.Context(), w.features, w.state, w, w.slices, cache)
		if err != nil {
			t.Fatal(err)
		}
		results, err := allocator.Allocate(t.Context(), w.node, w.claims)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Join(names(results), " "))
		w.state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(structured.MakeDeviceID("gpu.test", "pool", "d1"),
			map[resourceapi.QualifiedName]resource.Quantity{"memory": quantity(3)}))
	}
	if diff := cmp.Diff([]string{"d1", "d1", "d1", ""}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
