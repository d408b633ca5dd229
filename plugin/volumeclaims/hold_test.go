// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"errors"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// halfWritten returns a cluster in which a pod wants volumes pv-1 and pv-2 of node
// n1, has pv-1, and was refused pv-2, which a rival wants too.
func halfWritten(t *testing.T, change ...func(*cluster)) (c *cluster, p, rival *v1.Pod) {
	p, rival = pod("p", "data-1", "data-2"), pod("rival", "other")
	c = newCluster(t, nil, volumeOn("pv-1", local, "n1"), volumeOn("pv-2", local, "n1"),
		claim("data-1", local), claim("data-2", local), claim("other", local), p, rival)
	for _, f := range change {
		f(c)
	}
	a := c.mustSchedule(p, "n1")
	writes := 0
	c.patches(func(apply func() (runtime.Object, error)) (runtime.Object, error) {
		if writes++; writes > 1 {
			return nil, apierrors.NewForbidden(v1.Resource("persistentvolumes"), "pv-2", errors.New("not now"))
		}
		return apply()
	})
	if err := c.result(a.preBind()); !apierrors.IsForbidden(err) {
		t.Fatalf("PreBind returned %v, want the refusal", err)
	}
	a.unreserve()
	a.unreserve()
	c.patches(nil)
	return c, p, rival
}

func (c *cluster) mustWait(pod *v1.Pod, node string) {
	c.t.Helper()
	if _, status := c.schedule(pod, node); status.IsSuccess() {
		c.t.Fatalf("pod %s was given a volume that is held for another", pod.Name)
	}
}

func (c *cluster) wantWoken(name string) {
	c.t.Helper()
	c.eventually("pod "+name+" to be woken", func() bool { return slices.Contains(c.wokenPods(), name) })
}

func TestRestOfAHalfWrittenPlanIsHeldForTheRetry(t *testing.T) {
	c, p, rival := halfWritten(t)
	c.mustWait(rival, "n1")

	done := c.mustSchedule(p, "n1").preBind()
	c.eventually("both volumes to name their claims", func() bool {
		return c.volume("pv-1").Spec.ClaimRef != nil && c.volume("pv-2").Spec.ClaimRef != nil
	})
	c.bind("pv-1")
	c.bind("pv-2")
	c.must(c.result(done))
	c.wantNothingReserved()
}

func TestHoldEndsWithThePod(t *testing.T) {
	c, p, rival := halfWritten(t)
	c.mustWait(rival, "n1")
	c.must(c.client.CoreV1().Pods("default").Delete(c.ctx, p.Name, metav1.DeleteOptions{}))
	c.wantWoken("rival")
	c.mustSchedule(rival, "n1")
}

func TestHoldEndsInTime(t *testing.T) {
	c, _, rival := halfWritten(t, func(c *cluster) { c.plugin.holdFor = 10 * time.Millisecond })
	c.wantWoken("rival")
	c.mustSchedule(rival, "n1")
}

// However often the retry fails, the others get their turn.
func TestHoldIsNotProlongedByTheRetry(t *testing.T) {
	c, p, rival := halfWritten(t)
	a := c.mustSchedule(p, "n1")
	cycle, err := readCycle(a.state)
	c.must(err)
	if cycle.holdUntil.IsZero() {
		t.Fatal("the retry does not know that its pod held volumes before")
	}
	cycle.holdUntil = time.Now().Add(-time.Second)
	c.patches(failing(apierrors.NewForbidden(v1.Resource("persistentvolumes"), "pv-2", errors.New("not now"))))
	if err := c.result(a.preBind()); !apierrors.IsForbidden(err) {
		t.Fatalf("PreBind returned %v, want the refusal", err)
	}
	a.unreserve()
	c.patches(nil)
	c.mustSchedule(rival, "n1")
}

// A volume that somebody else took is not held against him.
func TestWhatCameToAnEndIsNotHeld(t *testing.T) {
	p := pod("p", "data-1", "data-2")
	c := newCluster(t, nil, volumeOn("pv-1", local, "n1"), volumeOn("pv-2", local, "n1"), claim("data-1", local), claim("data-2", local), p)
	a := c.mustSchedule(p, "n1")
	writes := 0
	c.patches(func(apply func() (runtime.Object, error)) (runtime.Object, error) {
		if writes++; writes == 2 {
			c.updateVolume("pv-2", func(pv *v1.PersistentVolume) {
				pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "other", UID: "other"}
			})
		}
		return apply()
	})
	c.wantEnd(a.preBind(), VolumeTaken)
	a.unreserve()
	c.wantNothingReserved()
}

func TestHoldIsReplacedByTheNextReserve(t *testing.T) {
	c, p, rival := halfWritten(t)
	// The half that was written is complete now, and the claim of the other half
	// is given a volume by hand.
	c.bind("pv-1")
	c.updateClaim("data-2", func(claim *v1.PersistentVolumeClaim) { claim.Spec.VolumeName = "pv-3" })
	byHand := volumeOn("pv-3", local, "n1")
	byHand.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "data-2", UID: "claim-data-2"}
	c.addVolume(byHand)
	c.bind("pv-3")
	c.eventually("the store to show it", func() bool {
		return fullyBound(c.plugin.stores.Claim("default", "data-2")) && fullyBound(c.plugin.stores.Claim("default", "data-1"))
	})
	c.mustWait(rival, "n1")
	c.mustSchedule(p, "n1")
	c.mustSchedule(rival, "n1")
}
