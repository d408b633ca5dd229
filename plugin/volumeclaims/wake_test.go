// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-scheduler/berth/internal/faults"
)

// The API server has no event for a write that turns out not to have been made.
func TestPodsAreWokenWhenADoubtIsSettled(t *testing.T) {
	p, rival, bound := pod("p", "data"), pod("rival", "other"), pod("bound", "other")
	bound.Spec.NodeName = "n2"
	c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", local), claim("other", local), claim("elsewhere", csi),
		p, rival, bound, pod("indifferent", "elsewhere"))
	a := c.mustSchedule(p, "n1")
	c.patches(failing(faults.ErrLost))
	c.reads(failing(faults.ErrLost))
	if err := c.result(a.preBind()); !errors.Is(err, faults.ErrLost) {
		t.Fatalf("PreBind returned %v, want the lost connection", err)
	}
	a.unreserve()
	c.mustWait(rival, "n1")

	c.reads(nil)
	c.wantWoken("rival")
	c.mustSchedule(rival, "n1")
	for _, name := range c.wokenPods() {
		if name == "bound" || name == "indifferent" {
			t.Errorf("pod %s was woken, which waits for no volume of the class", name)
		}
	}
}

// Storage that a pod gives back before it was provisioned is free for others at
// once, and they hear of it.
func TestPodsAreWokenWhenCapacityIsGivenBack(t *testing.T) {
	p, rival := pod("p", "data"), pod("rival", "other")
	c := newCluster(t, nil, tracking(), capacityOn("n1", "1Gi"), claim("data", csi), claim("other", csi), p, rival)
	a := c.mustSchedule(p, "n1")
	c.mustWait(rival, "n1")
	a.unreserve()
	c.wantWoken("rival")
	c.mustSchedule(rival, "n1")
}

// A pod that could not write its plan is tried again after its backoff: the
// storage that it gives back wakes others and not the pod itself.
func TestPodIsNotWokenByItsOwnStorage(t *testing.T) {
	p, rival := pod("p", "data"), pod("rival", "other")
	c := newCluster(t, nil, tracking(), capacityOn("n1", "1Gi"), claim("data", csi), claim("other", csi), p, rival)
	a := c.mustSchedule(p, "n1")
	c.mustWait(rival, "n1")
	c.patches(failing(apierrors.NewForbidden(v1.Resource("persistentvolumeclaims"), "data", errors.New("no"))))
	if err := c.result(a.preBind()); !apierrors.IsForbidden(err) {
		t.Fatalf("PreBind returned %v, want the refusal", err)
	}
	a.unreserve()
	c.wantWoken("rival")
	if slices.Contains(c.wokenPods(), "p") {
		t.Error("the pod was woken by itself")
	}

	// Now it waits for the storage like anybody else.
	c.patches(nil)
	b := c.mustSchedule(rival, "n1")
	c.mustWait(p, "n1")
	b.unreserve()
	c.wantWoken("p")
}

func TestPodsThatAreGoneAreForgotten(t *testing.T) {
	var s seeking
	var pending []*v1.Pod
	for i := range 1000 {
		p := pod(fmt.Sprint(i))
		pending = []*v1.Pod{p}
		s.begin(p, func() []*v1.Pod { return pending })
	}
	if n := s.pods.Len(); n > 100 {
		t.Errorf("%d pods are remembered of 1 that is pending", n)
	}
	if !s.has(pending[0]) {
		t.Error("the pod that is pending was forgotten")
	}
}

func TestCapacityIsNotSummedUpIfEachClaimCounts(t *testing.T) {
	p, rival := pod("p", "data"), pod("rival", "other")
	c := newCluster(t, raw(`capacityCheck: Each`), tracking(), capacityOn("n1", "1Gi"), claim("data", csi), claim("other", csi), p, rival)
	c.mustSchedule(p, "n1")
	c.mustSchedule(rival, "n1")
}

func TestPodThatWaitsToBeResizedIsLeftAlone(t *testing.T) {
	p := pod("p", "missing")
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonDeferred}}
	c := newCluster(t, nil, p)
	if _, status := c.schedule(p, "n1"); status.IsSkip() {
		t.Error("a pod was skipped although pods do not wait to be resized")
	}
	c.plugin.deferredResize = true
	if _, status := c.schedule(p, "n1"); !status.IsSkip() {
		t.Errorf("PreFilter returned %v, want Skip", status)
	}
}
