// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClaimMustBeAllocatedReservedAndReachable(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "1"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	reserved := []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "1"}}
	on := func(name string) *resourceapi.AllocationResult {
		return &resourceapi.AllocationResult{NodeSelector: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name},
			}}}},
		}}
	}
	for name, test := range map[string]struct {
		status resourceapi.ResourceClaimStatus
		want   string
	}{
		"pending":                    {resourceapi.ResourceClaimStatus{}, claimNotAllocated},
		"not reserved":               {resourceapi.ResourceClaimStatus{Allocation: on("n")}, claimNotReserved},
		"reserved for a namesake":    {resourceapi.ResourceClaimStatus{Allocation: on("n"), ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "0"}}}, claimNotReserved},
		"allocated for another node": {resourceapi.ResourceClaimStatus{Allocation: on("other"), ReservedFor: reserved}, claimElsewhere},
		"good":                       {resourceapi.ResourceClaimStatus{Allocation: on("n"), ReservedFor: reserved}, ""},
		"good on every node":         {resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}, ReservedFor: reserved}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := claimObstacle(pod, node, &resourceapi.ResourceClaim{Status: test.status})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if found != nil {
				got = found.reason
			}
			if got != test.want {
				t.Errorf("got reason %q, want %q", got, test.want)
			}
		})
	}
}

func TestRunningPodIsReadyAndNoLongerBlocked(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init"}},
		Containers:     []corev1.Container{{Name: "main"}},
	}}
	setCondition(&pod.Status, corev1.PodCondition{Type: Blocked, Status: corev1.ConditionTrue, Reason: claimMissing})
	setRunning(pod, "10.0.0.1")
	ready := false
	for _, condition := range pod.Status.Conditions {
		if condition.Type == Blocked {
			t.Error("the pod is still marked as blocked")
		}
		ready = ready || condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	}
	if !ready {
		t.Error("the pod is not ready")
	}
	if state := pod.Status.InitContainerStatuses[0].State; state.Terminated == nil {
		t.Errorf("init container is in state %v, want terminated", state)
	}
	if state := pod.Status.ContainerStatuses[0].State; state.Running == nil {
		t.Errorf("container is in state %v, want running", state)
	}
}

func TestConditionIsReportedOnce(t *testing.T) {
	status := &corev1.PodStatus{}
	missing := corev1.PodCondition{Type: Blocked, Status: corev1.ConditionTrue, Reason: claimMissing}
	if !setCondition(status, missing) {
		t.Error("a new condition is no change")
	}
	if setCondition(status, missing) {
		t.Error("the same condition is a change")
	}
	missing.Reason = claimNotReserved
	if !setCondition(status, missing) {
		t.Error("another reason is no change")
	}
}

func TestAllowedTopologies(t *testing.T) {
	term := func(key string, values ...string) corev1.TopologySelectorTerm {
		return corev1.TopologySelectorTerm{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: key, Values: values}}}
	}
	for name, test := range map[string]struct {
		terms []corev1.TopologySelectorTerm
		want  bool
	}{
		"no restriction":       {nil, true},
		"in the values":        {[]corev1.TopologySelectorTerm{term("zone", "b", "a")}, true},
		"in the second term":   {[]corev1.TopologySelectorTerm{term("zone", "b"), term("zone", "a")}, true},
		"not in the values":    {[]corev1.TopologySelectorTerm{term("zone", "b")}, false},
		"another topology key": {[]corev1.TopologySelectorTerm{term("rack", "a")}, false},
	} {
		if got := allows(&storagev1.StorageClass{AllowedTopologies: test.terms}, "zone", "a"); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}
