// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/tests/lab"
)

// eventually is what nearly every line of a test begins with.
var eventually = lab.Eventually

// podsByState counts the pods of the namespace.
type podsByState struct{ running, bound, pending int }

func countPods(ctx context.Context, client kubernetes.Interface) (podsByState, error) {
	var count podsByState
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return count, fmt.Errorf("list pods: %w", err)
	}
	for _, pod := range pods.Items {
		switch {
		case pod.Status.Phase == v1.PodRunning:
			count.running++
		case pod.Spec.NodeName != "":
			count.bound++
		default:
			count.pending++
		}
	}
	return count, nil
}

// running says whether exactly n pods of the namespace run and others wait.
func running(client kubernetes.Interface, n, others int) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		count, err := countPods(ctx, client)
		if err != nil {
			return false, err.Error()
		}
		return count == podsByState{running: n, pending: others},
			fmt.Sprintf("%d running, %d bound, %d pending", count.running, count.bound, count.pending)
	}
}

// podRuns says whether one pod runs.
func podRuns(client kubernetes.Interface, name string) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return pod.Status.Phase == v1.PodRunning, fmt.Sprintf("%s on node %q, %s", pod.Status.Phase, pod.Spec.NodeName, unschedulable(pod))
	}
}

// unschedulable is what the scheduler last said of a pod that it could not
// place.
func unschedulable(pod *v1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodScheduled && condition.Status == v1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}
