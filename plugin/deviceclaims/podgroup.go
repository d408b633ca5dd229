// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/reason"
)

// group is what the plugin knows in the scheduling cycle of a PodGroup: the cycles
// of its pods. Such a cycle is no concurrent one, and its state ends before any
// pod is bound.
type group struct {
	cycles map[types.UID]*cycle
}

// Clone returns the same group: there is one for all copies.
func (g *group) Clone() fwk.StateData { return g }

// noteInGroup makes the cycle of a pod known to the PodGroup's cycle that it is a
// part of, if any.
func noteInGroup(state fwk.CycleState, pod *v1.Pod, c *cycle) error {
	groupState := state.GetPodGroupSchedulingCycle()
	if groupState == nil {
		return nil
	}
	g, err := readGroup(groupState)
	if err != nil {
		return err
	}
	if g == nil {
		g = &group{cycles: make(map[types.UID]*cycle)}
		groupState.Write(stateKey, g)
	}
	g.cycles[pod.UID] = c
	return nil
}

// readGroup returns nil without an error when no pod of the group has claims.
func readGroup(state fwk.PodGroupCycleState) (*group, error) {
	data, err := state.Read(stateKey)
	if errors.Is(err, fwk.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the PodGroup's cycle state of %s: %w", Name, err)
	}
	g, ok := data.(*group)
	if !ok {
		return nil, fmt.Errorf("the PodGroup's cycle state of %s has type %T", Name, data)
	}
	return g, nil
}

// bindToGroup finds out which claims are reserved for the pod's PodGroup instead
// of the pod: those that the group has too, under the same name and of the same
// source (PodGroupSpec.ResourceClaims).
func (p *Plugin) bindToGroup(pod *v1.Pod, claims []podClaim) error {
	if !p.features.podGroupClaims || pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return nil
	}
	name := *pod.Spec.SchedulingGroup.PodGroupName
	podGroup, err := p.handle.SnapshotSharedLister().PodGroups().Get(pod.Namespace, name)
	if apierrors.IsNotFound(err) {
		return nil // then none of the claims can be the group's
	}
	if err != nil {
		return fmt.Errorf("look up PodGroup %s/%s: %w", pod.Namespace, name, err)
	}
	for i := range claims {
		if claims[i].consumer, err = resourceclaim.BindTo(pod, podGroup, claims[i].entry); err != nil {
			return fmt.Errorf("find out whom ResourceClaim %s is for: %w", claims[i].seen.Name, err)
		}
	}
	return nil
}

// PodGroupPostFilter gives up allocations that kept a group from being scheduled:
// for each pod that was not placed what PostFilter would, and the claims of the
// group itself if none of its pods runs or is about to. Nothing of a group that
// failed stays allocated, and the next attempt is free to choose again.
func (p *Plugin) PodGroupPostFilter(ctx context.Context, state fwk.PodGroupCycleState, info fwk.PodGroupInfo, _ fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	g, err := readGroup(state)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if g == nil || info.GetType() == fwk.CompositePodGroupKeyType {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	gaveUp := false
	for _, pod := range info.GetUnscheduledPods() {
		c := g.cycles[pod.UID]
		if c == nil {
			continue
		}
		if len(c.left) > 0 {
			if err := p.giveUpLeft(ctx, pod, c.left); err != nil {
				return nil, fwk.AsStatus(err)
			}
			gaveUp = true
			continue
		}
		claim, ok := p.dispensable(c)
		if !ok {
			continue
		}
		if err := p.giveUp(ctx, pod, claim); err != nil {
			return nil, fwk.AsStatus(err)
		}
		gaveUp = true
	}
	ofGroup, err := p.giveUpOfGroup(ctx, g, info)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if gaveUp || ofGroup {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "gave up allocations of ResourceClaims that the group's pods could not use together")
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// giveUpOfGroup takes back what is reserved for the group alone, unless pods of
// it count on that.
func (p *Plugin) giveUpOfGroup(ctx context.Context, g *group, info fwk.PodGroupInfo) (bool, error) {
	if !p.features.podGroupClaims {
		return false, nil
	}
	known, err := p.handle.PodGroupManager().PodGroupStates().Get(info.GetNamespace(), info.GetName())
	if err != nil {
		return false, fmt.Errorf("look up the pods of PodGroup %s/%s: %w", info.GetNamespace(), info.GetName(), err)
	}
	if known.ScheduledPodsCount() > 0 {
		return false, nil
	}
	done := map[reason.Ref]bool{}
	for _, pod := range info.GetUnscheduledPods() {
		c := g.cycles[pod.UID]
		if c == nil {
			continue
		}
		for _, claim := range c.claims {
			ref := claimRef(claim.seen.Namespace, claim.seen.Name)
			if done[ref] || !p.onlyOfGroup(pod, claim) {
				continue
			}
			if err := p.giveUp(ctx, pod, claim); err != nil {
				return false, err
			}
			done[ref] = true
		}
	}
	return len(done) > 0, nil
}

// onlyOfGroup says whether a claim is allocated for the pod's PodGroup and nobody
// else.
func (p *Plugin) onlyOfGroup(pod *v1.Pod, claim podClaim) bool {
	if claim.consumer.UID == pod.UID || claim.pending || claim.seen.Status.Allocation == nil || p.unsettled(claim) {
		return false
	}
	for _, consumer := range claim.seen.Status.ReservedFor {
		if consumer.UID != claim.consumer.UID {
			return false
		}
	}
	return true
}
