// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/reason"
)

// Reserve enters the Plan of the chosen node into the ledger and joins the plans
// of other pods for claims that this pod shares with them. Nothing is written.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	c, err := readCycle(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if err := p.overlooked(c, pod, nodeName); err != nil {
		return fwk.AsStatus(fmt.Errorf("reserve devices on node %s: %w", nodeName, err))
	}
	if c == nil {
		return nil
	}
	bindings, err := c.bind(nodeName)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if err := p.recheck(bindings); err != nil {
		return fwk.AsStatus(fmt.Errorf("reserve devices on node %s: %w", nodeName, err))
	}
	var plans []*resourceapi.ResourceClaim
	for _, b := range bindings {
		if b.plan != nil {
			plans = append(plans, b.plan)
		}
	}
	if err := p.ledger.Reserve(pod.UID, plans, contradicts); err != nil {
		return fwk.AsStatus(fmt.Errorf("reserve devices on node %s: %w", nodeName, err))
	}
	c.bindings = bindings
	p.observeLedger()
	for _, b := range bindings {
		if b.plan == nil {
			continue
		}
		if err := p.dra.ResourceClaims().SignalClaimPendingAllocation(b.uid(), b.promise()); err != nil {
			return fwk.AsStatus(fmt.Errorf("announce the allocation of ResourceClaim %s: %w", b.ref(), err))
		}
		b.signalled = b.uid()
	}
	return nil
}

// bind makes the bindings of the pod's claims for one node, and of the one for its
// extended resources if the node needs it.
func (c *cycle) bind(nodeName string) ([]*binding, error) {
	c.mutex.Lock()
	chosen, ok := c.choices[nodeName]
	c.mutex.Unlock()
	if !ok {
		return nil, fmt.Errorf("no devices were planned on node %s", nodeName)
	}
	open, results := chosen.of.problem.Open(), chosen.results()
	if len(open) != len(results) {
		return nil, fmt.Errorf("the plan for node %s has %d allocations for %d claims", nodeName, len(results), len(open))
	}
	byUID := make(map[types.UID]*resourceapi.AllocationResult, len(open))
	for i, claim := range open {
		byUID[claim.UID] = &results[i]
	}
	bindings := make([]*binding, 0, len(c.claims))
	for _, claim := range c.claims {
		b := &binding{podClaim: claim}
		switch result, ok := byUID[claim.seen.UID]; {
		case ok:
			b.plan = planned(claim.seen, result.DeepCopy())
		case claim.pending:
			b.plan = planned(claim.seen, claim.seen.Status.Allocation)
		default:
			b.kept = reservedFor(claim.seen, claim.consumer)
			b.done = b.kept
		}
		bindings = append(bindings, b)
	}
	if claim := chosen.of.claim; claim != nil {
		bindings = append(bindings, &binding{
			podClaim: podClaim{seen: claim, consumer: consumer(c.pod)},
			plan:     planned(claim, byUID[claim.UID].DeepCopy()),
			mappings: chosen.of.mappings,
		})
	}
	return bindings, nil
}

// contradicts says why two claims in flight cannot both have what they plan.
func contradicts(plan, other *resourceapi.ResourceClaim) error {
	if plan.UID == other.UID {
		if other.Status.Allocation != nil && !sameAllocation(plan.Status.Allocation, other.Status.Allocation) {
			return fmt.Errorf("ResourceClaim %s is being allocated differently by another pod",
				claimRef(plan.Namespace, plan.Name))
		}
		return nil
	}
	if plan.Status.Allocation == nil || other.Status.Allocation == nil {
		return nil
	}
	for i := range plan.Status.Allocation.Devices.Results {
		a := &plan.Status.Allocation.Devices.Results[i]
		for j := range other.Status.Allocation.Devices.Results {
			b := &other.Status.Allocation.Devices.Results[j]
			if exclusive(a, b) {
				return fmt.Errorf("device %s of ResourceClaim %s was just taken by ResourceClaim %s",
					reason.Device{Driver: a.Driver, Pool: a.Pool, Name: a.Device},
					claimRef(plan.Namespace, plan.Name), claimRef(other.Namespace, other.Name))
			}
		}
	}
	return nil
}

// exclusive says whether two results are for one device that cannot serve both.
// Admin access takes nothing, and shares of a device are kept apart by capacity.
func exclusive(a, b *resourceapi.DeviceRequestAllocationResult) bool {
	same := a.Driver == b.Driver && a.Pool == b.Pool && a.Device == b.Device
	admin := ptr.Deref(a.AdminAccess, false) || ptr.Deref(b.AdminAccess, false)
	shared := a.ShareID != nil && b.ShareID != nil
	return same && !admin && !shared
}
