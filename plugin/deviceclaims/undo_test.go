// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

func TestUndoInEveryOrder(t *testing.T) {
	for name, steps := range map[string][]string{
		"without Reserve":                  {"undo"},
		"twice without Reserve":            {"undo", "undo"},
		"after Reserve":                    {"reserve", "undo"},
		"twice after Reserve":              {"reserve", "undo", "undo"},
		"after a failed PreBind":           {"reserve", "fail", "undo"},
		"twice after a failed PreBind":     {"reserve", "fail", "undo", "undo"},
		"and then a whole cycle succeeds":  {"reserve", "fail", "undo", "again", "reserve", "commit"},
		"Reserve, undo and a second cycle": {"reserve", "undo", "again", "reserve", "commit"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := makePod("pod", "a", "b")
			c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeClaim("a"), makeClaim("b"), pod)
			a, status := c.begin(pod, "n1")
			if !status.IsSuccess() {
				t.Fatalf("Filter: %v", status)
			}
			committed := false
			for _, step := range steps {
				switch step {
				case "reserve":
					if status := a.plugin.Reserve(c.ctx, a.state, pod, "n1"); !status.IsSuccess() {
						t.Fatalf("Reserve: %v", status)
					}
				case "fail":
					claim := c.claim("b")
					c.server.remove(t, "b")
					if status := a.preBind(); status.IsSuccess() {
						t.Fatal("PreBind succeeded without claim b")
					}
					claim.UID = "b-again"
					c.server.add(t, claim)
					eventually(t, "the informer shows the new claim", func() bool {
						seen, _ := c.plugin.devices.Claim(namespace, "b")
						return seen != nil && seen.UID == "b-again"
					})
				case "undo":
					a.unreserve()
				case "again":
					if a, status = c.begin(pod, "n1"); !status.IsSuccess() {
						t.Fatalf("Filter of the second cycle: %v", status)
					}
				case "commit":
					if status := a.preBind(); !status.IsSuccess() {
						t.Fatalf("PreBind: %v", status)
					}
					committed = true
				}
			}
			if committed {
				c.wantReserved("a", pod)
				c.wantReserved("b", pod)
			} else {
				c.wantFree("a")
				c.wantFree("b")
			}
			c.wantSettled()
		})
	}
}

// What the API server refuses to take back is asked for again, before the pod is.
func TestUndoIsRepeated(t *testing.T) {
	for _, test := range []struct {
		refusals int
		free     bool
	}{{undoRetries, true}, {undoRetries + 1, false}} {
		pod := makePod("pod", "a", "b")
		c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeClaim("a"), makeClaim("b"), pod)
		a := c.reserve(pod, "n1")
		c.server.remove(t, "b")
		if status := a.preBind(); status.IsSuccess() {
			t.Fatal("PreBind succeeded without claim b")
		}
		left := test.refusals
		c.server.faults(func(_, subresource string) error {
			if subresource != "status" || left == 0 {
				return nil
			}
			left--
			return apierrors.NewForbidden(claimsResource.GroupResource(), "a", errors.New("tested"))
		}, nil)
		a.unreserve()
		if free := c.claim("a").Status.Allocation == nil; free != test.free {
			t.Errorf("after %d refusals the claim is free: %v, want %v", test.refusals, free, test.free)
		}
		if left != 0 {
			t.Errorf("%d more refusals were expected", left)
		}
	}
}

// After all claims were committed, the pod may have been sent to its node. They
// stay reserved for it, so that nothing is ever allocated for nobody: a pod that
// is gone gives them back through Kubernetes' resourceclaim controller.
func TestUndoAfterCommitKeepsTheReservation(t *testing.T) {
	pod := makePod("pod", "a")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeClaim("a"), pod)
	a := c.reserve(pod, "n1")
	if status := a.preBind(); !status.IsSuccess() {
		t.Fatalf("PreBind: %v", status)
	}
	a.unreserve()
	a.unreserve()
	c.wantReserved("a", pod)
	c.wantSettled()
}

func TestUndoKeepsWhatSharersCountOn(t *testing.T) {
	first, second := makePod("first", "shared", "own"), makePod("second", "shared")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeClaim("shared"), makeClaim("own"))
	a := c.reserve(first, "n1")
	b := c.reserve(second, "n1")
	// The first pod writes the shared claim and fails with its own.
	c.server.remove(t, "own")
	if status := a.preBind(); status.IsSuccess() {
		t.Fatal("PreBind succeeded without the claim")
	}
	a.unreserve()
	c.wantReserved("shared")
	if status := b.preBind(); !status.IsSuccess() {
		t.Fatalf("PreBind of the second pod: %v", status)
	}
	c.wantReserved("shared", second)
	c.wantSettled()
}

func TestLastSharerTakesTheAllocationBack(t *testing.T) {
	first, second := makePod("first", "shared", "own"), makePod("second", "shared", "other")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0", "gpu-1", "gpu-2"),
		makeClaim("shared"), makeClaim("own"), makeClaim("other"))
	a := c.reserve(first, "n1")
	b := c.reserve(second, "n1")
	c.server.remove(t, "own")
	c.server.remove(t, "other")
	for _, one := range []*attempt{a, b} {
		if status := one.preBind(); status.IsSuccess() {
			t.Fatal("PreBind succeeded without the claim")
		}
	}
	c.wantReserved("shared", first, second)
	a.unreserve()
	c.wantReserved("shared", second)
	b.unreserve()
	c.wantFree("shared")
	c.wantSettled()
}

func TestUndoOfASharerThatWroteNothing(t *testing.T) {
	first, second := makePod("first", "shared", "own"), makePod("second", "shared")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeClaim("shared"), makeClaim("own"))
	a := c.reserve(first, "n1")
	b := c.reserve(second, "n1")
	c.server.remove(t, "own")
	if status := a.preBind(); status.IsSuccess() {
		t.Fatal("PreBind succeeded without the claim")
	}
	a.unreserve()
	b.unreserve()
	c.wantFree("shared")
	c.wantSettled()
}

// A reservation without a consumer would hold devices for ever, so one that an
// earlier cycle has made stays when the cycle fails for another claim.
func TestUndoKeepsAReservationOfAnEarlierCycle(t *testing.T) {
	pod := makePod("pod", "a", "b")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), allocated(makeClaim("a"), "n1", "gpu-0", pod), makeClaim("b"))
	a := c.reserve(pod, "n1")
	c.server.remove(t, "b")
	if status := a.preBind(); status.IsSuccess() {
		t.Fatal("PreBind succeeded without the claim")
	}
	a.unreserve()
	c.wantReserved("a", pod)
	c.wantSettled()
}

func TestUndoLeavesAnAllocationThatIsNotItsOwn(t *testing.T) {
	pod := makePod("pod", "a", "b")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), allocated(makeClaim("a"), "n1", "gpu-0"), makeClaim("b"))
	a := c.reserve(pod, "n1")
	c.server.remove(t, "b")
	if status := a.preBind(); status.IsSuccess() {
		t.Fatal("PreBind succeeded without the claim")
	}
	c.wantReserved("a", pod)
	a.unreserve()
	c.wantReserved("a")
}

func TestRecreatedClaimInheritsNothing(t *testing.T) {
	pod, other := makePod("pod", "a"), makePod("other", "b")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeClaim("a"), makeClaim("b"))
	a := c.reserve(pod, "n1")
	if status := a.preBind(); !status.IsSuccess() {
		t.Fatalf("PreBind: %v", status)
	}
	c.server.remove(t, "a")
	again := makeClaim("a")
	again.UID = types.UID("a-again")
	c.server.add(t, again)
	eventually(t, "the informer shows the new claim", func() bool {
		seen, _ := c.plugin.devices.Claim(namespace, "a")
		return seen != nil && seen.UID == again.UID
	})
	if seen, pending := c.plugin.devices.Claim(namespace, "a"); seen.Status.Allocation != nil || pending {
		t.Error("the new claim has the allocation of the one that was deleted")
	}
	if _, status := c.begin(other, "n1"); !status.IsSuccess() {
		t.Errorf("the device of the deleted claim is not free: %v", status)
	}
	if got := c.claim("a"); len(got.Finalizers) != 0 {
		t.Errorf("the new claim was changed: %v", got)
	}
}
