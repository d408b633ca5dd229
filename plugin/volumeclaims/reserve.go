// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Reserve enters the plan of the chosen node into the ledgers, where every later
// View finds it. It fails, and the pod is tried again, when something that the
// plan rests on has changed since PreFilter.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	c, err := readCycle(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if c == nil {
		return nil
	}
	defer stageAssume.observe(time.Now())
	plan, ok := c.plan(nodeName)
	if !ok {
		return fwk.AsStatus(fmt.Errorf("no plan for the volumes of pod %s/%s on node %s", pod.Namespace, pod.Name, nodeName))
	}
	s, err := stepsFor(plan)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if c.holdUntil, err = p.reserve(pod, s); err != nil {
		return fwk.AsStatus(err)
	}
	c.steps = s
	p.seeking.found(pod)
	return nil
}
