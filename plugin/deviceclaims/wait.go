// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/ledger"
	"github.com/berth-scheduler/berth/reason"
)

// lookAgain is how long awaitDevices trusts that it would have been told of a change.
const lookAgain = time.Minute

// awaitDevices returns nil when the binding conditions of all devices are true.
// It looks at the claims whenever one of them or the pod has changed. When devices
// fail or are late it marks their bindings as failed, for Undo to give them up.
func (p *Plugin) awaitDevices(ctx context.Context, pod *v1.Pod, nodeName string, bindings []*binding) error {
	if !p.features.device.DeviceBindingConditions {
		return nil
	}
	var waiting []*binding
	objects := []reason.Ref{{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}}
	for _, b := range bindings {
		if hasConditions(b.allocation()) {
			waiting = append(waiting, b)
			objects = append(objects, b.ref())
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	changed, stop := p.devices.Watch(objects)
	defer stop()
	start := p.clock.Now()
	err := p.awaitReady(ctx, pod, nodeName, waiting, changed)
	bindingWaits.WithLabelValues(outcomeOf(err)).Observe(p.clock.Since(start).Seconds())
	return err
}

func (p *Plugin) awaitReady(ctx context.Context, pod *v1.Pod, nodeName string, waiting []*binding, changed <-chan struct{}) error {
	start := p.clock.Now()
	told := false
	for {
		pending, deadline, err := p.lookAtDevices(pod, waiting, start)
		if err != nil || pending == nil {
			return err
		}
		if !told {
			p.tell(pod, nodeName, pending)
			klog.FromContext(ctx).V(4).Info("Waiting for devices to become ready", "pod", klog.KObj(pod), "node", nodeName, "devices", join(pending))
			told = true
		}
		timer := p.clock.NewTimer(min(deadline.Sub(p.clock.Now()), lookAgain))
		select {
		case <-changed:
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait for %s: %w", join(pending), context.Cause(ctx))
		}
		timer.Stop()
	}
}

func hasConditions(allocation *resourceapi.AllocationResult) bool {
	for i := range allocation.Devices.Results {
		if len(allocation.Devices.Results[i].BindingConditions) > 0 {
			return true
		}
	}
	return false
}

// lookAtDevices returns the devices that are not ready and when the first claim
// of them is late, or why it is of no use to wait. Claims without a time of
// allocation count from start.
func (p *Plugin) lookAtDevices(pod *v1.Pod, waiting []*binding, start time.Time) (pending []unready, deadline time.Time, err error) {
	if current := p.devices.Pod(pod.Namespace, pod.Name); current == nil || current.UID != pod.UID || current.DeletionTimestamp != nil {
		return nil, deadline, errPodGone
	}
	now := p.clock.Now()
	var errs []error
	for _, b := range waiting {
		claim, err := p.standing(b)
		if err != nil {
			errs = append(errs, fmt.Errorf("wait for the devices of ResourceClaim %s: %w", b.ref(), err))
			continue
		}
		devices := unreadyDevices(claim)
		if len(devices) == 0 {
			continue
		}
		late := p.deadline(claim, start)
		if failed := failedDevices(devices, !now.Before(late)); len(failed) > 0 {
			b.failed = true
			p.failures.remember(pod, claim, failed)
			errs = append(errs, fmt.Errorf("ResourceClaim %s: %w: %s", b.ref(), errNotReady, join(failed)))
			continue
		}
		if pending == nil || late.Before(deadline) {
			deadline = late
		}
		pending = append(pending, devices...)
	}
	return pending, deadline, errors.Join(errs...)
}

// standing returns the newest known form of the claim, if it still has the
// allocation that the pod counts on.
func (p *Plugin) standing(b *binding) (*resourceapi.ResourceClaim, error) {
	claim, _ := p.devices.Claim(b.seen.Namespace, b.seen.Name)
	if known, state := p.ledger.Latest(b.seen); claim == nil && state != ledger.None {
		claim = known // the informer does not show yet what Commit created
	}
	switch {
	case claim == nil:
		return nil, errDeleted
	case claim.UID != b.uid():
		return nil, errRecreated
	case claim.Status.Allocation == nil:
		return nil, errDeallocated
	case !sameAllocation(claim.Status.Allocation, b.allocation()):
		return nil, errElsewhere
	}
	return claim, nil
}

// tell makes visible what the pod waits for.
func (p *Plugin) tell(pod *v1.Pod, nodeName string, pending []unready) {
	if recorder := p.handle.EventRecorder(); recorder != nil {
		recorder.Eventf(pod, nil, v1.EventTypeNormal, "BindingConditionsPending", "Scheduling",
			"waiting on node %s: %s", nodeName, join(pending))
	}
}
