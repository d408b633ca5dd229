// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	storage "k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/faults"
	"github.com/berth-scheduler/berth/internal/ledger"
	"github.com/berth-scheduler/berth/reason"
)

func TestPodWithoutClaimsIsSkipped(t *testing.T) {
	c := newCluster(t, nil)
	a, status := c.schedule(pod("p"), "n1")
	if !status.IsSkip() {
		t.Errorf("PreFilter returned %v, want Skip", status)
	}
	c.must(c.plugin.Filter(c.ctx, a.state, a.pod, nodeInfo{node: node("n1")}).AsError())
	c.must(c.plugin.Reserve(c.ctx, a.state, a.pod, "n1").AsError())
	if _, status := c.plugin.PreBindPreFlight(c.ctx, a.state, a.pod, "n1"); !status.IsSkip() {
		t.Errorf("PreBindPreFlight returned %v, want Skip", status)
	}
	c.must(c.result(a.preBind()))
	a.unreserve()
}

func TestStatusCarriesTheRejection(t *testing.T) {
	c := newCluster(t, nil, volumeOn("pv", local, "n2"), claim("data", local))
	wantCode := func(status *fwk.Status, want reason.Code) {
		t.Helper()
		var rejection *reason.Rejection
		if !errors.As(status.AsError(), &rejection) || rejection.Code != want {
			t.Errorf("status %v carries %+v, want %s", status, rejection, want)
		}
		if status.Code() != fwk.UnschedulableAndUnresolvable {
			t.Errorf("status %v has code %v: evicting pods gives no storage back", status, status.Code())
		}
	}
	_, status := c.schedule(pod("p", "missing"), "n1")
	wantCode(status, reason.VolumeClaimNotFound)

	a, status := c.schedule(pod("p", "data"), "n1")
	wantCode(status, reason.NoVolume)
	if rejection := c.plugin.Explain(c.ctx, a.state, nodeInfo{node: node("n1")}); rejection == nil || rejection.Code != reason.NoVolume {
		t.Errorf("Explain returned %v", rejection)
	}
}

func TestPlannedVolumeIsNotOfferedAgain(t *testing.T) {
	p, rival := pod("p", "data"), pod("rival", "other")
	c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", local), claim("other", local), p, rival)

	a := c.mustSchedule(p, "n1")
	if _, status := c.schedule(rival, "n1"); status.IsSuccess() {
		t.Fatal("one volume was planned for two claims")
	}
	a.unreserve()
	a.unreserve()
	c.mustSchedule(rival, "n1")
}

func TestReserveChecksAgain(t *testing.T) {
	p, rival := pod("p", "data"), pod("rival", "other")
	c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", local), claim("other", local), p, rival)

	// Both pods see the volume free.
	late := &attempt{cluster: c, pod: rival, node: "n1", state: &state{}}
	_, status := c.plugin.PreFilter(c.ctx, late.state, rival, nil)
	c.must(status.AsError())
	c.must(c.plugin.Filter(c.ctx, late.state, rival, nodeInfo{node: node("n1")}).AsError())
	c.mustSchedule(p, "n1")

	if status := c.plugin.Reserve(c.ctx, late.state, rival, "n1"); status.Code() != fwk.Error {
		t.Errorf("Reserve returned %v (%v), want an error, which has the pod tried again", status.Code(), status)
	}
}

func TestUserPrebindsTheVolumeBeforeReserve(t *testing.T) {
	p := pod("p", "data")
	c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", local), p)
	a := &attempt{cluster: c, pod: p, node: "n1", state: &state{}}
	_, status := c.plugin.PreFilter(c.ctx, a.state, p, nil)
	c.must(status.AsError())
	c.must(c.plugin.Filter(c.ctx, a.state, p, nodeInfo{node: node("n1")}).AsError())

	c.updateVolume("pv", func(pv *v1.PersistentVolume) {
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "other"}
	})
	c.eventually("the store to show it", func() bool { return c.plugin.stores.Volume("pv").Spec.ClaimRef != nil })
	if status := c.plugin.Reserve(c.ctx, a.state, p, "n1"); status.Code() != fwk.Error {
		t.Errorf("Reserve returned %v, want an error", status)
	}
}

func TestPodsThatShareAClaimShareItsPlan(t *testing.T) {
	for _, class := range []string{local, csi} {
		t.Run(class, func(t *testing.T) {
			first, second := pod("first", "data"), pod("second", "data")
			c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", class), claim("other", local), first, second)

			a := c.mustSchedule(first, "n1")
			if _, status := c.schedule(second, "n2"); status.IsSuccess() {
				t.Error("a claim was planned for two nodes")
			}
			b := c.mustSchedule(second, "n1")
			a.unreserve()
			if class == local {
				if _, status := c.schedule(pod("rival", "other"), "n1"); status.IsSuccess() {
					t.Error("the plan went with the first of its two pods")
				}
			}

			done := b.preBind()
			volume := "pv"
			if class == csi {
				volume = "made"
				c.eventually("the node to be selected", func() bool { return c.claim("data").Annotations[storage.AnnSelectedNode] == "n1" })
				c.provision("data", volume, "n1")
			}
			c.eventually("the volume to name the claim", func() bool { return c.volume(volume).Spec.ClaimRef != nil })
			c.bind(volume)
			c.must(c.result(done))
			c.wantNothingReserved()
		})
	}
}

func TestTwoPodsCommitTheSameClaim(t *testing.T) {
	first, second := pod("first", "data"), pod("second", "data")
	c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", local), first, second)
	a, b := c.mustSchedule(first, "n1"), c.mustSchedule(second, "n1")
	aDone, bDone := a.preBind(), b.preBind()
	c.eventually("the volume to name the claim", func() bool { return c.volume("pv").Spec.ClaimRef != nil })
	c.bind("pv")
	c.must(c.result(aDone))
	c.must(c.result(bDone))
	c.wantNothingReserved()
}

// A pod leaves whose write is in doubt, while another pod, which has written the
// same, still counts on it and has no reason to look.
func TestDoubtOfAPodThatLeavesIsSettled(t *testing.T) {
	first, second := pod("first", "data"), pod("second", "data")
	pv := volumeOn("pv", local, "n1")
	c := newCluster(t, nil, pv, claim("data", local), first, second)
	a := c.mustSchedule(first, "n1")
	c.watched.Hold()
	done := a.preBind()
	c.eventually("the first to have written", func() bool {
		return c.plugin.stores.BoundVolumes.State(pv.UID) == ledger.Written
	})
	b := c.mustSchedule(second, "n1")
	c.patches(failing(faults.ErrLost))
	c.reads(failing(faults.ErrLost))
	if err := c.result(b.preBind()); !errors.Is(err, faults.ErrLost) {
		t.Fatalf("PreBind returned %v, want the lost connection", err)
	}
	b.unreserve()
	c.patches(nil)
	c.reads(nil)
	c.watched.Release()
	c.bind("pv")
	c.must(c.result(done))
	c.wantNothingReserved()
}

func TestBoundStoreWinsOverASelectedNode(t *testing.T) {
	p := pod("p", "data")
	c := newCluster(t, nil, claim("data", csi), p)
	c.mustSchedule(p, "n1")
	c.provision("data", "made", "n2")
	c.bind("made")
	c.eventually("the store to show it", func() bool {
		return c.plugin.stores.Claim("default", "data").Spec.VolumeName != "" && c.plugin.stores.Volume("made") != nil
	})
	if got := c.plugin.stores.View().Claim("default", "data").Spec.VolumeName; got != "made" {
		t.Errorf("the View has the claim on volume %q", got)
	}
}
