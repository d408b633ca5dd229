// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/internal/live"
	"github.com/berth-scheduler/berth/reason"
)

// Filter solves the pod's Problem on one node. Whatever is wrong with the data
// of that node concerns that node only. When pods are nominated for the node the
// framework asks twice, with them and then without; the plan is the first one.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	t, err := readTrial(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if t == nil {
		return nil
	}
	c := t.cycle
	if len(t.nominated) == 0 && t.evicted.Len() == 0 && c.choseBeside(node.Node().Name) {
		return nil
	}
	chosen, rejection, err := p.solve(t, pod, node.Node())
	if err != nil {
		return fwk.AsStatus(err)
	}
	if rejection == nil && t.evicted.Len() > 0 {
		return nil // nobody is evicted yet, so this is no plan
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if rejection == nil {
		c.choices[node.Node().Name] = chosen
		return nil
	}
	if slices.ContainsFunc(rejection.All(), func(r *reason.Rejection) bool { return r.Code == reason.ClaimElsewhere }) {
		c.noteElsewhere(node.Node())
	}
	return p.refuse(rejection)
}

// choseBeside says whether there is a plan for the node already that leaves their
// devices to the pods that are nominated for it.
func (c *cycle) choseBeside(node string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	chosen, ok := c.choices[node]
	return ok && chosen.beside
}

func (p *Plugin) solve(t *trial, pod *v1.Pod, node *v1.Node) (*choice, *reason.Rejection, error) {
	chosen, rejection, err := p.solveAfter(t.cycle, pod, node, live.Change{Gone: t.freed()})
	if err != nil || len(t.nominated) == 0 {
		return chosen, rejection, err
	}
	beside, refused, err := p.solveBeside(t, pod, node, chosen, rejection)
	if err != nil || refused == nil || !p.isNominated(pod, node.Name) {
		return beside, refused, err
	}
	// Who is nominated for the node as well, and no more important, has made room of
	// his own, or none of them has: they need not wait for each other.
	betters := &trial{cycle: t.cycle, evicted: t.evicted, nominated: slices.DeleteFunc(slices.Clone(t.nominated), func(other *v1.Pod) bool {
		return corev1helpers.PodPriority(other) <= corev1helpers.PodPriority(pod)
	})}
	return p.solveBeside(betters, pod, node, chosen, rejection)
}

// solveAfter looks for a plan that avoids the devices on which the pod has failed
// lately, and then for any.
func (p *Plugin) solveAfter(c *cycle, pod *v1.Pod, node *v1.Node, change live.Change) (*choice, *reason.Rejection, error) {
	if len(c.avoid) > 0 {
		avoiding := change
		avoiding.Extra = slices.Concat(change.Extra, c.avoid)
		plan, rejection, err := p.solveOn(c, pod, node, avoiding)
		if err != nil || rejection == nil {
			return &choice{plan: plan, of: p.variantOn(c, pod, node)}, nil, err
		}
	}
	plan, rejection, err := p.solveOn(c, pod, node, change)
	return &choice{plan: plan, of: p.variantOn(c, pod, node), lastResort: len(c.avoid) > 0}, rejection, err
}

func (p *Plugin) solveOn(c *cycle, pod *v1.Pod, node *v1.Node, change live.Change) (device.Plan, *reason.Rejection, error) {
	asked := p.variantOn(c, pod, node)
	if asked.err != nil || asked.rejection != nil {
		return device.Plan{}, asked.rejection, asked.err
	}
	view, err := c.look(node, change)
	if err != nil {
		return device.Plan{}, nil, err
	}
	plan, rejection := p.search(asked.problem, view)
	p.warn(c, pod, plan.Warnings())
	return plan, rejection, nil
}

func (p *Plugin) search(problem *device.Problem, view device.NodeView) (device.Plan, *reason.Rejection) {
	start := p.clock.Now()
	plan, rejection := problem.Solve(view)
	observeSolve(p.clock.Since(start), plan, rejection)
	return plan, rejection
}

// noteElsewhere remembers which claims a node cannot use. The engine stops at the
// first of them; PostFilter wants them all.
func (c *cycle) noteElsewhere(node *v1.Node) {
	var key strings.Builder
	var claims []podClaim
	for _, claim := range c.claims {
		if !claim.usableOn(node) {
			key.WriteString(claim.seen.Name + "/")
			claims = append(claims, claim)
		}
	}
	c.elsewhere[key.String()] = claims
}

// Explain returns every fact about why the pod does not fit on a node, nil when
// it does. The state must be one that PreFilter accepted for the pod.
func (p *Plugin) Explain(_ context.Context, state fwk.CycleState, node fwk.NodeInfo) *reason.Rejection {
	return p.explain(state, node, func(view device.NodeView) device.NodeView { return view })
}

// ExplainEmptied is [Plugin.Explain] for a node of which nobody held a device: what
// remains no pod that ends can cure.
func (p *Plugin) ExplainEmptied(_ context.Context, state fwk.CycleState, node fwk.NodeInfo) *reason.Rejection {
	return p.explain(state, node, device.NodeView.Emptied)
}

func (p *Plugin) explain(state fwk.CycleState, node fwk.NodeInfo, seen func(device.NodeView) device.NodeView) *reason.Rejection {
	c, err := readCycle(state)
	if err != nil || c == nil {
		return nil
	}
	asked := p.variantOn(c, c.pod, node.Node())
	if asked.err != nil || asked.rejection != nil {
		return asked.rejection
	}
	view, err := c.look(node.Node(), live.Change{})
	if err != nil {
		return nil
	}
	return asked.problem.Explain(seen(view))
}

// refuse makes the status of a rejection and counts it. Preemption may follow
// only where pods that end give back what was missing.
func (p *Plugin) refuse(rejection *reason.Rejection) *fwk.Status {
	for _, one := range rejection.All() {
		rejections.WithLabelValues(string(one.Code)).Inc()
	}
	if rejection.Evictable() {
		return fwk.NewStatus(fwk.Unschedulable).WithError(rejection)
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithError(rejection)
}

// warn tells the pod about selectors that failed on devices, once each in a
// cycle, although the pod may well be placed on other devices.
func (p *Plugin) warn(c *cycle, pod *v1.Pod, warnings []device.Warning) {
	for _, w := range warnings {
		c.mutex.Lock()
		known := c.warned.Has(w.Expression + "\n" + w.Error)
		c.warned.Insert(w.Expression + "\n" + w.Error)
		c.mutex.Unlock()
		recorder := p.handle.EventRecorder()
		switch {
		case recorder == nil || known:
		case w.Expression == "":
			recorder.Eventf(pod, nil, v1.EventTypeWarning, "DeviceCapacityFailed", "Scheduling",
				"what would be consumed of device %s, which is left out, cannot be computed: %s", w.Device, w.Error)
		default:
			recorder.Eventf(pod, nil, v1.EventTypeWarning, "DeviceSelectorFailed", "Scheduling",
				"selector %q failed on device %s, which is left out: %s", w.Expression, w.Device, w.Error)
		}
	}
}
