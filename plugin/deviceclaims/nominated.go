// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/live"
	"github.com/berth-scheduler/berth/reason"
)

// A pod that is nominated for a node has no devices there yet, only a promise:
// others were evicted for it, or some controller has chosen the node. Filter keeps
// the promise to all nominated pods that are at least as important as the pod at
// hand; the framework says by AddPod who they are.

// expectation is what a nominated pod needs on its node.
type expectation struct {
	pod    *v1.Pod
	claims []podClaim
}

// solveBeside looks for a plan with which the pods nominated for the node still
// find their devices. What pods that are ending will give back counts for the
// nominated pods only.
//
// alone and refused are the answer that ignores the nominated pods. A pod that does
// not fit anyway is told to wait when it might evict others and it is not known yet
// who goes for the nominated pods: it would choose the same.
func (p *Plugin) solveBeside(t *trial, pod *v1.Pod, node *v1.Node, alone *choice, refused *reason.Rejection) (*choice, *reason.Rejection, error) {
	if refused != nil && !refused.Evictable() {
		return nil, refused, nil
	}
	expected, kept, err := p.keep(t, pod, node)
	if err != nil {
		return nil, nil, err
	}
	if len(expected) == 0 {
		return alone, refused, nil
	}
	asked := p.variantOn(t.cycle, pod, node)
	open := asked.problem.Open()
	nominated := &reason.Rejection{
		Code: reason.DevicesNominated, Node: node.Name, Claim: claimRef(open[0].Namespace, open[0].Name),
		Facts: reason.Facts{Object: reason.Ref{Kind: "Pod", Namespace: expected[0].pod.Namespace, Name: expected[0].pod.Name}},
	}
	switch {
	case kept == nil && mayPreempt(expected) && t.mayEvict(node.Name):
		nominated.Code = reason.NominationPending
		return nil, nominated, nil
	case refused != nil:
		return nil, refused, nil
	case kept == nil:
		return nil, nominated, nil
	}

	// First as if this pod came before the nominated ones, then after them, then both
	// at once: either may have taken what only the other can use. Only the last way
	// misses nothing, but it cannot tell what is free for all from what is only about
	// to be.
	taken := allocatedWith(open, alone.results())
	if _, rejection, err := p.allocate(t.cycle, claimsOfAll(expected), node, live.Change{Gone: t.freedSoon(p), Extra: taken}); err != nil || rejection == nil {
		return alone.besideOthers(), nil, err
	}
	change := live.Change{Gone: t.freed(), Extra: kept}
	chosen, rejection, err := p.solveAfter(t.cycle, pod, node, change)
	if err != nil || rejection == nil {
		return chosen.besideOthers(), nil, err
	}
	all, rejection, err := p.allocate(t.cycle, append(slices.Clone(asked.with(t.claims)), claimsOfAll(expected)...), node, live.Change{Gone: t.freed()})
	switch {
	case err != nil:
		return nil, nil, err
	case rejection != nil && rejection.Evictable():
		return nil, nominated, nil
	case rejection != nil:
		return nil, rejection, nil
	}
	change.Extra = all[len(open):]
	chosen, rejection, err = p.solveAfter(t.cycle, pod, node, change)
	return chosen.besideOthers(), rejection, err
}

// keep returns what the nominated pods expect of the node, and their claims with
// devices that they would get once the pods that are ending are gone. There are no
// such claims while some other pods have to go and are not told yet; the cycle notes
// those that the pod at hand might evict too. A pod that cannot have its devices
// there, whoever goes, expects nothing: its nomination is out of date.
func (p *Plugin) keep(t *trial, pod *v1.Pod, node *v1.Node) ([]expectation, []*resourceapi.ResourceClaim, error) {
	expected := p.expectations(t, pod, node)
	for len(expected) > 0 {
		claims := claimsOfAll(expected)
		kept, rejection, err := p.allocate(t.cycle, claims, node, live.Change{Gone: t.freedSoon(p)})
		if err != nil || rejection == nil {
			return expected, kept, err
		}
		var holders []*resourceapi.ResourceClaim
		_, rejection, err = p.allocate(t.cycle, claims, node, live.Change{Gone: func(claim *resourceapi.ResourceClaim) bool {
			holders = append(holders, claim)
			return true
		}})
		if err != nil || rejection == nil {
			p.noteHolders(t.cycle, pod, node.Name, holders)
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
func (p *Plugin) expectations(t *trial, pod *v1.Pod, node *v1.Node) []expectation {
	if asked := p.variantOn(t.cycle, pod, node); asked.problem == nil || len(asked.problem.Open()) == 0 {
		return nil // the pod takes nothing
	}
	var expected []expectation
	for _, pod := range t.nominated {
		claims, rejection := p.claimsOn(pod, node)
		if rejection != nil || len(pod.Spec.SchedulingGates) > 0 {
			continue // it cannot come
		}
		claims = slices.DeleteFunc(claims, func(claim podClaim) bool {
			return claim.seen.Status.Allocation != nil || t.has(claim.seen.UID)
		})
		if len(claims) > 0 {
			expected = append(expected, expectation{pod, claims})
		}
	}
	return expected
}

// mayPreempt says whether one of the pods may be evicting others at this moment,
// without these being told yet: whoever chose victims now would choose the same.
func mayPreempt(expected []expectation) bool {
	return slices.ContainsFunc(expected, func(e expectation) bool {
		return ptr.Deref(e.pod.Spec.PreemptionPolicy, v1.PreemptLowerPriority) != v1.PreemptNever
	})
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
	return allocatedWith(problem.Open(), plan.Results(uuid.NewUUID)), nil, nil
}

func allocatedWith(open []*resourceapi.ResourceClaim, results []resourceapi.AllocationResult) []*resourceapi.ResourceClaim {
	allocated := make([]*resourceapi.ResourceClaim, len(open))
	for i := range open {
		allocated[i] = planned(open[i], &results[i])
	}
	return allocated
}
