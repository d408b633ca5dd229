// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"slices"

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

// AddPod takes a RemovePod back, or says of a pod that is nominated for the node,
// and has no devices there yet, that they are to be left for it.
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	t, err := readTrial(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	pod := added.GetPod()
	switch {
	case t == nil:
	case t.evicted.Has(pod.UID):
		t.evicted.Delete(pod.UID)
	case pod.Spec.NodeName == "" && p.needsDevices(pod):
		t.nominated = append(t.nominated, pod)
	}
	return nil
}

func mayHoldDevices(pod *v1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

// freed says of a claim whether it gives back its devices when the evicted pods
// end, nil when nobody is evicted.
func (t *trial) freed() func(*resourceapi.ResourceClaim) bool {
	if t.evicted.Len() == 0 {
		return nil
	}
	return t.without(func(_ string, user resourceapi.ResourceClaimConsumerReference) bool { return t.evicted.Has(user.UID) })
}

// freedSoon is freed when the pods that are ending have ended too.
func (t *trial) freedSoon(p *Plugin) func(*resourceapi.ResourceClaim) bool {
	return t.without(func(namespace string, user resourceapi.ResourceClaimConsumerReference) bool {
		return t.evicted.Has(user.UID) || p.ended(namespace, user)
	})
}

// without says of a claim whether all its users are gone. The pod's own claims do
// not change hands: they are in the Problem with the allocation that they have.
func (t *trial) without(gone func(namespace string, user resourceapi.ResourceClaimConsumerReference) bool) func(*resourceapi.ResourceClaim) bool {
	return func(claim *resourceapi.ResourceClaim) bool {
		// A claim that nobody uses is not freed by an eviction, and neither is a
		// plan, whose owners are not in the claim yet.
		if len(claim.Status.ReservedFor) == 0 || t.has(claim.UID) {
			return false
		}
		return !slices.ContainsFunc(claim.Status.ReservedFor, func(user resourceapi.ResourceClaimConsumerReference) bool {
			return !gone(claim.Namespace, user)
		})
	}
}
