// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/ledger"
	"github.com/berth-scheduler/berth/reason"
)

// create makes the claim for extended resources, with its finalizer and without an
// allocation. The ledger goes on with the UID that it gets.
func (p *Plugin) create(ctx context.Context, pod *v1.Pod, b *binding) error {
	api := p.client.ResourceV1().ResourceClaims(pod.Namespace)
	claim := b.plan.DeepCopy()
	claim.UID, claim.Status = "", resourceapi.ResourceClaimStatus{}
	// Whoever watches from before the creation misses no event of the claim.
	b.shown, b.unwatch = p.devices.Watch([]reason.Ref{b.ref()})
	b.attempted = true
	created, err := api.Create(ctx, claim, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		// The client sends a request again when a connection breaks.
		if created, err = api.Get(ctx, claim.Name, metav1.GetOptions{}); err == nil && !metav1.IsControlledBy(created, pod) {
			err = errNameTaken
		}
	}
	if err != nil {
		if unknownOutcome(err) {
			p.ledger.Doubt(b.uid())
		}
		return fmt.Errorf("create: %w", err)
	}
	planned := planned(created, b.plan.Status.Allocation)
	p.ledger.Replace(b.uid(), planned)
	b.seen, b.plan = created, planned
	return nil
}

// follow waits in the background until the informer shows the claim as it was
// written. Until then the SharedDRAManager knows it by its planned form only. A claim
// that came and went unseen would stay in the ledger for good without this.
func (p *Plugin) follow(b *binding, written *resourceapi.ResourceClaim) {
	promised, shown, unwatch := b.signalled, b.shown, b.unwatch
	b.signalled, b.unwatch = "", nil
	go func() {
		defer unwatch()
		defer p.dra.ResourceClaims().MaybeRemoveClaimPendingAllocation(promised, false)
		for {
			if _, state := p.ledger.Latest(written); state == ledger.None {
				p.assume(written)
				return
			}
			timer := p.clock.NewTimer(lookAgain)
			select {
			case <-shown:
				if p.devices.Stored(written.Namespace, written.Name) == nil {
					p.ledger.Gone(written.UID)
				}
			case <-timer.C():
				if _, err := p.client.ResourceV1().ResourceClaims(written.Namespace).Get(p.ctx, written.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
					p.ledger.Gone(written.UID)
				}
			case <-p.ctx.Done():
				timer.Stop()
				return
			}
			timer.Stop()
		}
	}()
}

// assumeAttempts is for how long the SharedDRAManager may lag behind the informer.
const assumeAttempts = 10

// assume tells the SharedDRAManager of a claim that the informer shows. An error that
// lasts means that it knows more by now.
func (p *Plugin) assume(claim *resourceapi.ResourceClaim) {
	for attempt := range assumeAttempts {
		if p.dra.ResourceClaims().AssumeClaimAfterAPICall(claim) == nil || p.conflicts.wait(p.ctx, attempt) != nil {
			return
		}
	}
}

// mapRequests tells the kubelet, in the pod's status, which containers use which
// requests of the claim. It is the last thing that PreBind does: the API server does
// not let anybody take it back.
func (p *Plugin) mapRequests(ctx context.Context, pod *v1.Pod, bindings []*binding) error {
	at := slices.IndexFunc(bindings, func(b *binding) bool { return b.mappings != nil })
	if at < 0 {
		return nil
	}
	status := &v1.PodExtendedResourceClaimStatus{RequestMappings: bindings[at].mappings, ResourceClaimName: bindings[at].seen.Name}
	if apiequality.Semantic.DeepEqual(pod.Status.ExtendedResourceClaimStatus, status) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"extendedResourceClaimStatus": status},
	})
	if err != nil {
		return fmt.Errorf("encode the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	_, err = p.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // the UID is another one
		return errPodGone
	case err != nil:
		return fmt.Errorf("map ResourceClaim %s in the status of pod %s/%s: %w", bindings[at].ref(), pod.Namespace, pod.Name, err)
	}
	return nil
}

// discard deletes the claim that was made for a pod's extended resources, if it was.
// It is nobody else's.
func (p *Plugin) discard(ctx context.Context, b *binding) error {
	for attempt := 0; ; attempt++ {
		claim, err := p.client.ResourceV1().ResourceClaims(b.seen.Namespace).Get(ctx, b.seen.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			p.ledger.Gone(b.uid())
			return nil
		case err != nil:
			return fmt.Errorf("read: %w", err)
		}
		if owner := metav1.GetControllerOf(claim); owner == nil || owner.UID != b.consumer.UID {
			p.ledger.Gone(b.uid())
			return nil
		}
		if err = p.remove(ctx, claim); err == nil {
			p.ledger.Gone(b.uid())
			return nil
		}
		if !apierrors.IsConflict(err) || attempt == maxConflicts {
			return err
		}
		if err := p.conflicts.wait(ctx, attempt); err != nil {
			return err
		}
	}
}

// remove deletes a claim, finalizer first, which protects it from deletion as long as
// it is allocated.
func (p *Plugin) remove(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	api := p.client.ResourceV1().ResourceClaims(claim.Namespace)
	if slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		changed := claim.DeepCopy()
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == resourceapi.Finalizer })
		if _, err := api.Update(ctx, changed, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove finalizer: %w", err)
		}
	}
	err := api.Delete(ctx, claim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(claim.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}

// noteLeft finds the claims for extended resources that earlier attempts of the pod
// have left behind, and says that they have to go first: what they hold was chosen
// for another node or another day. PostFilter gives them up.
func (p *Plugin) noteLeft(pod *v1.Pod) ([]*resourceapi.ResourceClaim, *reason.Rejection, error) {
	left, err := p.devices.ExtendedClaims(pod)
	if err != nil || len(left) == 0 {
		return nil, nil, err
	}
	return left, &reason.Rejection{Code: reason.ExtendedClaimLeft, Claim: claimRef(left[0].Namespace, left[0].Name)}, nil
}

// giveUpLeft deletes what noteLeft has found, unless the pod was bound after all and
// the scheduler has not heard of it.
func (p *Plugin) giveUpLeft(ctx context.Context, pod *v1.Pod, left []*resourceapi.ResourceClaim) error {
	current, err := p.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (current.UID != pod.UID || current.Spec.NodeName != "") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	var errs []error
	for _, claim := range left {
		p.rememberFailed(pod, claim)
		b := &binding{podClaim: podClaim{seen: claim, consumer: consumer(pod)}}
		if err := p.discard(ctx, b); err != nil {
			errs = append(errs, fmt.Errorf("give up ResourceClaim %s: %w", b.ref(), err))
			continue
		}
		klog.FromContext(ctx).V(3).Info("Gave up a claim for extended resources of an earlier attempt", "pod", klog.KObj(pod), "claim", klog.KObj(claim))
	}
	return errors.Join(errs...)
}

// rememberFailed remembers the devices of a left claim that were the reason for it.
func (p *Plugin) rememberFailed(pod *v1.Pod, claim *resourceapi.ResourceClaim) {
	devices := unreadyDevices(claim)
	if !p.features.device.DeviceBindingConditions || len(devices) == 0 {
		return
	}
	now := p.clock.Now()
	p.failures.remember(pod, claim, failedDevices(devices, !now.Before(p.deadline(claim, now))))
}

// madeFor says whether the claim is one for extended resources of the pod.
func madeFor(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	return isExtended(claim) && metav1.IsControlledBy(claim, pod)
}

func isExtended(claim *resourceapi.ResourceClaim) bool {
	return claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true"
}
