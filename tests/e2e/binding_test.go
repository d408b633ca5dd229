// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/tests/lab"
)

// A pod waits until its device is attached, and the user sees that it does. When
// the device cannot be attached the pod gets another one. A pod that is deleted
// while it waits gives its device back.
func TestDevicesThatHaveToBeAttached(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "testdata/attachable-gpus.yaml"})
	client := cluster.Client
	create(ctx, t, client, newClaim("gpu", gpus(1)), newClaim("other-gpu", gpus(1)), newClaim("last-gpu", gpus(1)),
		newPod("pod", sharing("gpu")))

	first := allocation(ctx, t, client, "gpu", "")
	eventually(ctx, t, "the user sees what the pod waits for", eventOn(client, "pod", "BindingConditionsPending", first, "Attached"))
	report(ctx, t, client, "gpu", "Unattachable")
	second := allocation(ctx, t, client, "gpu", first)
	report(ctx, t, client, "gpu", "Attached")
	eventually(ctx, t, "the pod runs", podRuns(client, "pod"))

	create(ctx, t, client, newPod("deleted", sharing("other-gpu")))
	if third := allocation(ctx, t, client, "other-gpu", ""); third == second {
		t.Errorf("device %s was given away twice", third)
	}
	create(ctx, t, client, newPod("next", sharing("last-gpu")))
	eventually(ctx, t, "the next pod waits for a device", waitingFor(client, "next", "not enough free devices"))
	deletePod(ctx, t, client, "deleted")
	allocation(ctx, t, client, "last-gpu", "")
	report(ctx, t, client, "last-gpu", "Attached")
	eventually(ctx, t, "the next pod runs", podRuns(client, "next"))
	checkInvariants(ctx, t, client)
}

// allocation waits until the claim has a device, other than the one given, and
// returns it.
func allocation(ctx context.Context, t *testing.T, client kubernetes.Interface, claim, other string) string {
	t.Helper()
	var device string
	eventually(ctx, t, "claim "+claim+" is allocated", func(ctx context.Context) (bool, string) {
		got, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, claim, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		if got.Status.Allocation == nil {
			return false, "not allocated"
		}
		result := got.Status.Allocation.Devices.Results[0]
		device = result.Driver + "/" + result.Pool + "/" + result.Device
		return device != other, device
	})
	return device
}

// report lets a driver report that a condition of the claim's device is true.
func report(ctx context.Context, t *testing.T, client kubernetes.Interface, name, condition string) {
	t.Helper()
	claim, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	result := claim.Status.Allocation.Devices.Results[0]
	claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: result.Driver, Pool: result.Pool, Device: result.Device,
		Conditions: []metav1.Condition{{
			Type: condition, Status: metav1.ConditionTrue, Reason: "Tested", Message: "by a test", LastTransitionTime: metav1.Now(),
		}},
	}}
	if _, err := client.ResourceV1().ResourceClaims(namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("report %s of claim %s: %v", condition, name, err)
	}
}

// eventOn says whether there is an event on the pod that has all of the texts.
func eventOn(client kubernetes.Interface, pod, reason string, texts ...string) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		events, err := client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		var seen []string
		for _, event := range events.Items {
			if event.Regarding.Name != pod || event.Reason != reason {
				continue
			}
			all := true
			for _, text := range texts {
				all = all && strings.Contains(event.Note, text)
			}
			if all {
				return true, ""
			}
			seen = append(seen, event.Note)
		}
		return false, fmt.Sprint(seen)
	}
}

// waitingFor says whether one pod was told a reason.
func waitingFor(client kubernetes.Interface, name, reason string) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return pod.Status.Phase == v1.PodPending && strings.Contains(unschedulable(pod), reason), unschedulable(pod)
	}
}
