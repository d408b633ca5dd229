// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/ledger"
	"github.com/berth-scheduler/berth/internal/live"
	"github.com/berth-scheduler/berth/reason"
)

// A pod that is nominated for a node has no devices there yet, only a promise:
// others were evicted for it, or some controller has chosen the node. Filter keeps
// the promise to all nominated pods that are at least as important as the pod at
// hand; the framework says by AddPod who they are.

// expectation is what a nominated pod needs on its node.
type expectation struct {
	pod    reason.Ref
	claims []podClaim
}

// solveBeside looks for a plan with which the pods nominated for the node still
// find their devices, when alone is one that ignores them. What pods that are
// ending will give back counts for the nominated pods only.
func (p *Plugin) solveBeside(t *trial, pod *v1.Pod, node *v1.Node, alone *choice) (*choice, *reason.Rejection, error) {
	expected, kept, err := p.keep(t, node)
	if err != nil {
		return nil, nil, err
	}
	if len(expected) == 0 {
		return alone, nil, nil
	}
	open := t.problem.Open()
	refused := &reason.Rejection{
		Code: reason.DevicesNominated, Node: node.Name, Claim: claimRef(open[0].Namespace, open[0].Name),
		Facts: reason.Facts{Object: expected[0].pod},
	}
	if kept == nil {
		return nil, refused, nil
	}
	change := live.Change{Gone: t.freed(), Extra: kept}
	chosen, rejection, err := p.solveAfter(t.cycle, pod, node, change)
	if err != nil || rejection == nil {
		return chosen.besideOthers(), nil, err
	}
	// What was kept may be all that this pod could use, where other devices would do
	// for the nominated ones.
	all, rejection, err := p.allocate(t.cycle, append(slices.Clone(t.claims), claimsOfAll(expected)...), node, live.Change{Gone: t.freed()})
	switch {
	case err != nil:
		return nil, nil, err
	case rejection != nil && rejection.Evictable():
		return nil, refused, nil
	case rejection != nil:
		return nil, rejection, nil
	}
	change.Extra = all[len(open):]
	chosen, rejection, err = p.solveAfter(t.cycle, pod, node, change)
	return chosen.besideOthers(), rejection, err
}

// keep returns what the nominated pods expect of the node, and their claims with
// devices that they would get once the pods that are ending are gone, nil while it
// is others who still have to go. A pod that cannot have its devices there, whoever
// goes, expects nothing: its nomination is out of date.
func (p *Plugin) keep(t *trial, node *v1.Node) ([]expectation, []*resourceapi.ResourceClaim, error) {
	expected := p.expectations(t)
	for len(expected) > 0 {
		claims := claimsOfAll(expected)
		kept, rejection, err := p.allocate(t.cycle, claims, node, live.Change{Gone: t.freedSoon(p)})
		if err != nil || rejection == nil {
			return expected, kept, err
		}
		_, rejection, err = p.allocate(t.cycle, claims, node, live.Change{Gone: func(*resourceapi.ResourceClaim) bool { return true }})
		if err != nil || rejection == nil {
			return expected, nil, err
		}
		left := slices.DeleteFunc(slices.Clone(expected), func(e expectation) bool { return e.has(rejection.Claim) })
		if len(left) == len(expected) {
			return nil, nil, nil
		}
		expected = left
	}
	return nil, nil, nil
}

// expectations are those of the nominated pods that have claims to be allocated.
// Claims of the pod at hand are none of them: if it gets them, so do the others.
func (p *Plugin) expectations(t *trial) []expectation {
	if len(t.problem.Open()) == 0 {
		return nil // the pod takes nothing
	}
	var expected []expectation
	for _, pod := range t.nominated {
		claims, rejection := p.claimsOf(pod)
		if rejection != nil {
			continue
		}
		claims = slices.DeleteFunc(claims, func(claim podClaim) bool {
			return claim.seen.Status.Allocation != nil || t.has(claim.seen.UID)
		})
		if len(claims) > 0 {
			expected = append(expected, expectation{reason.Ref{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}, claims})
		}
	}
	return expected
}

func claimsOfAll(expected []expectation) []podClaim {
	var claims []podClaim
	for _, e := range expected {
		claims = append(claims, e.claims...)
	}
	return claims
}

func (e expectation) has(claim reason.Ref) bool {
	return slices.ContainsFunc(e.claims, func(c podClaim) bool { return claimRef(c.seen.Namespace, c.seen.Name) == claim })
}

// allocate returns the free ones among the claims as they would be with devices of
// the node, after a change.
func (p *Plugin) allocate(c *cycle, claims []podClaim, node *v1.Node, change live.Change) ([]*resourceapi.ResourceClaim, *reason.Rejection, error) {
	problem, rejection, err := p.compile(claims)
	if err != nil || rejection != nil {
		return nil, rejection, err
	}
	view, err := c.look(node, change)
	if err != nil {
		return nil, nil, err
	}
	plan, rejection := p.search(problem, view)
	if rejection != nil {
		return nil, rejection, nil
	}
	open, results := problem.Open(), plan.Results(uuid.NewUUID)
	allocated := make([]*resourceapi.ResourceClaim, len(open))
	for i := range open {
		allocated[i] = planned(open[i], &results[i])
	}
	return allocated, nil, nil
}

// roomIsComing says whether the pod will fit on the node that it is nominated for
// without anybody else having to go: as soon as what pods leave behind there has
// been freed, and writes that are in doubt are settled. Events follow both.
func (p *Plugin) roomIsComing(c *cycle, pod *v1.Pod, statuses fwk.NodeToStatusReader) (bool, error) {
	name := pod.Status.NominatedNodeName
	if name == "" || c.view == nil || statuses.Get(name).Code() == fwk.UnschedulableAndUnresolvable {
		return false, nil
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(name)
	if err != nil {
		return false, nil //nolint:nilerr // the node is gone, and with it the hope
	}
	if _, rejection, err := p.solveOn(c, pod, info.Node(), live.Change{}); err != nil || rejection == nil {
		return false, err // it is not devices that are missing
	}
	t := &trial{cycle: c}
	soon := t.freedSoon(p)
	_, rejection, err := p.solveOn(c, pod, info.Node(), live.Change{Gone: func(claim *resourceapi.ResourceClaim) bool {
		return soon(claim) || !c.has(claim.UID) && p.ledger.State(claim.UID) == ledger.Doubtful
	}})
	if err != nil {
		return false, fmt.Errorf("look for devices on node %s: %w", name, err)
	}
	return rejection == nil, nil
}

// ended says whether a claim's consumer is a pod that is gone or on its way out.
func (p *Plugin) ended(namespace string, user resourceapi.ResourceClaimConsumerReference) bool {
	if user.APIGroup != "" || user.Resource != podsResource {
		return false
	}
	pod := p.devices.Pod(namespace, user.Name)
	return pod == nil || pod.UID != user.UID || pod.DeletionTimestamp != nil
}

// has says whether a claim is one of the pod's own.
func (c *cycle) has(uid types.UID) bool {
	return slices.ContainsFunc(c.claims, func(own podClaim) bool { return own.seen.UID == uid })
}
