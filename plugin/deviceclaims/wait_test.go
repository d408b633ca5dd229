// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/reason"
)

// attachable makes the device of an allocated claim one that has to be attached
// before a pod may use it.
func attachable(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	result := &claim.Status.Allocation.Devices.Results[0]
	result.BindingConditions = []string{"Attached", "Configured"}
	result.BindingFailureConditions = []string{"Broken"}
	claim.Status.Allocation.AllocationTimestamp = ptr.To(metav1.NewTime(start))
	return claim
}

// report lets the driver report conditions of the claim's device.
func (c *cluster) report(name string, conditions ...string) {
	c.t.Helper()
	c.server.change(c.t, name, func(claim *resourceapi.ResourceClaim) { reported(claim, conditions...) })
}

func reported(claim *resourceapi.ResourceClaim, conditions ...string) *resourceapi.ResourceClaim {
	result := claim.Status.Allocation.Devices.Results[0]
	status := resourceapi.AllocatedDeviceStatus{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
	for _, condition := range conditions {
		status.Conditions = append(status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Tested", Message: "by a test"})
	}
	claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{status}
	return claim
}

func newClusterWithConditions(t *testing.T, objects ...runtime.Object) *cluster {
	t.Helper()
	c := newCluster(t, objects...)
	c.plugin.features.device.DeviceBindingConditions = true
	c.plugin.options.Features.DeviceBindingConditions = true
	return c
}

// waitFor runs PreBind until it waits for devices, and returns what the user is
// told and where PreBind's status will arrive.
func (a *attempt) waitFor(ctx context.Context) (told string, ended <-chan *fwk.Status) {
	a.c.t.Helper()
	status := make(chan *fwk.Status, 1)
	go func() { status <- a.plugin.PreBind(ctx, a.state, a.pod, a.node.Name) }()
	select {
	case told = <-a.c.handle.recorder.Events:
	case early := <-status:
		a.c.t.Fatalf("PreBind did not wait: %v", early)
	case <-time.After(time.Minute):
		a.c.t.Fatal("nobody was told that PreBind waits")
	}
	return told, status
}

func TestPodWaitsUntilItsDevicesAreReady(t *testing.T) {
	pod := makePod("pod", "a")
	c := newClusterWithConditions(t, makeClass(), makeSlice("n1", "gpu-0"), attachable(allocated(makeClaim("a"), "n1", "gpu-0")), pod)
	a := c.reserve(pod, "n1")
	told, ended := a.waitFor(c.ctx)
	for _, want := range []string{"Normal BindingConditionsPending", "gpu.example.com/n1/gpu-0", "Attached, Configured", "n1"} {
		if !strings.Contains(told, want) {
			t.Errorf("the user is told %q, without %q", told, want)
		}
	}
	c.report("a", "Attached")
	select {
	case status := <-ended:
		t.Fatalf("PreBind ended before all conditions were true: %v", status)
	case <-time.After(50 * time.Millisecond):
	}
	c.report("a", "Attached", "Configured")
	if status := <-ended; !status.IsSuccess() {
		t.Fatalf("PreBind: %v", status)
	}
	c.wantReserved("a", pod)
	if n := len(c.handle.recorder.Events); n != 0 {
		t.Errorf("%d more events for one wait", n)
	}
}

// What ends a wait, and what is left of the claim after Undo.
func TestWaitThatEndsInVain(t *testing.T) {
	other := makePod("other")
	for name, test := range map[string]struct {
		users []*v1.Pod
		end   func(c *cluster, cancel context.CancelCauseFunc)
		want  string
		left  string // "free", "allocated", "shared", "gone"
	}{
		"the device fails": {
			end:  func(c *cluster, _ context.CancelCauseFunc) { c.report("a", "Attached", "Broken") },
			want: "its devices did not become ready: device gpu.example.com/n1/gpu-0 has failed: Broken (Tested) by a test",
			left: "free",
		},
		"the device fails, and others use it": {
			users: []*v1.Pod{other},
			end:   func(c *cluster, _ context.CancelCauseFunc) { c.report("a", "Broken") },
			want:  "its devices did not become ready",
			left:  "shared",
		},
		"it takes too long": {
			end:  func(c *cluster, _ context.CancelCauseFunc) { c.step(DefaultBindingTimeout) },
			want: "its devices did not become ready: device gpu.example.com/n1/gpu-0 lacks Attached, Configured",
			left: "free",
		},
		"the pod is deleted": {
			end: func(c *cluster, _ context.CancelCauseFunc) {
				if err := c.client.CoreV1().Pods(namespace).Delete(c.ctx, "pod", metav1.DeleteOptions{}); err != nil {
					c.t.Fatal(err)
				}
			},
			want: "the pod was deleted in the meantime",
			left: "allocated",
		},
		"the claim is deleted": {
			end:  func(c *cluster, _ context.CancelCauseFunc) { c.server.remove(c.t, "a") },
			want: "it was deleted in the meantime",
			left: "gone",
		},
		"the claim is deallocated": {
			end:  func(c *cluster, _ context.CancelCauseFunc) { c.server.change(c.t, "a", deallocate) },
			want: "it was deallocated by someone else in the meantime",
			left: "free",
		},
		"the pod is preempted": {
			end:  func(_ *cluster, cancel context.CancelCauseFunc) { cancel(errors.New("preempted")) },
			want: "wait for device gpu.example.com/n1/gpu-0 lacks Attached, Configured: preempted",
			left: "allocated",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := makePod("pod", "a")
			c := newClusterWithConditions(t, makeClass(), makeSlice("n1", "gpu-0"),
				attachable(allocated(makeClaim("a"), "n1", "gpu-0", test.users...)), pod)
			a := c.reserve(pod, "n1")
			ctx, cancel := context.WithCancelCause(c.ctx)
			defer cancel(nil)
			_, ended := a.waitFor(ctx)
			test.end(c, cancel)
			if status := <-ended; status.Code() != fwk.Error || !strings.Contains(status.Message(), test.want) {
				t.Errorf("PreBind: got %v %q, want %q", status.Code(), status.Message(), test.want)
			}
			a.unreserve()
			a.unreserve()
			switch test.left {
			case "free":
				c.wantFree("a")
			case "allocated":
				c.wantReserved("a")
			case "shared":
				c.wantReserved("a", other)
			case "gone":
				if _, err := c.server.get("a"); err == nil {
					t.Error("the claim is there again")
				}
			}
			c.wantSettled()
		})
	}
}

// step lets time pass for a PreBind that waits, however late it begins to.
func (c *cluster) step(d time.Duration) {
	c.t.Helper()
	eventually(c.t, "PreBind waits", c.clock.HasWaiters)
	c.clock.Step(d)
}

// A scheduler that starts anew waits only for what is left of the time.
func TestRestartDoesNotBeginToWaitAnew(t *testing.T) {
	pod := makePod("pod", "a")
	claim := attachable(allocated(makeClaim("a"), "n1", "gpu-0", pod))
	claim.Status.Allocation.AllocationTimestamp = ptr.To(metav1.NewTime(start.Add(time.Second - DefaultBindingTimeout)))
	c := newClusterWithConditions(t, makeClass(), makeSlice("n1", "gpu-0"), claim, pod)
	a := c.reserve(pod, "n1")
	_, ended := a.waitFor(c.ctx)
	c.step(time.Second)
	if status := <-ended; status.IsSuccess() {
		t.Fatal("PreBind succeeded without the device")
	}
	a.unreserve()
	c.wantFree("a") // although this cycle found it reserved
}

// What has failed before the cycle began is given up, unless others use it.
func TestBrokenClaimIsGivenUp(t *testing.T) {
	pod, other := makePod("pod", "a"), makePod("other")
	for name, test := range map[string]struct {
		claim *resourceapi.ResourceClaim
		want  fwk.Code
	}{
		"failed":           {reported(attachable(allocated(makeClaim("a"), "n1", "gpu-0", pod)), "Broken"), fwk.UnschedulableAndUnresolvable},
		"late":             {late(attachable(allocated(makeClaim("a"), "n1", "gpu-0"))), fwk.UnschedulableAndUnresolvable},
		"failed, but used": {reported(attachable(allocated(makeClaim("a"), "n1", "gpu-0", other)), "Broken"), fwk.Unschedulable},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClusterWithConditions(t, makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), test.claim)
			a, status := c.begin(pod, "n1")
			wantReason(t, status, fwk.UnschedulableAndUnresolvable, reason.DevicesNotReady)
			if _, status := c.plugin.PostFilter(c.ctx, a.state, pod, nil); status.Code() != test.want {
				t.Errorf("PostFilter: got %v, want %v", status, test.want)
			}
			if test.want == fwk.Unschedulable {
				c.wantReserved("a", other)
				return
			}
			c.wantFree("a")
			a = c.reserve(pod, "n1")
			if got := a.device(t, "a"); got != "gpu-1" {
				t.Errorf("the next attempt takes %s again", got)
			}
		})
	}
}

func late(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.Status.Allocation.AllocationTimestamp = ptr.To(metav1.NewTime(start.Add(-DefaultBindingTimeout)))
	return claim
}

// device returns what Reserve has planned for a claim of one device.
func (a *attempt) device(t *testing.T, claim string) string {
	t.Helper()
	c, err := readCycle(a.state)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range c.bindings {
		if b.seen.Name == claim {
			return b.allocation().Devices.Results[0].Device
		}
	}
	t.Fatalf("there is no binding of claim %s", claim)
	return ""
}

// A device that has failed a pod is its last resort, for a while.
func TestRetryPrefersOtherDevices(t *testing.T) {
	pod := makePod("pod", "a")
	c := newClusterWithConditions(t, makeClass(), makeSlice("n1", "gpu-0"), makeSlice("n2", "gpu-0"),
		attachable(allocated(makeClaim("a"), "n1", "gpu-0")), pod)
	a := c.reserve(pod, "n1")
	_, ended := a.waitFor(c.ctx)
	c.report("a", "Broken")
	<-ended
	a.unreserve()

	a, status := c.begin(pod, "n1")
	if !status.IsSuccess() {
		t.Fatalf("where nothing else is there, the device is used again: %v", status)
	}
	if got := c.order(a, "n1", "n2"); got[0] != "n2" {
		t.Errorf("the node where the pod has failed comes first: %v", got)
	}
	c.clock.Step(failureMemory)
	a, _ = c.begin(pod, "n1")
	if got := c.order(a, "n1", "n2"); got[0] != "n1" {
		t.Errorf("after a while the device counts like any other, got the order %v", got)
	}
}
