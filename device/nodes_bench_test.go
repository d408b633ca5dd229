// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/device"
)

// BenchmarkNodes asks node after node of a cluster in which each has a pool of its
// own. What it costs more with many nodes is what the processor waits for memory
// that its caches do not hold.
func BenchmarkNodes(b *testing.B) {
	for _, shape := range []struct {
		name string
		ask  func(w *world)
	}{
		{"one", func(w *world) { w.claim(resourceapi.ExactDeviceRequest{Count: 1}) }},
		{"four-match", func(w *world) { w.claim(resourceapi.ExactDeviceRequest{Count: 4}, "gpu.test/half") }},
	} {
		for _, n := range []int{50, 5000} {
			b.Run(fmt.Sprintf("%s-%d", shape.name, n), func(b *testing.B) {
				w := gpuNode()
				shape.ask(w)
				slice := w.slices[0]
				w.slices = nil
				var nodes []*v1.Node
				for i := range n {
					name := fmt.Sprintf("node-%05d", i)
					own := slice.DeepCopy()
					own.Name, own.Spec.Pool.Name, own.Spec.NodeName = name+"-gpus", name, ptr.To(name)
					for d := range own.Spec.Devices {
						own.Spec.Devices[d].Attributes["gpu.test/uuid"] = resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprintf("GPU-%d-%d", i, d))}
					}
					w.slices = append(w.slices, own)
					nodes = append(nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: strings.Clone(name)}})
				}
				// Informers deliver in no order, so neighbours are strangers in memory.
				rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { w.slices[i], w.slices[j] = w.slices[j], w.slices[i] })
				problem, view := w.compile(b, device.Options{Features: everyFeature()}), w.view()
				for _, node := range nodes {
					if _, refused := problem.Solve(view.Node(node)); refused != nil {
						b.Fatal(refused)
					}
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					problem.Solve(view.Node(nodes[i%n]))
					i++
				}
			})
		}
	}
}
