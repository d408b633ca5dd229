// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/reason"
)

// binding is one claim of a pod on its way from Reserve to Commit or Undo.
//
//	plan   signalled  attempted  done   the pod and its claim
//	any    any        no         no     reserved, nothing written
//	any    any        yes        no     a write of the status was tried
//	any    no         yes        yes    the API server has reserved the claim for the pod
//
// A claim for extended resources begins as one that is to be created; its creation
// is the first attempt.
//
// undone is set once by Undo and ends the binding in any of these.
type binding struct {
	podClaim
	// plan is the claim as it will be once written, nil if the API server has
	// allocated it already and only the reservation is missing. Read-only.
	plan *resourceapi.ResourceClaim
	// signalled is the UID under which the SharedDRAManager counts the pod as a
	// sharer of the plan, empty if it does not.
	signalled types.UID
	attempted bool
	done      bool
	undone    bool
	// kept: an earlier cycle of the pod has reserved the claim, and this one
	// leaves it so unless its devices have failed.
	kept bool
	// failed: the devices did not become ready. The allocation is to go.
	failed bool
	// mappings are set for the claim for extended resources, which only this pod
	// knows. It is created by Commit and deleted by Undo.
	mappings []v1.ContainerExtendedResourceRequest
	// shown receives when the informer has changed the claim that Commit created;
	// unwatch is nil when nobody waits for it.
	shown   <-chan struct{}
	unwatch func()
}

func (b *binding) uid() types.UID { return b.seen.UID }

func (b *binding) ref() reason.Ref { return claimRef(b.seen.Namespace, b.seen.Name) }

// toBeCreated says whether the claim exists in this process only.
func (b *binding) toBeCreated() bool { return b.seen.ResourceVersion == "" }

// promise is the plan as the SharedDRAManager knows it.
func (b *binding) promise() *resourceapi.ResourceClaim {
	if b.toBeCreated() {
		return inMemory(b.plan)
	}
	return b.plan
}

// allocation is what the claim has, or will have, when the pod runs.
func (b *binding) allocation() *resourceapi.AllocationResult {
	if b.plan != nil {
		return b.plan.Status.Allocation
	}
	return b.seen.Status.Allocation
}

// planned returns the claim as it will be with an allocation. The caller gives
// up the allocation.
func planned(claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult) *resourceapi.ResourceClaim {
	plan := claim.DeepCopy()
	if !slices.Contains(plan.Finalizers, resourceapi.Finalizer) {
		plan.Finalizers = append(plan.Finalizers, resourceapi.Finalizer)
	}
	plan.Status.Allocation = allocation
	return plan
}

// sameAllocation says whether two allocations have the same devices on the same
// nodes. When they were made does not matter.
func sameAllocation(a, b *resourceapi.AllocationResult) bool {
	return a != nil && b != nil &&
		apiequality.Semantic.DeepEqual(a.Devices.Results, b.Devices.Results) &&
		apiequality.Semantic.DeepEqual(a.NodeSelector, b.NodeSelector)
}

func reservedFor(claim *resourceapi.ResourceClaim, consumer resourceapi.ResourceClaimConsumerReference) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor,
		func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == consumer.UID })
}

// podsResource is the resource of a reservation that is for a pod.
const podsResource = "pods"

func consumer(pod *v1.Pod) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{Resource: podsResource, Name: pod.Name, UID: pod.UID}
}
