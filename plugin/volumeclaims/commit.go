// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storage "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreBindPreFlight says whether PreBind has anything to do for the pod. It may
// run beside the PreBind of other plugins.
func (p *Plugin) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result := &fwk.PreBindPreFlightResult{AllowParallel: true}
	c, err := readCycle(state)
	if err != nil {
		return result, fwk.AsStatus(err)
	}
	if c == nil || c.steps.empty() {
		return result, fwk.NewStatus(fwk.Skip)
	}
	return result, nil
}

// PreBind is Commit: it writes the plan and waits until all claims are bound.
// The error of its status is an *EndError, or says which write failed.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	c, err := readCycle(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if c == nil || c.steps.empty() {
		return nil
	}
	err = p.commit(ctx, pod, nodeName, c.steps)
	countCommit(err)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("binding the volumes of pod %s/%s on node %s: %w", pod.Namespace, pod.Name, nodeName, err))
	}
	return nil
}

func (p *Plugin) commit(ctx context.Context, pod *v1.Pod, nodeName string, s steps) error {
	if _, err := p.standing(pod, nodeName); err != nil {
		return err
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod), "node", klog.KRef("", nodeName))
	for _, b := range s.bindings {
		if err := p.commitBinding(ctx, pod.UID, b); err != nil {
			b.ended = isEnd(err)
			return err
		}
		logger.V(2).Info("Volume names its claim", "volume", klog.KObj(b.plan), "claim", klog.KObj(b.claim))
	}
	for _, d := range s.provisions {
		if err := p.commitProvision(ctx, pod.UID, d); err != nil {
			d.ended = isEnd(err)
			return err
		}
		logger.V(2).Info("Claim names its selected node", "claim", klog.KObj(d.plan))
	}
	if err := p.wait(ctx, pod, nodeName, s); err != nil {
		p.noteRefusal(pod, s, err)
		return err
	}
	logger.V(2).Info("All claims are bound")
	return nil
}

// commitBinding has spec.claimRef of the volume name the claim, in the form that
// the PersistentVolume controller writes itself, so that it can finish the
// binding or take it back.
func (p *Plugin) commitBinding(ctx context.Context, owner types.UID, b *binding) error {
	claim, err := p.claim(b.claim)
	if err != nil {
		return err
	}
	if claim.Spec.VolumeName != "" && claim.Spec.VolumeName != b.plan.Name {
		return boundElsewhere(claim)
	}
	stored := p.stores.Volume(b.plan.Name)
	if stored == nil || stored.UID != b.plan.UID {
		return &EndError{End: VolumeGone, Object: volumeRef(b.plan)}
	}
	defer stageBindAPI.observe(time.Now())
	b.seen, err = write[*v1.PersistentVolume]{
		plan:    b.plan,
		entries: p.stores.BoundVolumes,
		read:    p.readVolume,
		patch: func(ctx context.Context, pv *v1.PersistentVolume, patch []byte) (*v1.PersistentVolume, error) {
			return p.client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		},
		want: b.want,
		gone: &EndError{End: VolumeGone, Object: volumeRef(b.plan)},
	}.commit(ctx, owner, stored)
	if err != nil && !isEnd(err) {
		return fmt.Errorf("writing claim %s/%s to PersistentVolume %s: %w", b.claim.Namespace, b.claim.Name, b.plan.Name, err)
	}
	return err
}

// want returns the volume bound to the claim, unless something that the plan
// rests on has changed.
func (b *binding) want(now *v1.PersistentVolume) (next *v1.PersistentVolume, already bool, err error) {
	switch {
	case now.DeletionTimestamp != nil:
		return nil, false, &EndError{End: VolumeDeleting, Object: volumeRef(now)}
	case now.Spec.ClaimRef != nil && !storage.IsVolumeBoundToClaim(now, b.claim):
		return nil, false, &EndError{
			End: VolumeTaken, Object: volumeRef(now),
			Cause: fmt.Errorf("spec.claimRef is %s/%s", now.Spec.ClaimRef.Namespace, now.Spec.ClaimRef.Name),
		}
	case now.Spec.ClaimRef != nil && now.Spec.ClaimRef.UID == b.claim.UID:
		return now, true, nil
	case b.concernedBy(now):
		return nil, false, &EndError{End: VolumeChanged, Object: volumeRef(now)}
	}
	next, _, err = storage.GetBindVolumeToClaim(now, b.claim)
	return next, false, err
}

// concernedBy says whether the volume has changed in a way that the choice of
// it may have depended on.
func (b *binding) concernedBy(now *v1.PersistentVolume) bool {
	matters := func(pv *v1.PersistentVolume) v1.PersistentVolumeSpec {
		spec := pv.Spec
		spec.ClaimRef = nil
		spec.PersistentVolumeReclaimPolicy = ""
		spec.MountOptions = nil
		return spec
	}
	return now.Status.Phase != b.plan.Status.Phase ||
		storage.GetPersistentVolumeClass(now) != storage.GetPersistentVolumeClass(b.plan) ||
		(b.claim.Spec.Selector != nil && !equality.Semantic.DeepEqual(now.Labels, b.plan.Labels)) ||
		!equality.Semantic.DeepEqual(matters(now), matters(b.plan))
}

// commitProvision has the claim's selected-node annotation name the node, which
// starts its provisioner.
func (p *Plugin) commitProvision(ctx context.Context, owner types.UID, d *provision) error {
	stored, err := p.claim(d.plan)
	if err != nil {
		return err
	}
	defer stageBindAPI.observe(time.Now())
	d.seen, err = write[*v1.PersistentVolumeClaim]{
		plan:    d.plan,
		entries: p.stores.PlacedClaims,
		read:    p.readClaim,
		patch: func(ctx context.Context, claim *v1.PersistentVolumeClaim, patch []byte) (*v1.PersistentVolumeClaim, error) {
			return p.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		},
		want: d.want,
		gone: &EndError{End: ClaimGone, Object: claimRef(d.plan)},
	}.commit(ctx, owner, stored)
	if err != nil && !isEnd(err) {
		return fmt.Errorf("selecting node %s for claim %s/%s: %w", d.node, d.plan.Namespace, d.plan.Name, err)
	}
	return err
}

// want returns the claim with the node selected, unless something that the plan
// rests on has changed.
func (d *provision) want(now *v1.PersistentVolumeClaim) (next *v1.PersistentVolumeClaim, already bool, err error) {
	selected := now.Annotations[storage.AnnSelectedNode]
	switch {
	case now.DeletionTimestamp != nil:
		return nil, false, &EndError{End: ClaimDeleting, Object: claimRef(now)}
	case selected == d.node:
		return now, true, nil
	case selected != "":
		return nil, false, selectedElsewhere(now)
	case now.Spec.VolumeName != "":
		return nil, false, boundElsewhere(now)
	case storage.GetPersistentVolumeClaimClass(now) != storage.GetPersistentVolumeClaimClass(d.plan),
		!equality.Semantic.DeepEqual(now.Spec, d.plan.Spec):
		return nil, false, &EndError{End: ClaimChanged, Object: claimRef(now)}
	}
	return selectNode(now, d.node), false, nil
}
