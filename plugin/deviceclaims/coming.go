// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/ledger"
	"github.com/berth-scheduler/berth/internal/live"
	"github.com/berth-scheduler/berth/reason"
)

// roomIsComing returns the node that the pod is nominated for if the pod will fit
// there without anybody else having to go: as soon as what pods leave behind there
// has been freed, and writes that are in doubt are settled. Events follow both.
func (p *Plugin) roomIsComing(c *cycle, pod *v1.Pod, statuses fwk.NodeToStatusReader) (string, error) {
	if c.view == nil {
		return "", nil
	}
	node, err := p.nominatedNode(pod)
	if err != nil || node == nil {
		return "", err
	}
	if status := statuses.Get(node.Name); status.Code() == fwk.UnschedulableAndUnresolvable && status.Plugin() != Name {
		return "", nil
	}
	if _, rejection, err := p.solveOn(c, pod, node, live.Change{}); err != nil || rejection == nil {
		return "", err // it is not devices that are missing
	}
	soon := (&trial{cycle: c}).freedSoon(p)
	_, rejection, err := p.solveOn(c, pod, node, live.Change{Gone: func(claim *resourceapi.ResourceClaim) bool {
		return soon(claim) || !c.has(claim.UID) && p.ledger.State(claim.UID) == ledger.Doubtful
	}})
	if err != nil || rejection != nil {
		return "", err
	}
	return node.Name, nil
}

// nominatedNode returns nil for a pod that is nominated for none, or one that is
// gone. The pod itself may not show yet what the scheduler has decided a moment ago.
func (p *Plugin) nominatedNode(pod *v1.Pod) (*v1.Node, error) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for _, info := range nodes {
		if p.isNominated(pod, info.Node().Name) {
			return info.Node(), nil
		}
	}
	return nil, nil
}

func (p *Plugin) isNominated(pod *v1.Pod, node string) bool {
	if name := pod.Status.NominatedNodeName; name != "" {
		return name == node
	}
	return slices.ContainsFunc(p.handle.NominatedPodsForNode(node), func(other fwk.PodInfo) bool { return other.GetPod().UID == pod.UID })
}

// ended says whether a claim's user is a pod that is gone or on its way out.
func (p *Plugin) ended(namespace string, user resourceapi.ResourceClaimConsumerReference) bool {
	if !isPod(user) {
		return false
	}
	pod := p.devices.Pod(namespace, user.Name)
	return pod == nil || pod.UID != user.UID || pod.DeletionTimestamp != nil
}

func isPod(user resourceapi.ResourceClaimConsumerReference) bool {
	return user.APIGroup == "" && user.Resource == podsResource
}

// has says whether a claim is one of the pod's own.
func (c *cycle) has(uid types.UID) bool {
	return slices.ContainsFunc(c.claims, func(own podClaim) bool { return own.seen.UID == uid })
}

// holder is a pod that holds devices which a nominated pod waits for.
type holder struct {
	namespace string
	user      resourceapi.ResourceClaimConsumerReference
}

// noteHolders remembers the pods that use devices of a node, are not ending, and
// could be evicted for the pod at hand.
func (p *Plugin) noteHolders(c *cycle, pod *v1.Pod, node string, claims []*resourceapi.ResourceClaim) {
	if ptr.Deref(pod.Spec.PreemptionPolicy, v1.PreemptLowerPriority) == v1.PreemptNever {
		return
	}
	var holders []holder
	for _, claim := range claims {
		for _, user := range claim.Status.ReservedFor {
			if !isPod(user) || p.ended(claim.Namespace, user) {
				continue
			}
			if other := p.devices.Pod(claim.Namespace, user.Name); other != nil && corev1helpers.PodPriority(other) < corev1helpers.PodPriority(pod) {
				holders = append(holders, holder{claim.Namespace, user})
			}
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.holders[node] = holders
}

// mayEvict says whether the pod could evict others from a node where it is not known
// yet who goes for a nominated pod.
func (c *cycle) mayEvict(node string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.holders[node]) > 0
}

// tryAgainWhenDecided lets a pod try again when one of those that it might have
// evicted has been told to go for a nominated pod, which happens a moment after the
// nomination. The scheduler has no event for it before the other has ended.
func (p *Plugin) tryAgainWhenDecided(c *cycle, pod *v1.Pod) {
	var holders []holder
	for _, more := range c.holders {
		holders = append(holders, more...)
	}
	if len(holders) == 0 {
		return
	}
	objects := make([]reason.Ref, len(holders))
	for i, h := range holders {
		objects[i] = reason.Ref{Kind: "Pod", Namespace: h.namespace, Name: h.user.Name}
	}
	changed, stop := p.devices.Watch(objects)
	go func() {
		defer stop()
		timer := p.clock.NewTimer(lookAgain)
		defer timer.Stop()
		for !slices.ContainsFunc(holders, func(h holder) bool { return p.ended(h.namespace, h.user) }) {
			select {
			case <-changed:
			case <-timer.C():
				return
			case <-p.ctx.Done():
				return
			}
		}
		p.handle.Activate(klog.FromContext(p.ctx), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	}()
}
