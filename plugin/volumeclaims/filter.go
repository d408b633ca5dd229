// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/live"
	"github.com/berth-scheduler/berth/reason"
	"github.com/berth-scheduler/berth/volume"
)

// PreFilter is View and Compile. What is missing is said here and not in
// PreEnqueue: the user of a pod that is held back there sees no event.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	// A pod that waits to be resized has its node and its volumes.
	if p.deferredResize && resource.IsPodResizeDeferred(pod) || len(live.VolumeClaimNames(pod)) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	defer stageCompile.observe(time.Now())
	p.seeking.begin(pod, p.stores.PendingPods)
	problem, rejection := volume.Compile(pod, p.stores.View(), p.options)
	if rejection != nil {
		scopePod.count(rejection)
		return nil, refuse(rejection)
	}
	if problem.Empty() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(cycleKey, &cycle{problem: problem, refusals: p.refusals.of(pod), plans: make(map[string]volume.Plan)})
	if nodes, narrowed := problem.Narrow(); narrowed {
		return &fwk.PreFilterResult{NodeNames: sets.New(nodes...)}, nil
	}
	return nil, nil
}

// PreFilterExtensions returns nil: other pods on a node do not change what the
// volumes of this one need.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter is Solve. The plan is kept for Reserve. Nodes that a provisioner has
// refused for a claim of the pod are left out as long as there are others.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	c, err := readCycle(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if c == nil {
		return nil
	}
	defer stageFind.observe(time.Now())
	plan, rejection := c.problem.Solve(node.Node())
	if rejection == nil {
		rejection = c.heed(node.Node().Name, plan)
	}
	if rejection != nil {
		scopeNode.count(rejection)
		return refuse(rejection)
	}
	c.keep(node.Node().Name, plan)
	return nil
}

// Explain says with every fact why the pod of the state cannot be on the node.
// It returns nil when it can, and when PreFilter skipped or refused the pod: then
// there is nothing to say about single nodes, and the status of PreFilter carries
// the rejection. It may be called after PreFilter of the same state, at any time.
func (p *Plugin) Explain(_ context.Context, state fwk.CycleState, node fwk.NodeInfo) *reason.Rejection {
	c, err := readCycle(state)
	if err != nil || c == nil {
		return nil
	}
	return c.problem.Explain(node.Node())
}

// refuse returns a status that carries the rejection.
func refuse(rejection *reason.Rejection) *fwk.Status {
	code := fwk.UnschedulableAndUnresolvable
	if rejection.Evictable() {
		code = fwk.Unschedulable
	}
	return fwk.NewStatus(code).WithError(rejection)
}
