// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/ledger"
)

// undoTimeout bounds the API calls of one Undo. The pod is not tried again
// before Undo has returned.
const undoTimeout = 10 * time.Second

// undoRetries is how often an Undo of what was written is repeated that the API
// server has refused or not answered, which takes about three seconds. It is not
// repeated after that: the pod may count again on what it has.
const undoRetries = 5

// Unreserve undoes what Reserve and PreBind have done for the pod. It may be
// called at any time and repeatedly. It does not use the deadline of ctx, which
// has often ended when something has to be undone.
//
// When all claims are reserved for the pod and PreBind has not failed, they stay
// so, because the pod may have been sent to its node and the answer lost. If it was
// not, it is tried again and finds its claims allocated; PostFilter gives them up
// should they keep it from every node. If it is gone, Kubernetes' resourceclaim
// controller takes back reservations and allocations together.
func (p *Plugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	c, err := readCycle(state)
	if err != nil || c == nil {
		return
	}
	if !c.unbound && !slices.ContainsFunc(c.bindings, func(b *binding) bool { return !b.done }) {
		return
	}
	ctx, cancel := context.WithTimeout(klog.NewContext(p.ctx, klog.FromContext(ctx)), undoTimeout)
	defer cancel()
	for _, b := range c.bindings {
		if !b.kept || b.failed {
			p.undo(ctx, pod, b)
		}
	}
	p.observeLedger()
}

func (p *Plugin) undo(ctx context.Context, pod *v1.Pod, b *binding) {
	if b.undone {
		return
	}
	b.undone = true
	if b.unwatch != nil {
		b.unwatch()
	}
	if b.mappings != nil && b.attempted {
		p.ledger.Doubt(b.uid()) // until it is deleted
	}
	alone := p.ledger.Undo(pod.UID, b.uid())
	if b.signalled != "" {
		signalled := b.signalled
		b.signalled = ""
		if p.dra.ResourceClaims().MaybeRemoveClaimPendingAllocation(signalled, false) {
			p.dra.ResourceClaims().AssumedClaimRestore(b.seen.Namespace, b.seen.Name)
		}
	}
	if !b.attempted && !b.failed && p.ledger.State(b.uid()) != ledger.Doubtful {
		return
	}
	err := p.takeBack(ctx, pod, b, alone)
	for attempt := 0; err != nil && (b.attempted || b.failed) && attempt < undoRetries && p.settling.wait(ctx, attempt) == nil; attempt++ {
		err = p.takeBack(ctx, pod, b, p.ledger.Undo(pod.UID, b.uid()))
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot take back what was written to a claim",
			"pod", klog.KObj(pod), "claim", klog.KObj(b.seen))
		p.settleLater(b)
	}
}

// takeBack removes what the pod has written to the claim. With alone, nobody
// else counts on the allocation.
func (p *Plugin) takeBack(ctx context.Context, pod *v1.Pod, b *binding, alone bool) error {
	if b.mappings != nil {
		return p.discard(ctx, b)
	}
	for attempt := 0; ; attempt++ {
		claim, err := p.read(ctx, b)
		if errors.Is(err, errDeleted) || errors.Is(err, errRecreated) {
			p.ledger.Gone(b.uid())
			return nil
		}
		if err != nil {
			return err
		}
		if claim.Status.Allocation == nil {
			err = p.closeFree(ctx, claim)
		} else {
			err = p.release(ctx, pod, b, claim, alone)
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) || attempt == maxConflicts {
			return err
		}
		if err := p.conflicts.wait(ctx, attempt); err != nil {
			return err
		}
	}
}

// release drops the pod's reservation from an allocated claim, and with alone
// the allocation too if it is the one that was planned or has failed, and nobody
// else uses it. The reservation of a PodGroup is for other pods too and stays
// (see PodGroupPostFilter).
func (p *Plugin) release(ctx context.Context, pod *v1.Pod, b *binding, claim *resourceapi.ResourceClaim, alone bool) error {
	if b.consumer.UID != pod.UID {
		p.ledger.Settle(claim)
		return nil
	}
	changed := claim.DeepCopy()
	changed.Status.ReservedFor = slices.DeleteFunc(changed.Status.ReservedFor,
		func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == pod.UID })
	ours := b.failed || b.plan != nil && sameAllocation(claim.Status.Allocation, b.plan.Status.Allocation)
	if alone && ours && len(changed.Status.ReservedFor) == 0 {
		deallocate(changed)
	}
	if changed.Status.Allocation != nil && len(changed.Status.ReservedFor) == len(claim.Status.ReservedFor) {
		p.ledger.Settle(claim)
		return nil
	}
	written, err := p.client.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	p.ledger.Settle(written)
	return nil
}

// closeFree settles a claim that is not allocated. A write of unknown outcome
// could still take effect, if it is based on this very form of the claim. Commit
// writes an allocation only to a form with the finalizer; removing it, which a
// free claim does not need, turns any such write into a conflict.
func (p *Plugin) closeFree(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	if slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		changed := claim.DeepCopy()
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == resourceapi.Finalizer })
		written, err := p.client.ResourceV1().ResourceClaims(claim.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("remove finalizer: %w", err)
		}
		claim = written
	}
	p.ledger.Settle(claim)
	return nil
}

func deallocate(claim *resourceapi.ResourceClaim) {
	claim.Status.Allocation = nil
	claim.Status.Devices = nil
	claim.Status.ReservedFor = nil
}
