// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/internal/live"
	"github.com/berth-scheduler/berth/reason"
)

// PreEnqueue keeps a pod out of the queue until its claims exist. Nothing wakes
// a pod that is kept out but the events of EventsToRegister. Whatever else is wrong
// with a claim is for PreFilter to say: only then is it in the pod's status.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	_, rejection := p.claimsOf(pod)
	if rejection != nil && (rejection.Code == reason.ClaimNotCreated || rejection.Code == reason.ClaimNotFound) {
		return p.refuse(rejection)
	}
	return nil
}

// PreFilter takes the View and compiles the pod's claims into a Problem. It
// narrows the nodes to those from which the pod can use the claims that it shares
// with others: no eviction and no deallocation for this pod would move those.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if p.features.deferredResize && resource.IsPodResizeDeferred(pod) {
		// The pod runs already and keeps its devices.
		return nil, fwk.NewStatus(fwk.Skip)
	}
	p.overtaken.remove(pod.UID)
	claims, rejection := p.claimsOf(pod)
	if rejection != nil {
		return nil, p.refuse(rejection)
	}
	if err := p.bindToGroup(pod, claims); err != nil {
		return nil, fwk.AsStatus(err)
	}
	left, leftRejection, err := p.noteLeft(pod)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	extended := p.extendedOf(pod)
	if len(claims) == 0 && extended == nil && len(left) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	c := &cycle{
		pod:       pod,
		left:      left,
		claims:    claims,
		extended:  extended,
		avoid:     p.failures.standIns(pod, claims),
		choices:   make(map[string]*choice),
		elsewhere: make(map[string][]podClaim),
		holders:   make(map[string][]holder),
		warned:    sets.New[string](),
	}
	if err := noteInGroup(state, pod, c); err != nil {
		return nil, fwk.AsStatus(err)
	}
	state.Write(stateKey, &trial{cycle: c, evicted: sets.New[types.UID]()})
	if leftRejection != nil {
		return nil, p.refuse(leftRejection)
	}
	if rejection := p.noteBroken(c); rejection != nil {
		return nil, p.refuse(rejection)
	}
	c.own = &variant{}
	if c.own.problem, rejection, err = p.compile(claims); err != nil {
		return nil, fwk.AsStatus(err)
	}
	if rejection != nil {
		return nil, p.refuse(rejection)
	}
	if c.view, err = p.view(c); err != nil {
		return nil, fwk.AsStatus(err)
	}
	result, rejection := p.narrow(claims, nodes)
	if rejection != nil {
		return nil, p.refuse(rejection)
	}
	klog.FromContext(ctx).V(5).Info("Looking for devices", "pod", klog.KObj(pod), "claims", klog.KObjSlice(c.own.problem.Open()))
	return result, nil
}

// narrow returns the nodes from which the claims that others use can be reached,
// nil for all of them.
func (p *Plugin) narrow(claims []podClaim, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *reason.Rejection) {
	var names sets.Set[string]
	for _, claim := range claims {
		if claim.pinned == nil && !claim.skips || p.idle(claim) {
			continue // PostFilter can give it up
		}
		reachable := sets.New[string]()
		for _, node := range nodes {
			if claim.usableOn(node.Node()) && (names == nil || names.Has(node.Node().Name)) {
				reachable.Insert(node.Node().Name)
			}
		}
		if reachable.Len() == 0 {
			return nil, &reason.Rejection{Code: reason.ClaimElsewhere, Claim: claimRef(claim.seen.Namespace, claim.seen.Name)}
		}
		names = reachable
	}
	if names == nil || names.Len() == len(nodes) {
		return nil, nil
	}
	return &fwk.PreFilterResult{NodeNames: names}, nil
}

// compile makes one Problem of claims.
func (p *Plugin) compile(claims []podClaim) (*device.Problem, *reason.Rejection, error) {
	seen := make([]*resourceapi.ResourceClaim, 0, len(claims))
	for _, claim := range claims {
		seen = append(seen, claim.seen)
	}
	var failed error
	class := func(name string) *resourceapi.DeviceClass {
		class, err := p.dra.DeviceClasses().Get(name)
		if err != nil {
			if !apierrors.IsNotFound(err) {
				failed = fmt.Errorf("look up DeviceClass %s: %w", name, err)
			}
			return nil
		}
		return class
	}
	problem, rejection := device.Compile(seen, class, p.options)
	if failed != nil {
		return nil, nil, failed
	}
	return problem, rejection, nil
}

// view returns the picture that Problems are solved on, nil if there is nothing to
// allocate.
func (p *Plugin) view(c *cycle) (*live.View, error) {
	if !c.allocates() {
		return nil, nil
	}
	slices, err := p.dra.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, fmt.Errorf("list ResourceSlices: %w", err)
	}
	defer p.observeMemos()
	return p.devices.View(slices), nil
}
