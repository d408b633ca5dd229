// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/tests/lab"
)

func newPriority(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}

func priority(name string) podOption {
	return func(pod *v1.Pod) { pod.Spec.PriorityClassName = name }
}

// Devices that pods of lower priority hold are theirs only as long as nobody more
// important needs them, and nobody is evicted for nothing.
func TestPreemptionForDevices(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "testdata/two-single-gpus.yaml"})
	client := cluster.Client
	create(ctx, t, client, newPriority("low", 10), newPriority("high", 1000),
		newTemplate("one-gpu", gpus(1)), newClaim("shared", gpus(1)))

	create(ctx, t, client, newPod("low", fromTemplate("one-gpu"), priority("low"), onNode("gpu-1")))
	eventually(ctx, t, "the low pod runs", podRuns(client, "low"))

	create(ctx, t, client, newPod("first", fromTemplate("one-gpu"), priority("high")))
	eventually(ctx, t, "the first high pod takes the free device", podRuns(client, "first"))
	if node := getPod(ctx, t, client, "first").Spec.NodeName; node != "gpu-2" {
		t.Errorf("the first high pod runs on %s although a device is free on gpu-2", node)
	}

	create(ctx, t, client, newPod("second", fromTemplate("one-gpu"), priority("high")))
	eventually(ctx, t, "the second high pod has taken the device of the low pod", podRuns(client, "second"))
	if _, err := client.CoreV1().Pods(namespace).Get(ctx, "low", metav1.GetOptions{}); !gone(err) {
		t.Errorf("the low pod is still there: %v", err)
	}
	checkInvariants(ctx, t, client)

	// A device that a pod of the same priority uses too is not freed by evicting
	// the other one.
	deletePod(ctx, t, client, "first")
	create(ctx, t, client,
		newPod("shares", sharing("shared"), priority("high")),
		newPod("shares-too", sharing("shared"), priority("low")))
	eventually(ctx, t, "the sharers run", podRuns(client, "shares"))
	eventually(ctx, t, "the sharers run", podRuns(client, "shares-too"))
	create(ctx, t, client, newPod("third", fromTemplate("one-gpu"), priority("high")))
	eventually(ctx, t, "the third high pod knows why it waits", waitingBecause(client, "not enough free devices", "preemption: 0/2 nodes are available"))
	if getPod(ctx, t, client, "shares-too").DeletionTimestamp != nil {
		t.Error("a pod was evicted whose device others use too")
	}
	checkInvariants(ctx, t, client)
}

// What was freed for a pod is kept for it: others of lower priority that wait for
// devices too do not take it, and nobody is evicted twice over.
func TestPreemptionAmongWaitingPods(t *testing.T) {
	const devices, waiting, important = 8, 12, 3
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "gpus", Nodes: 1})
	client := cluster.Client
	create(ctx, t, client, newPriority("low", 10), newPriority("high", 1000), newTemplate("one-gpu", gpus(1)))

	var low, high []*v1.Pod
	for i := range devices + waiting {
		low = append(low, newPod(fmt.Sprintf("low-%02d", i), fromTemplate("one-gpu"), priority("low")))
	}
	for i := range important {
		high = append(high, newPod(fmt.Sprintf("high-%d", i), fromTemplate("one-gpu"), priority("high")))
	}
	createAtOnce(ctx, t, client, low)
	eventually(ctx, t, "low pods hold all devices and others wait", running(client, devices, waiting))
	createAtOnce(ctx, t, client, high)
	for _, pod := range high {
		eventually(ctx, t, "pod "+pod.Name+" runs", podRuns(client, pod.Name))
	}
	eventually(ctx, t, "one low pod was evicted for each high one", running(client, devices, waiting))
	checkInvariants(ctx, t, client)
}
