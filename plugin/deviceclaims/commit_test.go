// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/faults"
	"github.com/berth-scheduler/berth/internal/ledger"
	"github.com/berth-scheduler/berth/reason"
)

func TestCommitWritesWhatWasPlanned(t *testing.T) {
	pod := makePod("pod", "a", "b")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeClaim("a"), makeClaim("b"), pod)
	a := c.reserve(pod, "n1")
	c.wantFree("a")
	if status := a.preBind(); !status.IsSuccess() {
		t.Fatalf("PreBind: %v", status)
	}
	devices := map[string]bool{}
	for _, name := range []string{"a", "b"} {
		c.wantReserved(name, pod)
		claim := c.claim(name)
		if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
			t.Errorf("claim %s has no finalizer", name)
		}
		devices[claim.Status.Allocation.Devices.Results[0].Device] = true
	}
	if len(devices) != 2 {
		t.Errorf("two claims have devices %v", devices)
	}
	c.wantSettled()
}

// What somebody else does to a claim between Reserve and PreBind.
func TestCommitMeetsAnotherWriter(t *testing.T) {
	others := make([]*v1.Pod, resourceapi.ResourceClaimReservedForMaxSize)
	for i := range others {
		others[i] = makePod(fmt.Sprintf("other-%d", i))
	}
	for name, test := range map[string]struct {
		change func(t *testing.T, s *server)
		// want is a part of the error, empty when PreBind succeeds.
		want string
	}{
		"changes something else": {
			change: func(t *testing.T, s *server) {
				s.change(t, "a", func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"x": "y"} })
			},
		},
		"makes the same allocation": {
			change: func(t *testing.T, s *server) {
				s.change(t, "a", func(c *resourceapi.ResourceClaim) { allocated(c, "n1", "gpu-0") })
			},
		},
		"allocates another device": {
			change: func(t *testing.T, s *server) {
				s.change(t, "a", func(c *resourceapi.ResourceClaim) { allocated(c, "n1", "gpu-1") })
			},
			want: "reserve ResourceClaim default/a: it was allocated by someone else in the meantime",
		},
		"allocates it for the most pods": {
			change: func(t *testing.T, s *server) {
				s.change(t, "a", func(c *resourceapi.ResourceClaim) { allocated(c, "n1", "gpu-0", others...) })
			},
			want: "reserve ResourceClaim default/a: it is reserved for 256 pods already",
		},
		"begins to delete it": {
			change: func(t *testing.T, s *server) {
				s.change(t, "a", func(c *resourceapi.ResourceClaim) { c.DeletionTimestamp = &c.CreationTimestamp })
			},
			want: "reserve ResourceClaim default/a: it is being deleted",
		},
		"deletes it": {
			change: func(t *testing.T, s *server) { s.remove(t, "a") },
			want:   "reserve ResourceClaim default/a: it was deleted in the meantime",
		},
		"deletes and creates it": {
			change: func(t *testing.T, s *server) {
				s.remove(t, "a")
				again := makeClaim("a")
				again.UID = "another"
				s.add(t, again)
			},
			want: "reserve ResourceClaim default/a: it was deleted and created again in the meantime",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := makePod("pod", "a")
			c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeClaim("a"), pod)
			a := c.reserve(pod, "n1")
			test.change(t, c.server)
			status := a.preBind()
			if test.want == "" {
				if !status.IsSuccess() {
					t.Fatalf("PreBind: %v", status)
				}
				c.wantReserved("a", pod)
				c.wantSettled()
				return
			}
			if status.Code() != fwk.Error || status.Message() != test.want {
				t.Errorf("PreBind: got %q, want %q", status.Message(), test.want)
			}
			before, errBefore := c.server.get("a")
			a.unreserve()
			after, errAfter := c.server.get("a")
			if (errBefore == nil) != (errAfter == nil) ||
				errBefore == nil && fmt.Sprint(before.Status) != fmt.Sprint(after.Status) {
				t.Errorf("Undo changed a claim that the pod had not written:\n%v\n%v", before, after)
			}
			c.wantSettled()
		})
	}
}

func TestHalfDoneCommitIsTakenBack(t *testing.T) {
	pod := makePod("pod", "a", "b")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeClaim("a"), makeClaim("b"), pod)
	a := c.reserve(pod, "n1")
	c.server.remove(t, "b")
	if status := a.preBind(); status.IsSuccess() {
		t.Fatal("PreBind succeeded with a claim that was deleted")
	}
	c.wantReserved("a", pod)
	a.unreserve()
	c.wantFree("a")
	c.wantSettled()
}

// onStatusWrite returns a fault for writes of claim status.
func onStatusWrite(err error) func(verb, subresource string) error {
	return func(verb, subresource string) error {
		if verb == "update" && subresource == "status" {
			return err
		}
		return nil
	}
}

// loseAnswers makes an API server from which no answer comes back from the first
// write of claim status on. Effect says whether that write takes effect.
func (c *cluster) loseAnswers(effect string) {
	var once sync.Once
	lost := false
	var mutex sync.Mutex
	isLost := func(string, string) error {
		mutex.Lock()
		defer mutex.Unlock()
		if lost {
			return faults.ErrLost
		}
		return nil
	}
	lose := func(verb, subresource string) error {
		err := onStatusWrite(faults.ErrLost)(verb, subresource)
		if err != nil {
			once.Do(func() {
				mutex.Lock()
				defer mutex.Unlock()
				lost = true
			})
		}
		return err
	}
	if effect == "took effect" {
		c.server.faults(isLost, lose)
		return
	}
	c.server.faults(func(verb, subresource string) error {
		if err := isLost(verb, subresource); err != nil {
			return err
		}
		return lose(verb, subresource)
	}, nil)
}

func TestLostAnswerKeepsTheDeviceUntilItIsKnown(t *testing.T) {
	for _, effect := range []string{"took effect", "did not take effect"} {
		t.Run(effect, func(t *testing.T) {
			pod, other := makePod("pod", "a"), makePod("other", "b")
			c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeClaim("a"), makeClaim("b"), pod, other)
			a := c.reserve(pod, "n1")
			c.loseAnswers(effect)
			if status := a.preBind(); status.Code() != fwk.Error {
				t.Fatalf("PreBind: got %v, want an error", status)
			}
			a.unreserve()
			if state := c.plugin.ledger.State("a"); state != ledger.Doubtful {
				t.Fatalf("state of the claim: got %q, want Doubtful", state)
			}
			if _, status := c.begin(other, "n1"); status.IsSuccess() {
				t.Error("the device of a doubtful claim was offered to another one")
			}
			if effect == "did not take effect" { // otherwise the informer may show the pod that all is well
				early, status := c.begin(pod, "n1")
				if !status.IsSuccess() {
					t.Errorf("the pod itself does not fit where its claim may have been allocated: %v", status)
				}
				if status := c.plugin.Reserve(c.ctx, early.state, pod, "n1"); !errors.Is(status.AsError(), ledger.ErrUnsettled) {
					t.Errorf("Reserve of a claim in doubt: got %v, want that the pod tries again", status)
				}
				early.unreserve()
			}

			c.server.faults(nil, nil)
			eventually(t, "the doubt ends", func() bool { return c.plugin.ledger.State("a") != ledger.Doubtful })
			c.wantSettled()
			_, status := c.begin(other, "n1")
			if effect == "took effect" {
				if status.IsSuccess() {
					t.Error("a device that a claim holds was offered to another one")
				}
				// The pod comes back and finds its claim as it was written.
				again := c.reserve(pod, "n1")
				if status := again.preBind(); !status.IsSuccess() {
					t.Errorf("PreBind of the second attempt: %v", status)
				}
				c.wantReserved("a", pod)
				return
			}
			if !status.IsSuccess() {
				t.Errorf("the device is still taken after it was known that nothing was written: %v", status)
			}
			eventually(t, "a pod that waited for the device is woken", func() bool { return c.handle.wasWoken(other) })
		})
	}
}

func TestLateWriteCannotTakeAFreedDevice(t *testing.T) {
	pod := makePod("pod", "a")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeClaim("a"), pod)
	a := c.reserve(pod, "n1")

	var late *resourceapi.ResourceClaim
	c.server.faults(func(verb, subresource string) error {
		if err := onStatusWrite(faults.ErrLost)(verb, subresource); err != nil && late == nil {
			// The request is on its way; this is what it carries.
			late = allocated(c.claim("a"), "n1", "gpu-0", pod)
			return err
		}
		return nil
	}, nil)
	if status := a.preBind(); status.Code() != fwk.Error {
		t.Fatalf("PreBind: got %v, want an error", status)
	}
	a.unreserve()
	if state := c.plugin.ledger.State("a"); state == ledger.Doubtful {
		t.Fatal("the claim could be read, but is still in doubt")
	}
	if _, err := c.server.update(late, "status"); !apierrors.IsConflict(err) {
		t.Errorf("the late write came through after its device was freed: %v", err)
	}
	c.wantFree("a")
	c.wantSettled()
}

func TestRefusedWriteLeavesNoDoubt(t *testing.T) {
	pod := makePod("pod", "a")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeClaim("a"), pod)
	a := c.reserve(pod, "n1")
	c.server.faults(onStatusWrite(apierrors.NewForbidden(claimsResource.GroupResource(), "a", errors.New("no"))), nil)
	status := a.preBind()
	if status.Code() != fwk.Error || !strings.Contains(status.Message(), "reserve ResourceClaim default/a: write status: ") {
		t.Errorf("PreBind: got %v", status)
	}
	if state := c.plugin.ledger.State("a"); state != ledger.Planned {
		t.Errorf("state of the claim: got %q, want Planned", state)
	}
	a.unreserve()
	c.wantFree("a")
	c.wantSettled()
}

func TestCancelledCommitIsUndone(t *testing.T) {
	pod := makePod("pod", "a")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeClaim("a"), pod)
	a := c.reserve(pod, "n1")
	ctx, cancel := context.WithCancel(c.ctx)
	c.server.faults(nil, func(verb, subresource string) error {
		cancel()
		return onStatusWrite(context.Canceled)(verb, subresource)
	})
	if status := a.plugin.PreBind(ctx, a.state, pod, "n1"); status.Code() != fwk.Error {
		t.Fatalf("PreBind: got %v, want an error", status)
	}
	c.server.faults(nil, nil)
	a.plugin.Unreserve(ctx, a.state, pod, "n1")
	c.wantFree("a")
	c.wantSettled()
}

func TestManyPodsShareOneClaim(t *testing.T) {
	pods := make([]*v1.Pod, 20)
	for i := range pods {
		pods[i] = makePod(fmt.Sprintf("pod-%d", i), "shared")
	}
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeSlice("n2", "gpu-0"), makeClaim("shared"))
	attempts := make([]*attempt, len(pods))
	for i, pod := range pods {
		attempts[i] = c.reserve(pod, "n1")
	}
	_, status := c.begin(makePod("late", "shared"), "n2")
	if rejection := (*reason.Rejection)(nil); !errors.As(status.AsError(), &rejection) || rejection.Code != reason.ClaimElsewhere {
		t.Errorf("a node that the planned allocation does not reach: got %v, want %s", status, reason.ClaimElsewhere)
	}
	var commits sync.WaitGroup
	for i, a := range attempts {
		commits.Go(func() {
			if status := a.preBind(); !status.IsSuccess() {
				t.Errorf("PreBind of pod %d: %v", i, status)
			}
		})
	}
	commits.Wait()
	c.wantReserved("shared", pods...)
	c.wantSettled()
}

func TestSecondProfileSeesWhatTheFirstPlans(t *testing.T) {
	pod, other := makePod("pod", "a"), makePod("other", "b")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeClaim("a"), makeClaim("b"))
	second := c.newPlugin()
	// Both see the device as free, then the first reserves it.
	b, status := c.beginWith(second, other, "n1")
	if !status.IsSuccess() {
		t.Fatalf("the free device was refused: %v", status)
	}
	a := c.reserve(pod, "n1")
	if status := second.Reserve(c.ctx, b.state, other, "n1"); status.Code() != fwk.Error ||
		!strings.Contains(status.Message(), "device gpu.example.com/n1/gpu-0 of ResourceClaim default/b was just taken by ResourceClaim default/a") {
		t.Errorf("Reserve of a device that another profile has reserved: %v", status)
	}
	b.unreserve()
	if _, status := c.beginWith(second, other, "n1"); status.Code() != fwk.Unschedulable {
		t.Errorf("Filter of a device that another profile has reserved: %v", status)
	}
	a.unreserve()
	if _, status := c.beginWith(second, other, "n1"); !status.IsSuccess() {
		t.Errorf("the device was not given back: %v", status)
	}
	c.wantSettled()
}
