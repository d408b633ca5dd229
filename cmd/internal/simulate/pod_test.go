// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
	"github.com/berth-scheduler/berth/plugin/deviceclaims"
	"github.com/berth-scheduler/berth/reason"
)

// Every node gets the answer of the plugin that the scheduler would hear it
// from, and our plugins' facts beside it.
func TestPodAsksEveryNode(t *testing.T) {
	s := cluster()
	result := ask(t, s, s.Pods[0])
	if result.Gate != nil || result.Whole != nil {
		t.Fatalf("gate %+v, whole %+v: want answers of nodes", result.Gate, result.Whole)
	}
	if len(result.Nodes) != 4 {
		t.Fatalf("%d nodes answered, want all 4", len(result.Nodes))
	}
	none, few, fits, tainted := result.Nodes[0], result.Nodes[1], result.Nodes[2], result.Nodes[3]

	if none.Refusal == nil || none.Refusal.Rejection == nil || none.Refusal.Rejection.Code != reason.NoDeviceOfClass {
		t.Errorf("node without devices: %+v, want %s", none.Refusal, reason.NoDeviceOfClass)
	}
	if few.Refusal == nil || few.Refusal.Plugin != deviceclaims.Name || few.Refusal.Rejection == nil {
		t.Fatalf("node with one device: %+v, want a rejection by %s", few.Refusal, deviceclaims.Name)
	}
	if facts := few.Refusal.Rejection.Facts; facts.Wanted == nil || facts.Wanted.Value() != 2 || facts.Devices == nil || facts.Devices.Match != 1 {
		t.Errorf("facts of the node with one device: %+v, want 2 wanted, 1 that matches", facts)
	}
	if fits.Refusal != nil {
		t.Errorf("node with two free devices: %+v, want that it fits", fits.Refusal)
	}
	if tainted.Refusal == nil || tainted.Refusal.Plugin != "TaintToleration" {
		t.Errorf("tainted node: %+v, want a refusal by TaintToleration", tainted.Refusal)
	}
	if tainted.Devices != nil {
		t.Errorf("tainted node: devices %+v, want none missing", tainted.Devices)
	}
}

func TestPodStopsAtGates(t *testing.T) {
	s := cluster()
	s.Pods[0].Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/wait"}}
	result := ask(t, s, s.Pods[0])
	if result.Gate == nil || result.Gate.Plugin != "SchedulingGates" || result.Nodes != nil {
		t.Errorf("result %+v, want a gate by SchedulingGates and no nodes", result)
	}
}

func TestPodThatNeedsAClassThatDoesNotExist(t *testing.T) {
	s := cluster()
	s.DeviceClasses = nil
	result := ask(t, s, s.Pods[0])
	if result.Whole == nil || result.Whole.Rejection == nil || result.Whole.Rejection.Code != reason.DeviceClassNotFound {
		t.Errorf("result %+v, want %s for the pod as a whole", result, reason.DeviceClassNotFound)
	}
}

// A pod that has ended holds its node's resources no more.
func TestEndedPodsTakeNothing(t *testing.T) {
	s := cluster()
	for i, phase := range []v1.PodPhase{v1.PodSucceeded, v1.PodRunning} {
		s.Pods = append(s.Pods[:1], &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "old", UID: "old"},
			Spec: v1.PodSpec{NodeName: "c-fits", Containers: []v1.Container{{
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")}},
			}}},
			Status: v1.PodStatus{Phase: phase},
		})
		s.Pods[0].Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		if fits := ask(t, s, s.Pods[0]).Nodes[2].Refusal == nil; fits != (i == 0) {
			t.Errorf("beside a pod that is %s: fits = %v", phase, fits)
		}
	}
}

// The node with both devices is full of a pod of lower priority.
func TestPreemption(t *testing.T) {
	crowded := func(priority int32) *snapshot.Snapshot {
		s := cluster()
		s.Pods[0].Spec.Priority = ptr.To[int32](10)
		holder := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "notebook", UID: "notebook"},
			Spec: v1.PodSpec{
				NodeName: "c-fits", Priority: &priority,
				ResourceClaims: []v1.PodResourceClaim{{Name: "gpus", ResourceClaimName: ptr.To("held")}},
				Containers:     []v1.Container{{Name: "main"}},
			},
			Status: v1.PodStatus{Phase: v1.PodRunning},
		}
		held := s.ResourceClaims[0].DeepCopy()
		held.Name, held.UID = "held", "held"
		held.Status = resourceapi.ResourceClaimStatus{
			Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "gpus", Driver: "gpu.example.com", Pool: "c-fits", Device: "gpu-0"},
				{Request: "gpus", Driver: "gpu.example.com", Pool: "c-fits", Device: "gpu-1"},
			}}},
			ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: holder.Name, UID: holder.UID}},
		}
		s.Pods = append(s.Pods, holder)
		s.ResourceClaims = append(s.ResourceClaims, held)
		return s
	}
	notebook := []reason.Ref{{Kind: "Pod", Namespace: "ml", Name: "notebook"}}
	never := crowded(0)
	never.Pods[0].Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
	for name, test := range map[string]struct {
		snapshot *snapshot.Snapshot
		want     *Preemption
	}{
		"some node fits": {snapshot: cluster()},
		"lower priority": {snapshot: crowded(0), want: &Preemption{Helps: true, Node: "c-fits", Victims: notebook}},
		"the same":       {snapshot: crowded(10), want: &Preemption{}},
		"never":          {snapshot: never, want: &Preemption{Helps: true, Node: "c-fits", Victims: notebook, NotTried: "the pod has preemptionPolicy Never"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, test.snapshot, test.snapshot.Pods[0]).Preemption
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// Two devices that consume the same counter cannot both be had from a node, held
// or not; of two that do not, pods that end give back what is missing.
func TestNodesThatNeverFit(t *testing.T) {
	for consumed, never := range map[string]bool{"30Gi": true, "20Gi": false} {
		s := cluster()
		for _, slice := range s.ResourceSlices {
			if slice.Name != "c-fits" {
				continue
			}
			counters := slice.DeepCopy()
			counters.Name, counters.Spec.Devices = "c-counters", nil
			counters.Spec.SharedCounters = []resourceapi.CounterSet{{
				Name: "set", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("40Gi")}},
			}}
			counters.Spec.Pool.ResourceSliceCount, slice.Spec.Pool.ResourceSliceCount = 2, 2
			for i := range slice.Spec.Devices {
				slice.Spec.Devices[i].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
					CounterSet: "set", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(consumed)}},
				}}
			}
			s.ResourceSlices = append(s.ResourceSlices, counters)
		}
		held := s.ResourceClaims[0].DeepCopy()
		held.Name, held.UID = "held", "held"
		held.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpus", Driver: "gpu.example.com", Pool: "c-fits", Device: "gpu-0"}},
		}}
		s.ResourceClaims = append(s.ResourceClaims, held)
		node := ask(t, s, s.Pods[0]).Nodes[2]
		if node.Devices == nil || node.NeverFits != never {
			t.Errorf("devices of %s each: refused with %v, never fits = %v, want %v", consumed, node.Devices, node.NeverFits, never)
		}
	}
}

func ask(t *testing.T, s *snapshot.Snapshot, pod *v1.Pod) *Result {
	t.Helper()
	scheduler, err := New(context.Background(), s, pod.Spec.SchedulerName)
	if err != nil {
		t.Fatal(err)
	}
	defer scheduler.Close()
	result, err := scheduler.Pod(context.Background(), pod)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// cluster has a pod that wants two devices, and nodes with none, one, two, and
// two behind a taint.
func cluster() *snapshot.Snapshot {
	s := &snapshot.Snapshot{
		Pods: []*v1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "trainer", UID: "trainer"},
			Spec: v1.PodSpec{
				SchedulerName:  v1.DefaultSchedulerName,
				ResourceClaims: []v1.PodResourceClaim{{Name: "gpus", ResourceClaimName: ptr.To("gpus")}},
				Containers:     []v1.Container{{Name: "main"}},
			},
		}},
		Namespaces: []*v1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "ml"}}},
		DeviceClasses: []*resourceapi.DeviceClass{{
			ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
			Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
				CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`},
			}}},
		}},
		ResourceClaims: []*resourceapi.ResourceClaim{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "gpus", UID: "gpus"},
			Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
				Name: "gpus",
				Exactly: &resourceapi.ExactDeviceRequest{
					DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2,
				},
			}}}},
		}},
	}
	for name, devices := range map[string]int{"a-none": 0, "b-few": 1, "c-fits": 2, "d-tainted": 2} {
		node := &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: v1.NodeStatus{Allocatable: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse("8"), v1.ResourcePods: resource.MustParse("10"),
			}},
		}
		if name == "d-tainted" {
			node.Spec.Taints = []v1.Taint{{Key: "maintenance", Effect: v1.TaintEffectNoSchedule}}
		}
		s.Nodes = append(s.Nodes, node)
		if devices == 0 {
			continue
		}
		slice := &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: ptr.To(name),
				Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
			},
		}
		for i := range devices {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i)})
		}
		s.ResourceSlices = append(s.ResourceSlices, slice)
	}
	return s
}
