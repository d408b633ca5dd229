// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storage "k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-scheduler/berth/reason"
)

// refuse has the provisioner of the claim give it back.
func (c *cluster) refuse(claimName string) {
	c.t.Helper()
	c.updateClaim(claimName, func(claim *v1.PersistentVolumeClaim) {
		delete(claim.Annotations, storage.AnnSelectedNode)
		claim.Annotations[storage.AnnStorageProvisioner] = "csi.example.com"
	})
}

// refusedOn takes the pod to the node, where its claim is refused.
func (c *cluster) refusedOn(pod *v1.Pod, claimName, node string) {
	c.t.Helper()
	a := c.mustSchedule(pod, node)
	done := a.preBind()
	c.eventually("the node to be selected", func() bool { return c.claim(claimName).Annotations[storage.AnnSelectedNode] == node })
	c.refuse(claimName)
	c.wantEnd(done, ProvisioningRefused)
	a.unreserve()
	c.eventually("the store to show it", func() bool {
		return c.plugin.stores.Claim("default", claimName).Annotations[storage.AnnSelectedNode] == ""
	})
}

// wantRefusal checks that the node is left out, and returns the attempt.
func (c *cluster) wantRefusal(pod *v1.Pod, node string) *attempt {
	c.t.Helper()
	a, status := c.schedule(pod, node)
	rejection, _ := errors.AsType[*reason.Rejection](status.AsError())
	if rejection == nil || rejection.Code != reason.NodeRefused {
		c.t.Fatalf("node %s got %v, want %s", node, status, reason.NodeRefused)
	}
	return a
}

func (a *attempt) postFilter() *fwk.Status {
	_, status := a.plugin.PostFilter(a.ctx, a.state, a.pod, nil)
	return status
}

func TestRefusedNodeIsLeftOutAsLongAsThereAreOthers(t *testing.T) {
	p, other := pod("p", "data"), pod("other", "more")
	c := newCluster(t, nil, claim("data", csi), claim("more", csi), p, other)
	c.refusedOn(p, "data", "n1")
	c.wantNothingReserved()

	c.wantRefusal(p, "n1")
	c.mustSchedule(other, "n1")
	done := c.mustSchedule(p, "n2").preBind()
	c.eventually("the other node to be selected", func() bool { return c.claim("data").Annotations[storage.AnnSelectedNode] == "n2" })
	c.provision("data", "made", "n2")
	c.bind("made")
	c.must(c.result(done))
}

// An existing volume on the node needs no provisioner.
func TestRefusedNodeMayHaveAVolume(t *testing.T) {
	p := pod("p", "data")
	c := newCluster(t, nil, claim("data", csi), p)
	c.refusedOn(p, "data", "n1")
	c.wantRefusal(p, "n1")
	c.addVolume(volumeOn("pv", csi, "n1"))
	c.mustSchedule(p, "n1")
}

func TestRefusedNodeIsTriedAgainWhenThereIsNoOther(t *testing.T) {
	p := pod("p", "data")
	c := newCluster(t, nil, claim("data", csi), p)

	if status := c.mustSchedule(p, "n1").postFilter(); status.Code() != fwk.Unschedulable {
		t.Errorf("PostFilter returned %v for a pod that no node was left out for", status)
	}
	for round, want := range []fwk.Code{fwk.UnschedulableAndUnresolvable, fwk.Unschedulable} {
		c.refusedOn(p, "data", "n1")
		if woken := c.wokenPods(); len(woken) != round {
			t.Fatalf("woke %v before no other node was left", woken)
		}
		// Pods may be evicted elsewhere when the refusal was repeated, not before.
		if status := c.wantRefusal(p, "n1").postFilter(); status.Code() != want {
			t.Errorf("round %d: PostFilter returned %v (%v), want %v", round, status.Code(), status, want)
		}
		if woken := c.wokenPods(); len(woken) != round+1 {
			t.Fatalf("round %d: woke %v, want the pod", round, woken)
		}
	}
	c.mustSchedule(p, "n1")
}

func TestRefusalIsForgottenInTime(t *testing.T) {
	p := pod("p", "data")
	c := newCluster(t, nil, claim("data", csi), p)
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	c.plugin.refusals.clock = clock
	c.refusedOn(p, "data", "n1")
	clock.SetTime(time.Unix(0, 0).Add(refusalMemory - time.Second))
	c.wantRefusal(p, "n1")
	clock.SetTime(time.Unix(0, 0).Add(refusalMemory))
	c.mustSchedule(p, "n1").unreserve()

	c.plugin.refusals.remember(refusal{"another", "another", "n1"})
	if n := len(c.plugin.refusals.known); n != 1 {
		t.Errorf("%d refusals are kept, want that of the other pod", n)
	}
}
