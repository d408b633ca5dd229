// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Plan is the devices for one Problem on one node. It is a small immutable
// value; what it decided is spelled out only when it is asked for, from the
// NodeView that it was made of. The zero value is an empty plan.
type Plan struct {
	problem *Problem
	node    NodeView
	// picks are in the order of the requests, then of the devices.
	picks    []pick
	steps    int64
	failures bool
}

type pick struct {
	request, choice int32
	place           place
}

// Steps returns how many steps the search took, see [DefaultBudget].
func (p Plan) Steps() int64 { return p.steps }

// Results returns the allocation of each claim of [Problem.Open]. The caller
// owns them: they share nothing with the claims, classes and slices.
//
// newShareID is asked for a new ID for each device that may be shared
// (DeviceRequestAllocationResult.ShareID); nil leaves them out, which no driver
// that shares its devices understands.
func (p Plan) Results(newShareID func() types.UID) []resourceapi.AllocationResult {
	if p.problem == nil {
		return nil
	}
	results := make([]resourceapi.AllocationResult, len(p.problem.open))
	for i := range results {
		var picks []pick
		for _, pick := range p.picks {
			if p.problem.requests[pick.request].claim == i {
				picks = append(picks, pick)
			}
		}
		results[i].Devices = resourceapi.DeviceAllocationResult{Config: p.config(i)}
		results[i].Devices.Results = make([]resourceapi.DeviceRequestAllocationResult, len(picks))
		for j, pick := range picks {
			results[i].Devices.Results[j] = p.result(pick, newShareID)
		}
		results[i].NodeSelector = p.nodes(picks)
	}
	return results
}

func (p Plan) result(of pick, newShareID func() types.UID) resourceapi.DeviceRequestAllocationResult {
	c := p.problem.choice(int(of.request), int(of.choice))
	pool := p.node.Pools[of.place.pool].Pool
	d := &pool.devices[of.place.device]
	name := pool.name(of.place.device)
	r := resourceapi.DeviceRequestAllocationResult{
		Request: c.name, Driver: name.Driver, Pool: name.Pool, Device: name.Name,
		BindingConditions:        slices.Clone(d.api.BindingConditions),
		BindingFailureConditions: slices.Clone(d.api.BindingFailureConditions),
		SkipNodeOperations:       slices.Clone(pool.slices[d.slice].api.Spec.SkipNodeOperations),
	}
	if !p.problem.options.Features.DeviceBindingConditions {
		r.BindingConditions, r.BindingFailureConditions = nil, nil
	}
	for _, toleration := range c.tolerations {
		r.Tolerations = append(r.Tolerations, *toleration.DeepCopy())
	}
	if c.access == observes {
		r.AdminAccess = ptr.To(true)
	}
	if !d.shareable {
		return r
	}
	if newShareID != nil {
		r.ShareID = ptr.To(newShareID())
	}
	if c.access == takesIt {
		// The search has found that the amounts can be computed.
		if amounts, err := p.problem.sieves[c.sieve].demand.amounts(d.api, p.problem.options.Features); err == nil && len(amounts) > 0 {
			r.ConsumedCapacity = amounts
		}
	}
	return r
}

// nodes says from where the devices of one claim can be reached: from the one
// node of the plan if one of them is local to a node or binds to it, else from
// where all of their selectors agree, and from everywhere if none has one.
func (p Plan) nodes(picks []pick) *v1.NodeSelector {
	var term v1.NodeSelectorTerm
	for _, pick := range picks {
		pool := p.node.Pools[pick.place.pool].Pool
		d := &pool.devices[pick.place.device]
		s := &pool.slices[d.slice]
		name, selector := ptr.Deref(s.api.Spec.NodeName, ""), s.api.Spec.NodeSelector
		if s.perDevice {
			name, selector = ptr.Deref(d.api.NodeName, ""), d.api.NodeSelector
		}
		if name != "" || ptr.Deref(d.api.BindsToNode, false) {
			return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchFields: []v1.NodeSelectorRequirement{{
					Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{p.node.Node.Name},
				}},
			}}}
		}
		if selector != nil {
			term.MatchFields = join(term.MatchFields, selector.NodeSelectorTerms[0].MatchFields)
			term.MatchExpressions = join(term.MatchExpressions, selector.NodeSelectorTerms[0].MatchExpressions)
		}
	}
	if len(term.MatchFields) == 0 && len(term.MatchExpressions) == 0 {
		return nil
	}
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}
}

// join adds the requirements that are not there yet. The order of values means
// nothing.
func join(to, from []v1.NodeSelectorRequirement) []v1.NodeSelectorRequirement {
	for _, requirement := range from {
		if !slices.ContainsFunc(to, func(other v1.NodeSelectorRequirement) bool { return sameRequirement(other, requirement) }) {
			to = append(to, *requirement.DeepCopy())
		}
	}
	return to
}

func sameRequirement(a, b v1.NodeSelectorRequirement) bool {
	return a.Key == b.Key && a.Operator == b.Operator &&
		slices.Equal(slices.Compact(slices.Sorted(slices.Values(a.Values))), slices.Compact(slices.Sorted(slices.Values(b.Values))))
}
