// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// newClass is the DeviceClass of all devices of a driver, and has its name.
func newClass(driver string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}},
		}},
	}
}

// newSlice is a slice of a node's pool, which has the name of the node. It is the
// only one unless the caller says otherwise.
func newSlice(driver, node, name string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: driver + "-" + node + "-" + name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node,
			Pool:    resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			Devices: devices,
		},
	}
}

// newSliceOf is one more slice of the pool of another one.
func newSliceOf(other *resourceapi.ResourceSlice, name string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	slice := newSlice(other.Spec.Driver, *other.Spec.NodeName, name, devices...)
	slice.Spec.Pool = other.Spec.Pool
	return slice
}

func one(class string) resourceapi.ResourceClaimSpec { return many(class, 1) }

// many is a claim for count devices of a class.
func many(class string, count int64) resourceapi.ResourceClaimSpec {
	spec := gpus(count)
	spec.Devices.Requests[0].Exactly.DeviceClassName = class
	return spec
}

// all is a claim for all devices of a class that a node has.
func all(class string) resourceapi.ResourceClaimSpec {
	spec := many(class, 0)
	spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	return spec
}

// allocate gives a claim a device of a node, as another scheduler might have done.
// Nobody uses it.
func allocate(ctx context.Context, t *testing.T, client kubernetes.Interface, name, driver, node, device string) {
	t.Helper()
	claims := client.ResourceV1().ResourceClaims(namespace)
	claim := getClaim(ctx, t, client, name)
	claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
	claim, err := claims.Update(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("protect claim %s: %v", name, err)
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: claim.Spec.Devices.Requests[0].Name, Driver: driver, Pool: node, Device: device},
		}},
		NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
		}}},
	}
	if _, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("allocate claim %s: %v", name, err)
	}
}

func getClaim(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) *resourceapi.ResourceClaim {
	t.Helper()
	claim, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get claim %s: %v", name, err)
	}
	return claim
}

// republish is what a driver does that changes its pool: one generation more.
func republish(ctx context.Context, t *testing.T, client kubernetes.Interface, name string, devices []resourceapi.Device) {
	t.Helper()
	slices := client.ResourceV1().ResourceSlices()
	slice, err := slices.Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		slice.Spec.Devices = devices
		slice.Spec.Pool.Generation++
		_, err = slices.Update(ctx, slice, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatalf("republish slice %s: %v", name, err)
	}
}
