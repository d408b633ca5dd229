// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/reason"
)

// One node with two GPUs, one of them held, and pods that want one and two.
func Example() {
	node := "node-1"
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1-gpus"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver:   "gpu.example.com",
			NodeName: &node,
			Pool:     resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1},
			Devices:  []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
		},
	}
	notebook := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "notebook"}}
	notebook.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}},
	}}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}

	pool := device.CompilePool([]*resourceapi.ResourceSlice{slice})
	use := device.CompileUse(pool.ID(), []*resourceapi.ResourceClaim{notebook})
	view := device.NewView([]device.PoolView{{Pool: pool, Use: use}})
	here := view.Node(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})

	for _, count := range []int64{1, 2} {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "trainer"}}
		claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: count},
		}}
		classes := func(string) *resourceapi.DeviceClass { return class }
		problem, refused := device.Compile([]*resourceapi.ResourceClaim{claim}, classes, device.Options{})
		if refused != nil {
			fmt.Println(refused)
			return
		}
		plan, refused := problem.Solve(here)
		if refused != nil {
			fmt.Println(refused)
			_ = reason.Write(os.Stdout, problem.Explain(here))
			return
		}
		fmt.Println(plan.Results(nil)[0].Devices.Results[0].Device)
	}
	// Output:
	// gpu-1
	// not enough free devices
	// NotEnoughDevices: node node-1 has 1 free device of class gpu for request "gpu", which wants 2
	//   node node-1 · claim ml/trainer · request gpu · class gpu
	//   wanted 2 · had 1
	//   2 in class · 2 match · 1 free
	//   held: gpu-0 ml/notebook
}
