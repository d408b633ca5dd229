// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/tests/lab"
)

// newGang is a group of pods that start together or not at all, with a claim that
// they share.
func newGang(name string, size int32, claim string) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: size}},
			ResourceClaims:   []schedulingv1beta1.PodGroupResourceClaim{{Name: "devices", ResourceClaimName: &claim}},
		},
	}
}

func inGroup(name string) podOption {
	return func(pod *v1.Pod) {
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
	}
}

// The pods of a group share its claim, which is reserved for the group and not
// for each of them. A group that cannot start leaves nothing behind.
func TestClaimOfAGroup(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "testdata/groups.yaml"})
	client := cluster.Client
	create(ctx, t, client, newClaim("of-group", gpus(1)), newClaim("of-other", gpus(1)), newTemplate("one-gpu", gpus(1)),
		newGang("group", 3, "of-group"), newGang("other", 2, "of-other"))

	// Two devices: the group's claim takes one; the other group wants one for its
	// claim and one for one of its pods.
	for i := range 3 {
		create(ctx, t, client, newPod(fmt.Sprintf("worker-%d", i), sharing("of-group"), inGroup("group")))
	}
	eventually(ctx, t, "the group runs", running(client, 3, 0))
	claim, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, "of-group", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if users := claim.Status.ReservedFor; len(users) != 1 || users[0].Resource != "podgroups" || users[0].Name != "group" {
		t.Errorf("the claim is reserved for %+v, want the group", users)
	}
	nodes := map[string]bool{}
	for _, pod := range listPods(ctx, t, client) {
		nodes[pod.Spec.NodeName] = true
	}
	if len(nodes) != 1 {
		t.Errorf("pods that share a device run on %d nodes", len(nodes))
	}

	greedy := newPod("greedy", sharing("of-other"), inGroup("other"))
	useClaim(greedy, v1.PodResourceClaim{Name: "own", ResourceClaimTemplateName: new("one-gpu")})
	create(ctx, t, client, newPod("modest", sharing("of-other"), inGroup("other")), greedy)
	eventually(ctx, t, "the other group knows why it waits", waitingFor(client, "greedy", "not enough free devices"))
	other, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, "of-other", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if other.Status.Allocation != nil || len(other.Status.ReservedFor) > 0 {
		t.Errorf("the group that cannot start holds %+v", other.Status)
	}

	create(ctx, t, client, newPod("single", fromTemplate("one-gpu")))
	eventually(ctx, t, "a pod takes the device that the other group could not use", podRuns(client, "single"))
}
