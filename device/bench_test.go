// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/device"
)

// gpuNode is a node of eight GPUs, two on each of four PCIe roots.
func gpuNode() *world {
	w := &world{
		node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		classes: map[string]*resourceapi.DeviceClass{"gpu": {
			ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
			Spec:       resourceapi.DeviceClassSpec{Selectors: selectors(`device.driver == "gpu.test"`)},
		}},
	}
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "n1-gpus"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.test", NodeName: ptr.To("n1"),
			Pool: resourceapi.ResourcePool{Name: "n1", Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range 8 {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"gpu.test/model": {StringValue: ptr.To("H100")},
				"gpu.test/half":  {IntValue: ptr.To(int64(i % 2))},
			},
		})
	}
	w.slices = append(w.slices, slice)
	return w
}

func (w *world) claim(exact resourceapi.ExactDeviceRequest, match ...resourceapi.FullyQualifiedName) {
	exact.DeviceClassName = "gpu"
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpus", Exactly: &exact}}
	for _, attribute := range match {
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, resourceapi.DeviceConstraint{MatchAttribute: &attribute})
	}
	w.claims = append(w.claims, claim)
}

func (w *world) hold(devices ...string) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "holder"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for _, name := range devices {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: "gpu.test", Pool: "n1", Device: name})
	}
	w.holding = append(w.holding, claim)
}

// BenchmarkSolve is one node and one claim, with what can be remembered between
// nodes and pods in memory. It is to be compared with the Allocate of
// k8s.io/dynamic-resource-allocation/structured on the same node.
func BenchmarkSolve(b *testing.B) {
	for _, c := range []struct {
		name string
		make func(w *world)
	}{
		{"one-of-eight", func(w *world) { w.claim(resourceapi.ExactDeviceRequest{Count: 1}) }},
		{"attribute-selector", func(w *world) {
			w.claim(resourceapi.ExactDeviceRequest{Count: 1, Selectors: selectors(`device.attributes["gpu.test"].model == "H100"`)})
		}},
		{"four", func(w *world) { w.claim(resourceapi.ExactDeviceRequest{Count: 4}) }},
		{"four-match", func(w *world) { w.claim(resourceapi.ExactDeviceRequest{Count: 4}, "gpu.test/half") }},
		{"four-match-last", func(w *world) {
			w.hold("gpu-2")
			w.claim(resourceapi.ExactDeviceRequest{Count: 4}, "gpu.test/half")
		}},
		{"refuse-full", func(w *world) {
			w.hold("gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6", "gpu-7")
			w.claim(resourceapi.ExactDeviceRequest{Count: 1})
		}},
		{"refuse-match", func(w *world) {
			w.hold("gpu-2", "gpu-3")
			w.claim(resourceapi.ExactDeviceRequest{Count: 4}, "gpu.test/half")
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := gpuNode()
			c.make(w)
			problem := w.compile(b, device.Options{})
			node := w.view().Node(w.node)
			b.ReportAllocs()
			for b.Loop() {
				problem.Solve(node)
			}
		})
	}
}

// BenchmarkSolveMIG is a node of eight GPUs with partitions, seven of which are
// taken as a whole.
func BenchmarkSolveMIG(b *testing.B) {
	for _, c := range []struct {
		name          string
		halves, small int64
	}{{"one", 0, 1}, {"mix", 1, 3}, {"refuse", 2, 3}} {
		b.Run(c.name, func(b *testing.B) {
			w := migNode()
			for g := range 7 {
				w.hold(fmt.Sprintf("gpu-%d-whole-0", g))
			}
			if c.halves > 0 {
				w.claim(resourceapi.ExactDeviceRequest{Count: c.halves, Selectors: profile("half")})
			}
			w.claim(resourceapi.ExactDeviceRequest{Count: c.small, Selectors: profile("small")})
			w.claims[len(w.claims)-1].Name = "small"
			problem := w.compile(b, device.Options{Features: everyFeature()})
			node := w.view().Node(w.node)
			b.ReportAllocs()
			for b.Loop() {
				problem.Solve(node)
			}
		})
	}
}
