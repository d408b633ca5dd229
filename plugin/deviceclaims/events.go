// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// EventsToRegister names what can make a pod schedulable that this plugin has
// refused. A hint may let a pod try in vain; it must never keep one waiting that
// could be placed.
func (p *Plugin) EventsToRegister(_ context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:             fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Add | fwk.Update | fwk.Delete},
			PreQueueingHintFn: p.podsForClaim,
			QueueingHintFn:    p.afterClaim,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodGeneratedResourceClaim},
			QueueingHintFn: p.afterGeneratedClaim,
		},
		{Event: fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Add | fwk.Update | fwk.Delete}},
		{Event: fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Add | fwk.Update}},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeAllocatable}},
		// Not narrowed to the pods concerned: the queue would then ask no other plugin
		// about pods that we do not name.
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}, QueueingHintFn: p.afterPodBound},
		// The scheduler announces a pod that it gave up binding as deleted; what
		// that pod had planned to take is free again.
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: p.afterPodGone},
	}, nil
}

// podsForClaim narrows an event of a claim to the pods that use the claim,
// unless it gives back devices, which any pod may be waiting for.
func (p *Plugin) podsForClaim(_ klog.Logger, oldObj, newObj any) (fwk.PreQueueingHintResult, error) {
	before, after, ok := claimsOfEvent(oldObj, newObj)
	if !ok || givesBack(before, after) {
		return fwk.PreQueueingHintResult{AllPods: true}, nil
	}
	claim := after
	if claim == nil {
		claim = before
	}
	pods, err := p.devices.PodsOf(claim)
	if err != nil {
		return fwk.PreQueueingHintResult{AllPods: true}, err
	}
	return fwk.PreQueueingHintResult{Pods: pods}, nil
}

// afterClaim decides whether an event of a claim lets a pod try again.
func (p *Plugin) afterClaim(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, ok := claimsOfEvent(oldObj, newObj)
	if !ok || givesBack(before, after) {
		return fwk.Queue, nil
	}
	if after == nil {
		if madeFor(pod, before) {
			return fwk.Queue, nil // it was in the way
		}
		return fwk.QueueSkip, nil
	}
	if !uses(pod, after) {
		return fwk.QueueSkip, nil
	}
	if before != nil && before.UID == after.UID && !matters(before, after) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// afterGeneratedClaim decides whether an update of the pod's own status has
// named all claims that the pod was waiting for. The claims themselves may come
// later, with events of their own.
func (p *Plugin) afterGeneratedClaim(_ klog.Logger, pod *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	updated, ok := newObj.(*v1.Pod)
	if !ok || updated.UID != pod.UID {
		return fwk.Queue, nil
	}
	if _, rejection := p.claimsOf(updated); rejection != nil {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// afterPodGone lets pods try again when one is gone that may have had devices.
func (p *Plugin) afterPodGone(_ klog.Logger, _ *v1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	if gone, ok := oldObj.(*v1.Pod); ok && !p.needsDevices(gone) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// claimsOfEvent returns the claim before and after an event, false when either
// is something else, as after a deletion that the informer has missed.
func claimsOfEvent(oldObj, newObj any) (before, after *resourceapi.ResourceClaim, ok bool) {
	if oldObj != nil {
		if before, ok = oldObj.(*resourceapi.ResourceClaim); !ok {
			return nil, nil, false
		}
	}
	if newObj != nil {
		if after, ok = newObj.(*resourceapi.ResourceClaim); !ok {
			return nil, nil, false
		}
	}
	return before, after, before != nil || after != nil
}

// givesBack says whether an event of a claim frees devices. A claim that is
// another one under the same name has freed those of the first.
func givesBack(before, after *resourceapi.ResourceClaim) bool {
	if before == nil || before.Status.Allocation == nil {
		return false
	}
	return after == nil || after.UID != before.UID || after.Status.Allocation == nil
}

// matters says whether a change of a claim can matter to a pod that uses it. The
// usual one that does not is a finalizer.
func matters(before, after *resourceapi.ResourceClaim) bool {
	return !apiequality.Semantic.DeepEqual(before.Status, after.Status) ||
		!apiequality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) ||
		!apiequality.Semantic.DeepEqual(before.Spec, after.Spec)
}

func uses(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	if pod.Namespace != claim.Namespace {
		return false
	}
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err == nil && name != nil && *name == claim.Name {
			return true
		}
	}
	return false
}
