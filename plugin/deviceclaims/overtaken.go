// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/ledger"
)

// A pod that is being bound cannot be evicted for its devices: its claims do not name
// it before they are written, and to cancel a binding while it writes frees nothing
// yet. Who would have evicted it is told when it is bound.

// overtaken are pods that found nobody to evict while less important ones were being
// bound. All methods may be called concurrently.
type overtaken struct {
	mutex sync.Mutex
	pods  map[types.UID]types.NamespacedName
}

func newOvertaken() *overtaken { return &overtaken{pods: make(map[types.UID]types.NamespacedName)} }

// add remembers a pod, and forgets those that are gone.
func (o *overtaken) add(pod *v1.Pod, gone func(types.UID, types.NamespacedName) bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	maps.DeleteFunc(o.pods, gone)
	o.pods[pod.UID] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func (o *overtaken) remove(pod types.UID) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	delete(o.pods, pod)
}

func (o *overtaken) has(pod types.UID) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	_, ok := o.pods[pod]
	return ok
}

// noteOvertaken remembers the pod if it might evict one that is being bound.
func (p *Plugin) noteOvertaken(pod *v1.Pod) error {
	if ptr.Deref(pod.Spec.PreemptionPolicy, v1.PreemptLowerPriority) == v1.PreemptNever {
		return nil
	}
	for _, claim := range p.ledger.InFlight() {
		if p.ledger.State(claim.UID) != ledger.Planned {
			continue
		}
		users, err := p.devices.PodsOf(claim)
		if err != nil {
			return err
		}
		for _, user := range users {
			other := p.devices.Pod(user.Namespace, user.Name)
			if other != nil && corev1helpers.PodPriority(other) < corev1helpers.PodPriority(pod) {
				p.overtaken.add(pod, func(uid types.UID, name types.NamespacedName) bool {
					known := p.devices.Pod(name.Namespace, name.Name)
					return known == nil || known.UID != uid
				})
				return nil
			}
		}
	}
	return nil
}

// afterPodBound lets a pod try again that might evict the one that is bound now.
func (p *Plugin) afterPodBound(_ klog.Logger, pod *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	bound, ok := newObj.(*v1.Pod)
	if p.overtaken.has(pod.UID) && (!ok || p.needsDevices(bound)) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}
