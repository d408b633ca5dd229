// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
)

// expectation is what an example pod must have in the end.
type expectation struct {
	pod string
	// pending: no node can take the pod, and it holds nothing.
	pending bool
	// devices is how many devices its claims have.
	devices int
	// sharedWith is the other pod that its claim is reserved for.
	sharedWith string
	// sameAttribute has one value on all of its devices.
	sameAttribute resourceapi.QualifiedName
	// volumes is how many volumes it has of each StorageClass.
	volumes map[string]int
}

// The pods of examples/, in the order of the table.
var expectations = []expectation{
	{pod: "single-gpu", devices: 1},
	{pod: "shared-a", devices: 1, sharedWith: "shared-b"},
	{pod: "shared-b", devices: 1, sharedWith: "shared-a"},
	{pod: "four-matched", devices: 4, sameAttribute: "resource.kubernetes.io/pcieRoot"},
	{pod: "gpu-and-disk", devices: 1, volumes: map[string]int{"local": 1}},
	{pod: "db-0", volumes: map[string]int{"zonal": 1}},
	{pod: "too-big", pending: true},
}

// check compares the API objects with what is expected of each pod, and with
// what must hold for all. The error has every difference.
func check(s *snapshot.Snapshot, expected []expectation) error {
	var wrong []error
	for _, want := range expected {
		pod := s.Pod(namespace, want.pod)
		if pod == nil {
			wrong = append(wrong, fmt.Errorf("pod %s does not exist", want.pod))
			continue
		}
		for _, err := range want.check(s, pod) {
			wrong = append(wrong, fmt.Errorf("pod %s: %w", want.pod, err))
		}
	}
	wrong = append(wrong, invariants(s)...)
	if len(wrong) > 0 {
		return fmt.Errorf("not everything is where it must be:\n%w", errors.Join(wrong...))
	}
	return nil
}

func (e expectation) check(s *snapshot.Snapshot, pod *v1.Pod) []error {
	var wrong []error
	held := podClaims(s, pod)
	results := allocated(held)
	if e.pending {
		if pod.Spec.NodeName != "" {
			wrong = append(wrong, fmt.Errorf("is on node %s, but nothing can hold it", pod.Spec.NodeName))
		}
		if len(results) > 0 {
			wrong = append(wrong, fmt.Errorf("holds %d devices without a node", len(results)))
		}
		return wrong
	}

	if pod.Spec.NodeName == "" || pod.Status.Phase != v1.PodRunning {
		return append(wrong, fmt.Errorf("is %s, it must run", pod.Status.Phase))
	}
	if len(results) != e.devices {
		wrong = append(wrong, fmt.Errorf("has %d devices, it must have %d", len(results), e.devices))
	}
	for _, claim := range held {
		wrong = append(wrong, checkClaim(s, claim, pod, e.sharedWith)...)
	}
	if e.sameAttribute != "" {
		wrong = append(wrong, checkSame(s, results, e.sameAttribute)...)
	}
	bound := map[string]int{}
	for _, claim := range podVolumes(s, pod) {
		class, errs := checkVolume(s, claim, pod)
		bound[class]++
		wrong = append(wrong, errs...)
	}
	for class, n := range e.volumes {
		if bound[class] != n {
			wrong = append(wrong, fmt.Errorf("has %d volumes of class %s, it must have %d", bound[class], class, n))
		}
	}
	return wrong
}

// checkClaim: the claim is allocated where its pod is, and reserved for it.
func checkClaim(s *snapshot.Snapshot, claim *resourceapi.ResourceClaim, pod *v1.Pod, sharedWith string) []error {
	var wrong []error
	if !resourceclaim.IsReservedForPod(pod, claim, false) {
		wrong = append(wrong, fmt.Errorf("claim %s is not reserved for it", claim.Name))
	}
	if sharedWith != "" {
		other := s.Pod(pod.Namespace, sharedWith)
		switch {
		case other == nil || !resourceclaim.IsReservedForPod(other, claim, false):
			wrong = append(wrong, fmt.Errorf("claim %s is not shared with %s", claim.Name, sharedWith))
		case other.Spec.NodeName != pod.Spec.NodeName:
			wrong = append(wrong, fmt.Errorf("is on node %s, %s with the same device on node %s", pod.Spec.NodeName, sharedWith, other.Spec.NodeName))
		}
	}
	for _, result := range allocated([]*resourceapi.ResourceClaim{claim}) {
		slice, _ := published(s, result)
		switch {
		case slice == nil:
			wrong = append(wrong, fmt.Errorf("device %s/%s/%s is not published", result.Driver, result.Pool, result.Device))
		case slice.Spec.NodeName == nil || *slice.Spec.NodeName != pod.Spec.NodeName:
			wrong = append(wrong, fmt.Errorf("is on node %s, its device %s/%s is not", pod.Spec.NodeName, result.Pool, result.Device))
		}
	}
	return wrong
}

// checkSame: the attribute has one value on all devices.
func checkSame(s *snapshot.Snapshot, results []resourceapi.DeviceRequestAllocationResult, name resourceapi.QualifiedName) []error {
	seen := map[string]bool{}
	for _, result := range results {
		_, device := published(s, result)
		if device == nil || device.Attributes[name].StringValue == nil {
			return []error{fmt.Errorf("device %s/%s has no attribute %s", result.Pool, result.Device, name)}
		}
		seen[*device.Attributes[name].StringValue] = true
	}
	if len(seen) != 1 {
		return []error{fmt.Errorf("its devices have %d different values of %s", len(seen), name)}
	}
	return nil
}

// published finds the device in the slices.
func published(s *snapshot.Snapshot, result resourceapi.DeviceRequestAllocationResult) (*resourceapi.ResourceSlice, *resourceapi.Device) {
	for _, slice := range s.ResourceSlices {
		if slice.Spec.Driver != result.Driver || slice.Spec.Pool.Name != result.Pool {
			continue
		}
		for i := range slice.Spec.Devices {
			if slice.Spec.Devices[i].Name == result.Device {
				return slice, &slice.Spec.Devices[i]
			}
		}
	}
	return nil, nil
}

// podClaims returns the pod's ResourceClaims that exist.
func podClaims(s *snapshot.Snapshot, pod *v1.Pod) []*resourceapi.ResourceClaim {
	var all []*resourceapi.ResourceClaim
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		if claim := s.ResourceClaim(pod.Namespace, *name); claim != nil {
			all = append(all, claim)
		}
	}
	return all
}

func allocated(claims []*resourceapi.ResourceClaim) []resourceapi.DeviceRequestAllocationResult {
	var all []resourceapi.DeviceRequestAllocationResult
	for _, claim := range claims {
		if claim.Status.Allocation != nil {
			all = append(all, claim.Status.Allocation.Devices.Results...)
		}
	}
	return all
}
