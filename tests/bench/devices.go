// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	driver = "gpu.example.com"
	class  = "gpu.example.com"
)

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

func node(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}
}

func gpuClass() *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: class},
		Spec:       resourceapi.DeviceClassSpec{Selectors: selectors(`device.driver == "gpu.example.com"`)},
	}
}

func selectors(expressions ...string) []resourceapi.DeviceSelector {
	var all []resourceapi.DeviceSelector
	for _, expression := range expressions {
		all = append(all, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return all
}

// gpu is a device with six attributes and two capacities, as drivers publish it:
// alike but for its index and serial number.
func gpu(i int) resourceapi.Device {
	return resourceapi.Device{
		Name: fmt.Sprintf("gpu-%03d", i),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"model":         {StringValue: ptr.To("a100")},
			"uuid":          {StringValue: ptr.To(fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i))},
			"index":         {IntValue: ptr.To(int64(i))},
			"numa":          {IntValue: ptr.To(int64(i % 2))},
			"healthy":       {BoolValue: ptr.To(true)},
			"driverVersion": {VersionValue: ptr.To("550.54.15")},
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": {Value: resource.MustParse("80Gi")},
			"cores":  {Value: resource.MustParse("108")},
		},
	}
}

func poolSlice(name, node string, slicesInPool int64) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: resourceapi.ResourceSliceSpec{
			Driver:   driver,
			Pool:     resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: slicesInPool},
			NodeName: &node,
		},
	}
}

// gpuSlice is the one slice of a node of n GPUs. change may be nil.
func gpuSlice(node string, n int, change func(i int, d *resourceapi.Device)) *resourceapi.ResourceSlice {
	s := poolSlice(node+"-slice", node, 1)
	for i := range n {
		d := gpu(i)
		if change != nil {
			change(i, &d)
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

// grouped gives device i the value that group says, as attribute "group".
func grouped(group func(i int) int) func(int, *resourceapi.Device) {
	return func(i int, d *resourceapi.Device) { setInt(d, "group", group(i)) }
}

func setInt(d *resourceapi.Device, attribute resourceapi.QualifiedName, value int) {
	d.Attributes[attribute] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(value))}
}

// profiles of a GPU that can be partitioned, like an A100 of 80 GB: how many
// partitions of a kind it offers, and what each takes of its memory and slices.
var profiles = []struct {
	name             string
	partitions       int
	gibibytes, units int64
}{
	{"whole", 1, 80, 7},
	{"half", 2, 40, 3},
	{"quarter", 4, 20, 1},
	{"small", 7, 10, 1},
}

// gpusPerSlice keeps a slice below 64 devices, the most that may consume counters.
const gpusPerSlice = 4

// migSlices is the pool of a node of GPUs that can be partitioned: one slice with a
// counter set per GPU, and slices with fourteen devices per GPU.
func migSlices(node string, gpus int) []*resourceapi.ResourceSlice {
	count := int64(1 + (gpus+gpusPerSlice-1)/gpusPerSlice)
	counters := poolSlice(node+"-counters", node, count)
	all := []*resourceapi.ResourceSlice{counters}
	index := 0
	for g := range gpus {
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{
			Name: fmt.Sprintf("gpu-%d", g), Counters: gpuCounters(80, 7),
		})
		if g%gpusPerSlice == 0 {
			all = append(all, poolSlice(fmt.Sprintf("%s-devices-%d", node, g/gpusPerSlice), node, count))
		}
		devices := &all[len(all)-1].Spec.Devices
		for _, p := range profiles {
			for i := range p.partitions {
				d := gpu(index)
				index++
				d.Name = fmt.Sprintf("gpu-%d-%s-%d", g, p.name, i)
				d.Attributes["profile"] = resourceapi.DeviceAttribute{StringValue: ptr.To(p.name)}
				setInt(&d, "parent", g)
				delete(d.Attributes, "numa")
				d.Capacity["memory"] = resourceapi.DeviceCapacity{Value: gibibytes(p.gibibytes)}
				d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
					CounterSet: fmt.Sprintf("gpu-%d", g), Counters: gpuCounters(p.gibibytes, p.units),
				}}
				*devices = append(*devices, d)
			}
		}
	}
	return all
}

func gpuCounters(gib, units int64) map[string]resourceapi.Counter {
	return map[string]resourceapi.Counter{
		"memory": {Value: gibibytes(gib)},
		"slices": {Value: *resource.NewQuantity(units, resource.DecimalSI)},
	}
}

func gibibytes(n int64) resource.Quantity { return *resource.NewQuantity(n<<30, resource.BinarySI) }

func ofProfile(name string) string {
	return fmt.Sprintf(`device.attributes["gpu.example.com"].profile == %q`, name)
}

func request(name string, count int64, expressions ...string) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: class,
		AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
		Count:           count,
		Selectors:       selectors(expressions...),
	}}
}

// alternatives wants the first of these counts that can be had.
func alternatives(name string, counts ...int64) resourceapi.DeviceRequest {
	r := resourceapi.DeviceRequest{Name: name}
	for i, count := range counts {
		r.FirstAvailable = append(r.FirstAvailable, resourceapi.DeviceSubRequest{
			Name:            fmt.Sprintf("choice-%d", i),
			DeviceClassName: class,
			AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
			Count:           count,
		})
	}
	return r
}

func attribute(name string) *resourceapi.FullyQualifiedName {
	return ptr.To(resourceapi.FullyQualifiedName(driver + "/" + name))
}

func match(name string) resourceapi.DeviceConstraint {
	return resourceapi.DeviceConstraint{MatchAttribute: attribute(name)}
}

func distinct(name string) resourceapi.DeviceConstraint {
	return resourceapi.DeviceConstraint{DistinctAttribute: attribute(name)}
}

func claim(name string, requests []resourceapi.DeviceRequest, constraints ...resourceapi.DeviceConstraint) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests, Constraints: constraints}},
	}
}

// one is a single claim with a single request.
func one(r resourceapi.DeviceRequest, constraints ...resourceapi.DeviceConstraint) []*resourceapi.ResourceClaim {
	return []*resourceapi.ResourceClaim{claim("claim", []resourceapi.DeviceRequest{r}, constraints...)}
}
