// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PostFilter has the pod tried again at once on the nodes that provisioners have
// refused for its claims, since no other node is left. For the first time the
// framework does not go on to preemption then: nobody is evicted from another node
// before a refusal was repeated.
func (p *Plugin) PostFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	c, err := readCycle(state)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if c == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	avoided := c.takeAvoided()
	if len(avoided) == 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	first := p.refusals.waive(avoided)
	p.activate(func(pending *v1.Pod) bool { return pending.UID == pod.UID })
	if !first {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the nodes that a provisioner refused are tried again")
}
