// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Why a Commit cannot succeed although no write failed.
var (
	errDeleted     = errors.New("it was deleted in the meantime")
	errRecreated   = errors.New("it was deleted and created again in the meantime")
	errDeleting    = errors.New("it is being deleted")
	errElsewhere   = errors.New("it was allocated by someone else in the meantime")
	errDeallocated = errors.New("it was deallocated by someone else in the meantime")
	errFull        = fmt.Errorf("it is reserved for %d pods already", resourceapi.ResourceClaimReservedForMaxSize)
	errNotReady    = errors.New("its devices did not become ready")
	errNameTaken   = errors.New("a claim of that name exists")
	errPodGone     = errors.New("the pod was deleted in the meantime")
)

// PreBindPreFlight says whether PreBind has anything to do.
func (p *Plugin) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result := &fwk.PreBindPreFlightResult{AllowParallel: true}
	c, err := readCycle(state)
	if err != nil {
		return result, fwk.AsStatus(err)
	}
	if c == nil {
		return result, fwk.NewStatus(fwk.Skip)
	}
	return result, nil
}

// PreBind commits: it writes the allocations that Reserve planned and reserves
// all claims for the pod, several claims at a time. Then it waits for the binding
// conditions of the devices, and maps extended resources to them. When any of this
// fails the framework calls Unreserve, which takes everything back. If the pod was
// nominated for another node, the devices there are no longer left for it.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	c, err := readCycle(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if c == nil {
		return nil
	}
	if nominated := pod.Status.NominatedNodeName; nominated != "" && nominated != nodeName {
		p.wakeWaiting(corev1helpers.PodPriority(pod))
	}
	if err := p.commitAll(ctx, pod, c.bindings); err != nil {
		return fwk.AsStatus(err)
	}
	if err := p.awaitDevices(ctx, pod, nodeName, c.bindings); err != nil {
		c.unbound = true
		return fwk.AsStatus(err)
	}
	if err := p.mapRequests(ctx, pod, c.bindings); err != nil {
		c.unbound = true
		return fwk.AsStatus(err)
	}
	return nil
}

func (p *Plugin) commitAll(ctx context.Context, pod *v1.Pod, bindings []*binding) error {
	defer p.observeLedger()
	errs := make([]error, len(bindings))
	var commits sync.WaitGroup
	for i, b := range bindings {
		if b.done {
			continue
		}
		commits.Go(func() {
			if err := p.commit(ctx, pod, b); err != nil {
				errs[i] = fmt.Errorf("reserve ResourceClaim %s: %w", b.ref(), err)
			}
		})
	}
	commits.Wait()
	return errors.Join(errs...)
}

// commit writes one claim. On a conflict it reads the claim and tries again for
// as long as the claim is still free for the plan.
func (p *Plugin) commit(ctx context.Context, pod *v1.Pod, b *binding) error {
	if b.toBeCreated() {
		if err := p.create(ctx, pod, b); err != nil {
			return err
		}
	}
	claim := b.seen.DeepCopy()
	if b.plan != nil {
		claim.Status.Allocation = nil // seen may have it from another pod's plan
	}
	for attempt := 0; ; attempt++ {
		written, err := p.write(ctx, pod, b, claim)
		if err == nil {
			p.committed(ctx, pod, b, written)
			return nil
		}
		if apierrors.IsNotFound(err) {
			return errDeleted
		}
		if !apierrors.IsConflict(err) || attempt == maxConflicts {
			return err
		}
		conflicts.Inc()
		if err := p.conflicts.wait(ctx, attempt); err != nil {
			return err
		}
		if claim, err = p.read(ctx, b); err != nil {
			return err
		}
	}
}

// write brings the claim from a form that the API server returned to the one
// that the pod needs. It may change the claim that it is given.
func (p *Plugin) write(ctx context.Context, pod *v1.Pod, b *binding, claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	api := p.client.ResourceV1().ResourceClaims(claim.Namespace)
	if claim.DeletionTimestamp != nil {
		return nil, errDeleting
	}
	switch {
	case claim.Status.Allocation != nil:
		if !sameAllocation(claim.Status.Allocation, b.allocation()) {
			return nil, errElsewhere
		}
	case b.plan == nil:
		return nil, errDeallocated
	default:
		// The protection comes first, so that no allocated claim is ever without.
		if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
			claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
			protected, err := api.Update(ctx, claim, metav1.UpdateOptions{})
			if err != nil {
				return nil, fmt.Errorf("add finalizer: %w", err)
			}
			claim = protected.DeepCopy()
		}
		claim.Status.Allocation = b.plan.Status.Allocation.DeepCopy()
		if p.features.device.DeviceBindingConditions {
			now := metav1.NewTime(p.clock.Now())
			claim.Status.Allocation.AllocationTimestamp = &now
		}
	}
	if reservedFor(claim, b.consumer) {
		return claim, nil // an earlier write took effect after all, or the group's
	}
	if len(claim.Status.ReservedFor) >= resourceapi.ResourceClaimReservedForMaxSize {
		return nil, errFull
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, b.consumer)

	b.attempted = true
	written, err := api.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		if b.plan != nil && unknownOutcome(err) {
			p.ledger.Doubt(b.uid())
		}
		return nil, fmt.Errorf("write status: %w", err)
	}
	return written, nil
}

// committed makes known that the API server has reserved the claim for the pod:
// the ledger first, because the SharedDRAManager wakes pods that look there.
func (p *Plugin) committed(ctx context.Context, pod *v1.Pod, b *binding, written *resourceapi.ResourceClaim) {
	b.done = true
	p.ledger.Wrote(pod.UID, written)
	logger := klog.FromContext(ctx)
	logger.V(5).Info("Claim is reserved for the pod", "pod", klog.KObj(pod), "claim", klog.KObj(written))
	if b.unwatch != nil {
		p.follow(b, written)
		return
	}
	if err := p.dra.ResourceClaims().AssumeClaimAfterAPICall(written); err != nil {
		// A newer form of the claim, or its deletion, came first.
		logger.V(5).Info("Claim was not assumed", "claim", klog.KObj(written), "err", err)
	}
	if b.signalled != "" {
		p.dra.ResourceClaims().MaybeRemoveClaimPendingAllocation(b.signalled, false)
		b.signalled = ""
	}
}

// read gets the claim from the API server and makes sure that it is the same.
func (p *Plugin) read(ctx context.Context, b *binding) (*resourceapi.ResourceClaim, error) {
	claim, err := p.client.ResourceV1().ResourceClaims(b.seen.Namespace).Get(ctx, b.seen.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, errDeleted
	case err != nil:
		return nil, fmt.Errorf("read: %w", err)
	case claim.UID != b.uid():
		return nil, errRecreated
	}
	return claim, nil
}
