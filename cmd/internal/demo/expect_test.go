// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
)

// The demo has to fail, and say why, when something is not where it must be.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*snapshot.Snapshot)
		want  string
	}{
		"all is well": {func(*snapshot.Snapshot) {}, ""},
		"device in two claims": {func(s *snapshot.Snapshot) {
			s.ResourceClaims = append(s.ResourceClaims, claimOf("thief", "other", "gpu-0"))
		}, "device gpu.example.com/node-1/gpu-0 is in claims default/one and default/thief"},
		"claim without its pod": {func(s *snapshot.Snapshot) {
			s.ResourceClaims[0].Status.ReservedFor[0].UID = "gone"
		}, "pod one: claim one is not reserved for it"},
		"device of another node": {func(s *snapshot.Snapshot) {
			s.ResourceSlices[0].Spec.NodeName = ptr.To("node-2")
		}, "pod one: is on node node-1, its device node-1/gpu-0 is not"},
		"device missing": {func(s *snapshot.Snapshot) {
			s.ResourceClaims[0].Status.Allocation = nil
		}, "pod one: has 0 devices, it must have 1"},
		"volume that the node cannot reach": {func(s *snapshot.Snapshot) {
			s.Nodes[0].Labels["zone"] = "b"
		}, "pod one: volume pv cannot be reached from node node-1"},
		"volume not bound": {func(s *snapshot.Snapshot) {
			s.PersistentVolumeClaims[0].Status.Phase = v1.ClaimPending
		}, "pod one: claim data is not bound to a volume"},
		"volume of another claim": {func(s *snapshot.Snapshot) {
			s.PersistentVolumes[0].Spec.ClaimRef.UID = "other"
		}, "pod one: claim data is bound to pv, which is not bound to it"},
		"pod that cannot run runs": {func(s *snapshot.Snapshot) {
			s.Pods[1].Spec.NodeName = "node-1"
		}, "pod big: is on node node-1, but nothing can hold it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := placed()
			tc.spoil(s)
			err := check(s, []expectation{
				{pod: "one", devices: 1, volumes: map[string]int{"local": 1}},
				{pod: "big", pending: true},
			})
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("error for a cluster in order: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error = %v\nwant one that says %q", err, tc.want)
			}
		})
	}
}

// placed is a cluster in which pod one has a device and a volume, and pod big nothing.
func placed() *snapshot.Snapshot {
	return &snapshot.Snapshot{
		Nodes: []*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"zone": "a"}}}},
		Pods: []*v1.Pod{
			{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one", UID: "one"},
				Spec: v1.PodSpec{
					NodeName:       "node-1",
					ResourceClaims: []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("one")}},
					Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
						PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
					}}},
				},
				Status: v1.PodStatus{Phase: v1.PodRunning},
			},
			{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "big", UID: "big"}},
		},
		ResourceClaims: []*resourceapi.ResourceClaim{claimOf("one", "one", "gpu-0")},
		ResourceSlices: []*resourceapi.ResourceSlice{{Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: "node-1"}, NodeName: ptr.To("node-1"),
			Devices: []resourceapi.Device{{Name: "gpu-0"}},
		}}},
		PersistentVolumeClaims: []*v1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data", UID: "data"},
			Spec:       v1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("local"), VolumeName: "pv"},
			Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
		}},
		PersistentVolumes: []*v1.PersistentVolume{{
			ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec: v1.PersistentVolumeSpec{
				ClaimRef: &v1.ObjectReference{Namespace: namespace, Name: "data", UID: "data"},
				NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
					MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}},
				}}}},
			},
		}},
	}
}

func claimOf(name string, pod types.UID, device string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Status: resourceapi.ResourceClaimStatus{
			Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "gpu.example.com", Pool: "node-1", Device: device}},
			}},
			ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: string(pod), UID: pod}},
		},
	}
}
