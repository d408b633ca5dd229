// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/reason"
)

// podClaim is a claim of a pod as it was when the pod's cycle began.
type podClaim struct {
	// seen is the claim, with the allocation that was planned for it if there
	// was one. Read-only.
	seen *resourceapi.ResourceClaim
	// pending: the allocation in seen is a plan that the API server may not know.
	pending bool
	// pinned are the nodes from which the allocation can be used, nil if there is
	// no allocation or it can be used from all.
	pinned *nodeaffinity.NodeSelector
	// skips: only nodes that declare it can use the allocation (device.Handles).
	skips bool
	// entry is the first of the pod's spec.resourceClaims that names the claim.
	entry *v1.PodResourceClaim
	// consumer is whom the claim is reserved for: the pod, or its PodGroup if the
	// claim is one of the group's.
	consumer resourceapi.ResourceClaimConsumerReference
}

func newPodClaim(pod *v1.Pod, entry *v1.PodResourceClaim, claim *resourceapi.ResourceClaim, pending bool) podClaim {
	c := podClaim{seen: claim, pending: pending, entry: entry, consumer: consumer(pod)}
	if claim.Status.Allocation != nil {
		c.skips = device.SkipsOperations(claim.Status.Allocation)
	}
	if allocation := claim.Status.Allocation; allocation != nil && allocation.NodeSelector != nil {
		if selector, err := nodeaffinity.NewNodeSelector(allocation.NodeSelector); err == nil {
			c.pinned = selector // an invalid one is for the engine to refuse
		}
	}
	return c
}

// usableOn says whether the allocation, if there is one, can be used on the node.
func (c *podClaim) usableOn(node *v1.Node) bool {
	return (c.pinned == nil || c.pinned.Match(node)) && (!c.skips || device.Handles(node))
}

// claimsOf returns the claims of a pod, each once, in the order in which the pod
// names them, or why the pod has to wait for one of them.
func (p *Plugin) claimsOf(pod *v1.Pod) ([]podClaim, *reason.Rejection) {
	var claims []podClaim
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		name, generated, err := resourceclaim.Name(pod, entry)
		switch {
		case errors.Is(err, resourceclaim.ErrClaimNotFound):
			return nil, &reason.Rejection{
				Code:  reason.ClaimNotCreated,
				Facts: reason.Facts{Field: "spec.resourceClaims[" + entry.Name + "]"},
			}
		case err != nil:
			return nil, &reason.Rejection{
				Code: reason.ClaimUnsupported,
				Facts: reason.Facts{
					Field:   "spec.resourceClaims[" + entry.Name + "]",
					Feature: "a source of claims other than a name or a template",
					Detail:  err.Error(),
				},
			}
		case name == nil:
			continue // intentionally without a claim
		}
		claim, pending := p.devices.Claim(pod.Namespace, *name)
		if claim == nil {
			return nil, &reason.Rejection{Code: reason.ClaimNotFound, Claim: claimRef(pod.Namespace, *name)}
		}
		if rejection := p.check(pod, claim, generated); rejection != nil {
			return nil, rejection
		}
		if !slices.ContainsFunc(claims, func(other podClaim) bool { return other.seen.UID == claim.UID }) {
			claims = append(claims, newPodClaim(pod, entry, claim, pending))
		}
	}
	return claims, nil
}

// check says why the pod cannot use a claim that exists, whatever its devices.
func (p *Plugin) check(pod *v1.Pod, claim *resourceapi.ResourceClaim, generated bool) *reason.Rejection {
	ref := claimRef(claim.Namespace, claim.Name)
	if claim.DeletionTimestamp != nil {
		return &reason.Rejection{Code: reason.ClaimDeleting, Claim: ref}
	}
	if generated {
		if err := resourceclaim.IsForPod(pod, claim, p.features.podGroupClaims); err != nil {
			return &reason.Rejection{Code: reason.ClaimNotOwned, Claim: ref, Facts: reason.Facts{Detail: err.Error()}}
		}
	}
	if len(claim.Status.ReservedFor) >= resourceapi.ResourceClaimReservedForMaxSize &&
		!resourceclaim.IsReservedForPod(pod, claim, p.features.podGroupClaims) {
		return &reason.Rejection{Code: reason.ClaimFull, Claim: ref}
	}
	return nil
}

func claimRef(namespace, name string) reason.Ref {
	return reason.Ref{Kind: "ResourceClaim", Namespace: namespace, Name: name}
}
