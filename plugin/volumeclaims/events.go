// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	storage "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/live"
)

// EventsToRegister names everything that can turn a "no" of this plugin into a
// "yes". A hint skips an event only when it is certain that the event cannot.
//
// All facts are read from the informer stores, which are updated before the
// scheduler hears of an event, so the next cycle of a pod sees what woke it.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	on := func(res fwk.EventResource, actions fwk.ActionType, hint fwk.QueueingHintFn) fwk.ClusterEventWithHint {
		return fwk.ClusterEventWithHint{
			Event:          fwk.ClusterEvent{Resource: res, ActionType: actions},
			QueueingHintFn: hint,
		}
	}
	return []fwk.ClusterEventWithHint{
		on(fwk.PersistentVolumeClaim, fwk.Add|fwk.Update, hint(p.afterClaim)),
		// A claim that a volume is kept for can do without once that is gone.
		on(fwk.PersistentVolume, fwk.Add|fwk.Update|fwk.Delete, hint(p.afterVolume)),
		on(fwk.StorageClass, fwk.Add|fwk.Update, hint(p.afterClass)),
		on(fwk.CSINode, fwk.Add|fwk.Update, hint(p.afterCSINode)),
		// Without its CSIDriver object, a driver's capacity is not checked.
		on(fwk.CSIDriver, fwk.Update|fwk.Delete, hint(p.afterDriver)),
		on(fwk.CSIStorageCapacity, fwk.Add|fwk.Update, hint(p.afterCapacity)),
		// Volumes and topologies select nodes by label, and a claim may wait
		// for its selected node to come back: any new node may do.
		on(fwk.Node, fwk.Add|fwk.UpdateNodeLabel, nil),
		// The scheduler announces a pod that it gave up binding as deleted;
		// what that pod had reserved is free again.
		on(fwk.AssignedPod, fwk.Delete, hint(p.afterPodGone)),
	}, nil
}

func (p *Plugin) afterClaim(pod *v1.Pod, _, claim *v1.PersistentVolumeClaim) bool {
	return usesClaim(pod, claim.Namespace, claim.Name)
}

func (p *Plugin) afterVolume(pod *v1.Pod, old, volume *v1.PersistentVolume) bool {
	switch {
	case volume == nil || keptForOther(pod, volume):
		return keptFor(pod, old)
	case old == nil:
		return true
	}
	return old.Status.Phase != volume.Status.Phase ||
		storage.GetPersistentVolumeClass(old) != storage.GetPersistentVolumeClass(volume) ||
		!equality.Semantic.DeepEqual(old.Labels, volume.Labels) ||
		!equality.Semantic.DeepEqual(old.Spec, volume.Spec)
}

// keptFor is true when the volume names a claim of the pod.
func keptFor(pod *v1.Pod, volume *v1.PersistentVolume) bool {
	if volume == nil || volume.Spec.ClaimRef == nil {
		return false
	}
	return usesClaim(pod, volume.Spec.ClaimRef.Namespace, volume.Spec.ClaimRef.Name)
}

func keptForOther(pod *v1.Pod, volume *v1.PersistentVolume) bool {
	return volume.Spec.ClaimRef != nil && !keptFor(pod, volume)
}

func (p *Plugin) afterClass(pod *v1.Pod, old, class *storagev1.StorageClass) bool {
	if old != nil && equality.Semantic.DeepEqual(old.AllowedTopologies, class.AllowedTopologies) {
		return false
	}
	return p.mayUseClass(pod, class.Name)
}

func (p *Plugin) afterCSINode(_ *v1.Pod, old, node *storagev1.CSINode) bool {
	return old == nil ||
		old.Annotations[v1.MigratedPluginsAnnotationKey] != node.Annotations[v1.MigratedPluginsAnnotationKey] ||
		!equality.Semantic.DeepEqual(old.Spec, node.Spec)
}

// afterDriver: only a driver whose capacity is checked no longer admits more.
func (p *Plugin) afterDriver(pod *v1.Pod, old, driver *storagev1.CSIDriver) bool {
	if !checksCapacity(old) || checksCapacity(driver) {
		return false
	}
	for _, name := range live.VolumeClaimNames(pod) {
		claim := p.stores.Claim(pod.Namespace, name)
		if claim == nil {
			return true
		}
		class := p.stores.Class(storage.GetPersistentVolumeClaimClass(claim))
		if class == nil || class.Provisioner == old.Name {
			return true
		}
	}
	return false
}

func (p *Plugin) afterCapacity(pod *v1.Pod, old, capacity *storagev1.CSIStorageCapacity) bool {
	if old != nil && !grew(old, capacity) {
		return false
	}
	return p.mayUseClass(pod, capacity.StorageClassName)
}

func (p *Plugin) afterPodGone(_ *v1.Pod, gone, _ *v1.Pod) bool {
	return len(live.VolumeClaimNames(gone)) > 0
}

func checksCapacity(driver *storagev1.CSIDriver) bool {
	return driver != nil && driver.Spec.StorageCapacity != nil && *driver.Spec.StorageCapacity
}

// grew is true when the new object may admit what the old one did not.
func grew(old, capacity *storagev1.CSIStorageCapacity) bool {
	larger := func(old, new *resource.Quantity) bool {
		return new != nil && (old == nil || new.Cmp(*old) > 0)
	}
	return larger(old.Capacity, capacity.Capacity) ||
		larger(old.MaximumVolumeSize, capacity.MaximumVolumeSize) ||
		(old.MaximumVolumeSize != nil && capacity.MaximumVolumeSize == nil) ||
		!equality.Semantic.DeepEqual(old.NodeTopology, capacity.NodeTopology)
}

// hint makes a queueing hint of a predicate on the objects of an event. The
// old one is nil when the object was added, the new one when it was deleted.
// The scheduler queues the pod when a hint returns an error.
func hint[T any](helps func(pod *v1.Pod, old, new *T) bool) fwk.QueueingHintFn {
	return func(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		old, oldOK := oldObj.(*T)
		new, newOK := newObj.(*T)
		if (oldObj != nil && !oldOK) || (newObj != nil && !newOK) || (!oldOK && !newOK) {
			return fwk.Queue, fmt.Errorf("event with objects of type %T and %T, want %T", oldObj, newObj, old)
		}
		if helps(pod, old, new) {
			return fwk.Queue, nil
		}
		return fwk.QueueSkip, nil
	}
}
