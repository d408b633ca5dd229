// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	storage "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/live"
)

// wakeInterval is the least time between two attempts to place all pods that
// wait for capacity, since draws end often when many volumes are made.
const wakeInterval = 100 * time.Millisecond

// wake has pods tried again that may wait for storage of the class. It is for
// what becomes free without an event of the API: a reservation that ends later
// than the attempt that made it.
func (p *Plugin) wake(class string) {
	p.activate(func(pod *v1.Pod) bool { return p.mayUseClass(pod, class) })
}

// wakeOnFree has the pods tried again that may wait for capacity, each time that
// less is drawn from one. It returns when the context ends.
func (p *Plugin) wakeOnFree(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.freed:
		}
		p.activate(func(pod *v1.Pod) bool { return p.seeking.has(pod) && p.mayWaitForCapacity(pod) })
		if pause(ctx, wakeInterval) != nil {
			return
		}
	}
}

// noteFree is called with anything locked, so it only leaves word.
func (p *Plugin) noteFree() {
	select {
	case p.freed <- struct{}{}:
	default: // word is left already
	}
}

func (p *Plugin) activate(waits func(*v1.Pod) bool) {
	pods := map[string]*v1.Pod{}
	for _, pod := range p.stores.PendingPods() {
		if waits(pod) {
			pods[string(pod.UID)] = pod
		}
	}
	if len(pods) > 0 {
		p.handle.Activate(klog.FromContext(p.lifetime), pods)
	}
}

// mayWaitForCapacity is true when a claim of the pod is to be provisioned and the
// capacity of its class is checked, or when that cannot be seen.
func (p *Plugin) mayWaitForCapacity(pod *v1.Pod) bool {
	for _, name := range live.VolumeClaimNames(pod) {
		claim := p.stores.Claim(pod.Namespace, name)
		if claim == nil {
			return true
		}
		if claim.Spec.VolumeName != "" {
			continue
		}
		class := p.stores.Class(storage.GetPersistentVolumeClaimClass(claim))
		if class == nil || checksCapacity(p.stores.Driver(class.Provisioner)) {
			return true
		}
	}
	return false
}
