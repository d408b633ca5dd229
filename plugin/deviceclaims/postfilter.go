// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/ledger"
)

// PostFilter waits when the pod is nominated for a node where devices are about to
// be freed for it. Otherwise it gives up one allocation whose devices have failed,
// or that kept the pod from a node, provided that nobody else uses it or any other
// that kept the pod from that node. It takes the first such claim by name: pods that
// need the same claims give up the same one, and the next attempt has one pinned
// claim less.
//
// In both cases the framework does not go on to preemption: nobody is evicted for a
// pod whose situation changes anyway.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	c, err := readCycle(state)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if c == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if len(c.left) > 0 {
		if err := p.giveUpLeft(ctx, pod, c.left); err != nil {
			return nil, fwk.AsStatus(err)
		}
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "gave up the ResourceClaim for extended resources of an earlier attempt")
	}
	coming, err := p.roomIsComing(c, pod, statuses)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if coming != "" {
		nomination := &fwk.NominatingInfo{NominatedNodeName: coming, NominatingMode: fwk.ModeOverride}
		return &fwk.PostFilterResult{NominatingInfo: nomination}, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "devices on the nominated node are being freed")
	}
	p.tryAgainWhenDecided(c, pod)
	claim, ok := p.dispensable(c)
	if !ok {
		if err := p.noteOvertaken(pod); err != nil {
			return nil, fwk.AsStatus(err)
		}
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if err := p.giveUp(ctx, pod, claim); err != nil {
		return nil, fwk.AsStatus(err)
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "gave up the allocation of a ResourceClaim that kept the pod from its nodes")
}

// giveUp takes a claim's allocation back. What is written may be lost, but not
// undone by somebody else's write: the form that it is based on is gone then.
func (p *Plugin) giveUp(ctx context.Context, pod *v1.Pod, claim podClaim) error {
	if p.features.device.DeviceBindingConditions {
		p.failures.remember(pod, claim.seen, unreadyDevices(claim.seen))
	}
	changed := claim.seen.DeepCopy()
	deallocate(changed)
	written, err := p.client.ResourceV1().ResourceClaims(changed.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("deallocate ResourceClaim %s/%s: %w", changed.Namespace, changed.Name, err)
	}
	p.ledger.Wrote(pod.UID, written)
	klog.FromContext(ctx).V(3).Info("Gave up the allocation of a claim", "pod", klog.KObj(pod), "claim", klog.KObj(written))
	return nil
}

// dispensable returns the claim to give up, false if there is none.
func (p *Plugin) dispensable(c *cycle) (podClaim, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var candidates []podClaim
	for _, claim := range c.broken {
		if p.idle(claim) {
			candidates = append(candidates, claim)
		}
	}
	if len(candidates) > 0 {
		return first(candidates), true
	}
	for _, claims := range c.elsewhere {
		if !slices.ContainsFunc(claims, func(claim podClaim) bool { return !p.idle(claim) }) {
			candidates = append(candidates, claims...)
		}
	}
	if len(candidates) == 0 {
		return podClaim{}, false
	}
	return first(candidates), true
}

func first(claims []podClaim) podClaim {
	return slices.MinFunc(claims, func(a, b podClaim) int { return cmp.Compare(a.seen.Name, b.seen.Name) })
}

// idle says whether only the pod, or no pod, has to do with the claim's
// allocation. What is reserved for a PodGroup may serve other pods of it.
func (p *Plugin) idle(claim podClaim) bool {
	if claim.pending || claim.seen.Status.Allocation == nil || p.unsettled(claim) {
		return false
	}
	for _, consumer := range claim.seen.Status.ReservedFor {
		if consumer.UID != claim.consumer.UID || consumer.Resource != podsResource {
			return false
		}
	}
	return true
}

// unsettled says whether a pod of this process is at work on the claim, or was and
// nobody knows what became of it.
func (p *Plugin) unsettled(claim podClaim) bool {
	state := p.ledger.State(claim.seen.UID)
	return state == ledger.Planned || state == ledger.Doubtful
}
