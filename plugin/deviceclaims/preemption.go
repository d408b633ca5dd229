// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreFilterExtensions lets preemption ask what a node is like without some pods.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// RemovePod supposes that a pod was evicted: the claims that are reserved for
// nobody but evicted pods give back their devices.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	t, err := readTrial(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if pod := removed.GetPod(); t != nil && mayHoldDevices(pod) {
		t.evicted.Insert(pod.UID)
	}
	return nil
}

// AddPod takes a RemovePod back. A pod that was not removed, but is nominated for
// the node, changes nothing: it has no devices yet.
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	t, err := readTrial(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if t != nil {
		t.evicted.Delete(added.GetPod().UID)
	}
	return nil
}

func mayHoldDevices(pod *v1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

// freedBy says of a claim whether it gives back its devices when the evicted pods
// end, nil when nobody is evicted. The pod's own claims do not change hands: they
// are in the Problem with the allocation that they have.
func (t *trial) freedBy() func(*resourceapi.ResourceClaim) bool {
	if t.evicted.Len() == 0 {
		return nil
	}
	return func(claim *resourceapi.ResourceClaim) bool {
		// A claim that nobody uses is not freed by an eviction, and neither is a
		// plan, whose owners are not in the claim yet.
		if len(claim.Status.ReservedFor) == 0 {
			return false
		}
		for _, own := range t.claims {
			if own.seen.UID == claim.UID {
				return false
			}
		}
		for _, user := range claim.Status.ReservedFor {
			if !t.evicted.Has(user.UID) {
				return false
			}
		}
		return true
	}
}
