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

// What pools remember is shared by those that are alike. Pools that differ in what
// is asked for, be it in one device or only in what the numbers of values mean, get
// an answer of their own, whoever was asked first.
func TestAlikePoolsShareNothingWrong(t *testing.T) {
	type gpu struct {
		model string
		half  int64
	}
	nodes := map[string][]gpu{
		"a":      {{"H100", 0}, {"H100", 1}, {"A100", 0}, {"H100", 1}},
		"like-a": {{"H100", 0}, {"H100", 1}, {"A100", 0}, {"H100", 1}},
		"b":      {{"A100", 0}, {"H100", 1}, {"H100", 0}, {"H100", 1}},
		"c":      {{"H100", 5}, {"H100", 6}, {"A100", 5}, {"H100", 6}},
		"short":  {{"H100", 0}, {"A100", 1}, {"H100", 1}},
	}
	want := map[string]string{"a": "[gpu-1 gpu-3]", "like-a": "[gpu-1 gpu-3]", "b": "[gpu-1 gpu-3]", "c": "[gpu-1 gpu-3]", "short": "[]"}

	w := gpuNode()
	w.slices = nil
	for name, gpus := range nodes {
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.test", NodeName: ptr.To(name),
			Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
		}}
		for i, g := range gpus {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
				Name: fmt.Sprintf("gpu-%d", i),
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
					"model": {StringValue: &g.model}, "half": {IntValue: &g.half}, "uuid": {StringValue: ptr.To(fmt.Sprint(name, i))},
				},
			})
		}
		w.slices = append(w.slices, slice)
	}
	// A pool of another driver on each node makes the values of both be compared.
	shared := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "nics"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "nic.test", AllNodes: ptr.To(true),
		Pool: resourceapi.ResourcePool{Name: "nics", Generation: 1, ResourceSliceCount: 1},
		Devices: []resourceapi.Device{{Name: "nic-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"gpu.test/half": {IntValue: ptr.To(int64(1))}, "gpu.test/model": {StringValue: ptr.To("NIC")},
		}}},
	}}
	w.claim(resourceapi.ExactDeviceRequest{Count: 2, Selectors: selectors(`device.attributes["gpu.test"].model == "H100"`)}, "gpu.test/half")

	for _, withNIC := range []bool{false, true} {
		if withNIC {
			w.slices = append(w.slices, shared)
		}
		problem, view := w.compile(t, device.Options{}), w.view()
		for range 2 {
			for name, devices := range want {
				plan, _ := problem.Solve(view.Node(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
				got := []string{}
				for _, result := range plan.Results(nil) {
					for _, r := range result.Devices.Results {
						got = append(got, r.Device)
					}
				}
				if fmt.Sprint(got) != devices {
					t.Errorf("node %s, NIC %v: got %v, want %s", name, withNIC, got, devices)
				}
			}
		}
	}
}
