// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/tests/lab"
)

// A scheduler that is killed in the middle of its work keeps nothing in its
// head: the next one finishes from the API objects alone, and when the pods are
// gone nothing holds a device.
func TestSchedulerKilledInTheMiddle(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "testdata/hundred-devices.yaml", Scheduler: lab.None})
	client := cluster.Client
	create(ctx, t, client, newTemplate("one-gpu", gpus(1)))
	scheduler := cluster.StartScheduler(t)

	pods := make([]*v1.Pod, 100)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("worker-%03d", i), fromTemplate("one-gpu"))
	}
	createAtOnce(ctx, t, client, pods)
	// Three times, so that it is hit at different points of its work.
	for _, some := range []int{10, 35, 60} {
		eventually(ctx, t, fmt.Sprintf("%d pods are placed", some), func(ctx context.Context) (bool, string) {
			count, err := countPods(ctx, client)
			if err != nil {
				return false, err.Error()
			}
			return count.running+count.bound >= some, fmt.Sprintf("%+v", count)
		})
		scheduler.Kill(t)
		scheduler = cluster.StartScheduler(t)
	}
	eventually(ctx, t, "all hundred pods run", running(client, 100, 0))
	checkInvariants(ctx, t, client)

	err := client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("delete all pods: %v", err)
	}
	eventually(ctx, t, "nothing holds a device", func(ctx context.Context) (bool, string) { return noAllocations(ctx, client) })
}

// Somebody edits a claim between the scheduler's decision and its write: the
// edit stays, and the pod is placed all the same.
func TestClaimEditedBeforeCommit(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "gpus", Scheduler: lab.None})
	client := cluster.Client
	create(ctx, t, client, newClaim("edited", gpus(1)), newClaim("edited-too", gpus(1)))

	// The first write of either kind, of either claim, finds the claim changed
	// under its feet.
	var edits onceEach
	kubeconfig := proxyWrites(t, cluster, func(write request) {
		if write.resource != "resourceclaims" || !edits.first(write.name+"/"+write.subresource) {
			return
		}
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/edit-%s":"kept"}}}`, orMain(write.subresource))
		if _, err := client.ResourceV1().ResourceClaims(namespace).Patch(ctx, write.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Errorf("edit claim %s: %v", write.name, err)
		}
	})
	cluster.StartScheduler(t, "--kubeconfig="+kubeconfig)
	create(ctx, t, client, newPod("pod", sharing("edited"), alsoSharing("edited-too")))

	eventually(ctx, t, "the pod runs", podRuns(client, "pod"))
	for _, name := range []string{"edited", "edited-too"} {
		claim, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, edit := range []string{"example.com/edit-main", "example.com/edit-status"} {
			if claim.Annotations[edit] != "kept" {
				t.Errorf("claim %s lost the annotation %s; annotations: %v", name, edit, claim.Annotations)
			}
		}
	}
	if got := edits.count(); got != 4 {
		t.Errorf("made %d edits, want one before each of 4 writes", got)
	}
	checkInvariants(ctx, t, client)
}

// A pod is deleted while it waits for a volume that never comes: what it held
// is free for others at once.
func TestPodDeletedWhileItWaitsForItsVolume(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "gpus", Nodes: 1})
	client := cluster.Client
	create(ctx, t, client, newSilentClass("silent"), newTemplate("all-gpus", gpus(8)),
		newVolumeClaim("never", "silent", "1Gi"), newPod("waits", fromTemplate("all-gpus"), mounting("never")))
	eventually(ctx, t, "provisioning was asked for and the devices are taken", func(ctx context.Context) (bool, string) {
		claim, err := client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, "never", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		taken, _ := noAllocations(ctx, client)
		return claim.Annotations["volume.kubernetes.io/selected-node"] != "" && !taken, fmt.Sprint(claim.Annotations)
	})

	create(ctx, t, client, newPod("next", fromTemplate("all-gpus")))
	eventually(ctx, t, "the next pod waits for the devices", func(ctx context.Context) (bool, string) {
		reason := unschedulable(getPod(ctx, t, client, "next"))
		return reason != "", reason
	})
	deletePod(ctx, t, client, "waits")
	eventually(ctx, t, "the next pod has them", podRuns(client, "next"))
	if _, err := client.CoreV1().Pods(namespace).Get(ctx, "waits", metav1.GetOptions{}); !gone(err) {
		t.Errorf("the deleted pod is still there: %v", err)
	}
	checkInvariants(ctx, t, client)
}

// A pod whose binding failed keeps its claim for the next attempt. When it is
// deleted before that, the claim's devices are free again: nothing stays
// allocated for nobody, and the pod that waits for them is woken.
func TestPodDeletedAfterItsBindingFailed(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "gpus", Nodes: 1, Scheduler: lab.None})
	client := cluster.Client
	cluster.StartScheduler(t, "--config="+configWithKubeconfig(t, "testdata/short-bind-timeout.yaml", cluster.Kubeconfigs["berth-scheduler"]))
	create(ctx, t, client, newSilentClass("silent"), newClaim("all", gpus(8)), newTemplate("one-gpu", gpus(1)),
		newVolumeClaim("never", "silent", "1Gi"), newPod("fails", sharing("all"), mounting("never")))
	eventually(ctx, t, "the binding has failed", func(ctx context.Context) (bool, string) {
		reason := unschedulable(getPod(ctx, t, client, "fails"))
		return strings.Contains(reason, "not bound"), reason
	})
	create(ctx, t, client, newPod("next", fromTemplate("one-gpu")))
	eventually(ctx, t, "the next pod waits", func(ctx context.Context) (bool, string) {
		reason := unschedulable(getPod(ctx, t, client, "next"))
		return reason != "", reason
	})
	deletePod(ctx, t, client, "fails")
	eventually(ctx, t, "the next pod runs", podRuns(client, "next"))
	checkInvariants(ctx, t, client)
}

// The rules in deploy/rbac.yaml are enough: placing pods with devices and
// volumes makes no request that is forbidden.
func TestSchedulerNeedsNoMoreThanItsRules(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "demo"})
	client := cluster.Client
	create(ctx, t, client, newTemplate("one-gpu", gpus(1)), newVolumeClaim("disk", "local", "50Gi"), newVolumeClaim("data", "zonal", "10Gi"),
		newPod("pod", fromTemplate("one-gpu"), mounting("disk"), mounting("data")), newPod("too-big", fromTemplate("nine")),
		newPod("extended", requesting("nvidia.com/gpu", "1")), newTemplate("nine", gpus(9)))
	eventually(ctx, t, "the pod runs", podRuns(client, "pod"))
	eventually(ctx, t, "the pod with an extended resource runs", podRuns(client, "extended"))
	eventually(ctx, t, "the other waits", waitingBecause(client, "not enough free devices"))
	deletePod(ctx, t, client, "pod")
	deletePod(ctx, t, client, "extended")
	eventually(ctx, t, "nothing holds a device", func(ctx context.Context) (bool, string) { return noAllocations(ctx, client) })
	for line := range strings.Lines(cluster.Log(t, "berth-scheduler")) {
		if strings.Contains(line, "forbidden") {
			t.Errorf("the scheduler was refused: %s", line)
		}
	}
	checkInvariants(ctx, t, client)
}
