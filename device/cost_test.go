// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"fmt"
	"math"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/reason"
)

// migNode is a node of eight GPUs, each of which is one whole, two halves, four
// quarters or seven smalls, over counters for memory and for compute.
func migNode() *world {
	w := &world{
		node:    &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		classes: map[string]*resourceapi.DeviceClass{"gpu": {ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}},
	}
	pool := resourceapi.ResourcePool{Name: "n1", Generation: 1, ResourceSliceCount: 2}
	counters := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "n1-counters"},
		Spec:       resourceapi.ResourceSliceSpec{Driver: "gpu.test", NodeName: ptr.To("n1"), Pool: pool},
	}
	gpus := counters.DeepCopy()
	gpus.Name = "n1-gpus"
	for g := range 8 {
		set := fmt.Sprintf("gpu-%d", g)
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{Name: set, Counters: map[string]resourceapi.Counter{
			"memory": {Value: resource.MustParse("80Gi")}, "compute": {Value: resource.MustParse("7")},
		}})
		for _, profile := range []struct {
			name            string
			count           int
			memory, compute string
		}{{"whole", 1, "80Gi", "7"}, {"half", 2, "40Gi", "3"}, {"quarter", 4, "20Gi", "1"}, {"small", 7, "10Gi", "1"}} {
			for i := range profile.count {
				gpus.Spec.Devices = append(gpus.Spec.Devices, resourceapi.Device{
					Name:       fmt.Sprintf("%s-%s-%d", set, profile.name, i),
					Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"profile": {StringValue: ptr.To(profile.name)}},
					ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: map[string]resourceapi.Counter{
						"memory": {Value: resource.MustParse(profile.memory)}, "compute": {Value: resource.MustParse(profile.compute)},
					}}},
				})
			}
		}
	}
	w.slices = []*resourceapi.ResourceSlice{counters, gpus}
	return w
}

func profile(name string) []resourceapi.DeviceSelector {
	return selectors(fmt.Sprintf(`device.attributes["gpu.test"].profile == %q`, name))
}

// leastAllocs are the allocations of f where it finds the memory that it keeps: a
// sync.Pool may have lost it, and with the race detector often has.
func leastAllocs(f func()) float64 {
	least := math.Inf(1)
	for range 100 {
		least = min(least, testing.AllocsPerRun(1, f))
	}
	return least
}

// A refusal is for a node that the pod does not get: it costs next to nothing.
func TestRefusalsAllocateLittle(t *testing.T) {
	for name, make := range map[string]func() *world{
		"full": func() *world {
			w := gpuNode()
			w.hold("gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6", "gpu-7")
			w.claim(resourceapi.ExactDeviceRequest{Count: 1})
			return w
		},
		"match": func() *world {
			w := gpuNode()
			w.hold("gpu-2", "gpu-3")
			w.claim(resourceapi.ExactDeviceRequest{Count: 4}, "gpu.test/half")
			return w
		},
		"mig": func() *world {
			w := migNode()
			w.hold("gpu-0-whole-0", "gpu-1-whole-0", "gpu-2-whole-0", "gpu-3-whole-0", "gpu-4-whole-0", "gpu-5-whole-0", "gpu-6-whole-0")
			w.claim(resourceapi.ExactDeviceRequest{Count: 2, Selectors: profile("half")})
			w.claim(resourceapi.ExactDeviceRequest{Count: 3, Selectors: profile("small")})
			w.claims[1].Name = "smalls"
			return w
		},
	} {
		w := make()
		problem := w.compile(t, device.Options{Features: everyFeature()})
		node := w.view().Node(w.node)
		if _, refused := problem.Solve(node); refused == nil {
			t.Fatalf("%s: there is a plan", name)
		}
		if least := leastAllocs(func() { problem.Solve(node) }); least > 10 {
			t.Errorf("%s: %v allocations, want at most 10", name, least)
		}
	}
}

// 5,000 nodes, each with a pool and counters of its own: what one node costs is
// what it costs when it is alone.
func TestCostOfANodeDoesNotDependOnOthers(t *testing.T) {
	one := migNode()
	one.claim(resourceapi.ExactDeviceRequest{Count: 2, Selectors: profile("half")})
	problem := one.compile(t, device.Options{Features: everyFeature()})
	cost := func(view *device.View) (float64, int64) {
		plan, refused := problem.Solve(view.Node(one.node))
		if refused != nil {
			t.Fatal(refused)
		}
		return leastAllocs(func() { problem.Solve(view.Node(one.node)) }), plan.Steps()
	}
	alone, steps := cost(one.view())
	for n := range 4999 {
		for _, s := range one.slices[:2] {
			other := s.DeepCopy()
			other.Name, other.Spec.Pool.Name = fmt.Sprintf("other-%d-%s", n, s.Name), fmt.Sprintf("other-%d", n)
			other.Spec.NodeName = ptr.To(other.Spec.Pool.Name)
			one.slices = append(one.slices, other)
		}
	}
	if among, moreSteps := cost(one.view()); among > alone || moreSteps != steps {
		t.Errorf("%v allocations and %d steps among 5,000 nodes, %v and %d alone", among, moreSteps, alone, steps)
	}
}

// 10,000 shares of other devices cost a claim nothing.
func TestCostDoesNotDependOnSharesOfOthers(t *testing.T) {
	w := gpuNode()
	for i := range w.slices[0].Spec.Devices {
		d := &w.slices[0].Spec.Devices[i]
		d.AllowMultipleAllocations = ptr.To(true)
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {
			Value: resource.MustParse("100Gi"), RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("1Mi"))},
		}}
	}
	w.claim(resourceapi.ExactDeviceRequest{Count: 1})
	problem := w.compile(t, device.Options{Features: everyFeature(), Strategy: device.InOrder})
	pool := device.CompilePool(w.slices)
	cost := func(shares int) (float64, int64) {
		var held []device.Holding
		for i := range shares {
			held = append(held, device.Holding{
				Device: fmt.Sprintf("gpu-%d", 1+i%7), Shared: true,
				Consumed: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("1Mi")},
			})
		}
		node := device.NewView([]device.PoolView{{Pool: pool, Use: device.NewUse(pool.ID(), held)}}).Node(w.node)
		plan, refused := problem.Solve(node)
		if refused != nil {
			t.Fatal(refused)
		}
		return leastAllocs(func() { problem.Solve(node) }), plan.Steps()
	}
	few, steps := cost(7)
	if many, moreSteps := cost(10_000); many > few || moreSteps != steps {
		t.Errorf("%v allocations and %d steps with 10,000 shares, %v and %d with 7", many, moreSteps, few, steps)
	}
}

// A node whose device is held by somebody unknown to the caller says so.
func TestNewUseHoldsWithoutClaims(t *testing.T) {
	w := gpuNode()
	w.claim(resourceapi.ExactDeviceRequest{Count: 8})
	pool := device.CompilePool(w.slices)
	use := device.NewUse(pool.ID(), []device.Holding{{Device: "gpu-3"}})
	problem := w.compile(t, device.Options{Features: everyFeature()})
	refused := problem.Explain(device.NewView([]device.PoolView{{Pool: pool, Use: use}}).Node(w.node))
	if refused == nil || refused.Code != reason.NotEnoughDevices {
		t.Fatalf("got %v", refused)
	}
	if got := refused.Facts.Devices.Refused; len(got) != 1 || got[0].Device.Name != "gpu-3" || got[0].Why != "in use" {
		t.Errorf("refused: %v", got)
	}
}
