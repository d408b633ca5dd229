// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
)

// The scheduler's own cycle answers here: which container's request, which class,
// and which node serves it how.
func TestExtendedResources(t *testing.T) {
	for name, change := range map[string]func(*snapshot.Snapshot, *v1.Pod){
		"extended-refused": func(*snapshot.Snapshot, *v1.Pod) {},
		"extended-fits": func(s *snapshot.Snapshot, _ *v1.Pod) {
			s.ResourceClaims = nil
		},
		"extended-too-large": func(s *snapshot.Snapshot, pod *v1.Pod) {
			s.Nodes, s.ResourceClaims = s.Nodes[:1], nil
			pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("40")
		},
		"extended-only-dra": func(s *snapshot.Snapshot, _ *v1.Pod) { s.Nodes = s.Nodes[:1] },
		"extended-scheduled": func(s *snapshot.Snapshot, pod *v1.Pod) {
			s.ResourceClaims[0].Status.ReservedFor[0].UID = pod.UID
			pod.Spec.NodeName, pod.Status.Phase = "dra-1", v1.PodRunning
			pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{
				ResourceClaimName: "other-extended-resources-x7k2p",
				RequestMappings: []v1.ContainerExtendedResourceRequest{{
					ContainerName: "main", ResourceName: "nvidia.com/gpu", RequestName: "container-0-request-0",
				}},
			}
		},
		"extended-left": func(s *snapshot.Snapshot, pod *v1.Pod) {
			s.ResourceClaims[0].OwnerReferences[0].UID = pod.UID
		},
		"extended-mapped": func(s *snapshot.Snapshot, pod *v1.Pod) {
			pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "trainer-extended-resources-aaaaa"}
			s.Nodes[1].Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("4")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, pod := extendedCluster()
			change(s, pod)
			r, err := Pod(context.Background(), s, "ml", "trainer")
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := r.WriteText(&text, 100); err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join("testdata", name+".txt"), text.String())
		})
	}
}

// extendedCluster has a pod that wants two GPUs and an init container that wants
// three, a node with four GPUs by DRA of which two are held, and one with a single
// GPU by device plugin.
func extendedCluster() (*snapshot.Snapshot, *v1.Pod) {
	wants := func(name, count string) v1.Container {
		return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"nvidia.com/gpu": resource.MustParse(count)}}}
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "trainer", UID: "trainer"},
		Spec: v1.PodSpec{
			SchedulerName:  v1.DefaultSchedulerName,
			InitContainers: []v1.Container{wants("prepare", "3")},
			Containers:     []v1.Container{wants("main", "2")},
		},
	}
	node := func(name string, allocatable v1.ResourceList) *v1.Node {
		allocatable[v1.ResourcePods] = resource.MustParse("10")
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: allocatable}}
	}
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "dra-1"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.nvidia.com", NodeName: ptr.To("dra-1"),
			Pool: resourceapi.ResourcePool{Name: "dra-1", Generation: 1, ResourceSliceCount: 1},
		},
	}
	held := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ml", Name: "other-extended-resources-x7k2p", UID: "held",
			Annotations:     map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "other", UID: "other", Controller: ptr.To(true)}},
		},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "container-0-request-0", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: gpuClass, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2,
			},
		}}}},
		Status: resourceapi.ResourceClaimStatus{
			Allocation:  &resourceapi.AllocationResult{},
			ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "other", UID: "other"}},
		},
	}
	for i := range 4 {
		name := fmt.Sprintf("gpu-%d", i)
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: name})
		if i < 2 {
			held.Status.Allocation.Devices.Results = append(held.Status.Allocation.Devices.Results,
				resourceapi.DeviceRequestAllocationResult{Request: "container-0-request-0", Driver: "gpu.nvidia.com", Pool: "dra-1", Device: name})
		}
	}
	return &snapshot.Snapshot{
		Nodes: []*v1.Node{
			node("dra-1", v1.ResourceList{}),
			node("plugin-1", v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}),
		},
		Namespaces:     []*v1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "ml"}}},
		Pods:           []*v1.Pod{pod, {ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "other", UID: "other"}, Spec: v1.PodSpec{NodeName: "dra-1"}}},
		ResourceSlices: []*resourceapi.ResourceSlice{slice},
		ResourceClaims: []*resourceapi.ResourceClaim{held},
		DeviceClasses: []*resourceapi.DeviceClass{{
			ObjectMeta: metav1.ObjectMeta{Name: gpuClass},
			Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: ptr.To("nvidia.com/gpu"), Selectors: []resourceapi.DeviceSelector{{
				CEL: &resourceapi.CELDeviceSelector{Expression: "device.driver == 'gpu.nvidia.com'"},
			}}},
		}},
	}, pod
}
