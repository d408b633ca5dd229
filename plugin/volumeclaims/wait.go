// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storage "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/ledger"
	"github.com/berth-scheduler/berth/reason"
	"github.com/berth-scheduler/berth/volume"
)

// lookAgain is how long wait trusts that it would have been told of a change.
const lookAgain = time.Minute

// wait returns nil when all claims of the steps are bound, and an *EndError when
// something ended that. It looks at the stores whenever one of the objects that
// it waits for has changed, not at the ledgers: what counts is what the
// PersistentVolume controller and the provisioners have seen and done.
func (p *Plugin) wait(ctx context.Context, pod *v1.Pod, nodeName string, s steps) error {
	began := time.Now()
	changed, stop := p.stores.Watch(watched(pod, nodeName, s))
	defer stop()
	timeout := time.NewTimer(p.bindTimeout)
	defer timeout.Stop()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		pending, err := p.look(pod, nodeName, s, began)
		if err != nil {
			return err
		}
		if pending == nil {
			return nil
		}
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			return &EndError{End: Cancelled, Object: podRef(pod), Cause: context.Cause(ctx)}
		case <-timeout.C:
			return &EndError{End: TimedOut, Object: claimRef(pending), Cause: fmt.Errorf("waited %v", p.bindTimeout)}
		}
	}
}

func watched(pod *v1.Pod, nodeName string, s steps) []reason.Ref {
	objects := []reason.Ref{podRef(pod), nodeRef(nodeName)}
	for _, b := range s.bindings {
		objects = append(objects, claimRef(b.claim), volumeRef(b.plan))
	}
	for _, d := range s.provisions {
		objects = append(objects, claimRef(d.plan))
	}
	return objects
}

// look returns a claim that is not bound yet, nil when all are. Since began
// nothing has to be done but to wait.
func (p *Plugin) look(pod *v1.Pod, nodeName string, s steps, began time.Time) (pending *v1.PersistentVolumeClaim, err error) {
	node, err := p.standing(pod, nodeName)
	if err != nil {
		return nil, err
	}
	for _, b := range s.bindings {
		bound, err := p.lookBinding(b, node)
		if err != nil {
			return nil, err
		}
		if b.arrives(bound) {
			stageBindWaiting.observe(began)
		}
		if !bound && pending == nil {
			pending = b.claim
		}
	}
	for _, d := range s.provisions {
		bound, err := p.lookProvision(d, node)
		if err != nil {
			return nil, err
		}
		if d.arrives(bound) {
			stageBindProvisioning.observe(began)
		}
		if !bound && pending == nil {
			pending = d.plan
		}
	}
	return pending, nil
}

// standing returns the node if pod and node are still there.
func (p *Plugin) standing(pod *v1.Pod, nodeName string) (*v1.Node, error) {
	if !p.stands(pod) {
		return nil, &EndError{End: PodGone, Object: podRef(pod)}
	}
	node := p.stores.Node(nodeName)
	if node == nil {
		return nil, &EndError{End: NodeGone, Object: nodeRef(nodeName)}
	}
	return node, nil
}

func (p *Plugin) stands(pod *v1.Pod) bool {
	now := p.stores.Pod(pod.Namespace, pod.Name)
	return now != nil && now.UID == pod.UID && now.DeletionTimestamp == nil
}

// claim returns the claim of the plan as it is now, if there is anything left
// to hope for.
func (p *Plugin) claim(planned *v1.PersistentVolumeClaim) (*v1.PersistentVolumeClaim, error) {
	now := p.stores.Claim(planned.Namespace, planned.Name)
	switch {
	case now == nil || now.UID != planned.UID:
		return nil, &EndError{End: ClaimGone, Object: claimRef(planned)}
	case now.DeletionTimestamp != nil:
		return nil, &EndError{End: ClaimDeleting, Object: claimRef(planned)}
	case now.Status.Phase == v1.ClaimLost:
		return nil, &EndError{End: ClaimLost, Object: claimRef(planned)}
	}
	return now, nil
}

func (p *Plugin) lookBinding(b *binding, node *v1.Node) (bound bool, err error) {
	claim, err := p.claim(b.claim)
	if err != nil {
		return false, err
	}
	pv := p.stores.Volume(b.plan.Name)
	switch {
	case pv == nil || pv.UID != b.plan.UID:
		return false, &EndError{End: VolumeGone, Object: volumeRef(b.plan)}
	case !ledger.AtLeast(pv, b.seen):
		return false, nil // the store does not show our own write yet
	case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID:
		return false, &EndError{End: ClaimRefReset, Object: volumeRef(pv)}
	case claim.Spec.VolumeName != "" && claim.Spec.VolumeName != pv.Name:
		return false, boundElsewhere(claim)
	}
	if err := p.reachable(pv, node); err != nil {
		return false, err
	}
	return fullyBound(claim), nil
}

func (p *Plugin) lookProvision(d *provision, node *v1.Node) (bound bool, err error) {
	claim, err := p.claim(d.plan)
	if err != nil {
		return false, err
	}
	if claim.Spec.VolumeName != "" {
		pv := p.stores.Volume(claim.Spec.VolumeName)
		if pv == nil {
			return false, nil // the stores of claims and volumes are not in step
		}
		if err := p.reachable(pv, node); err != nil {
			return false, err
		}
		return fullyBound(claim), nil
	}
	if !ledger.AtLeast(claim, d.seen) {
		return false, nil // the store does not show our own write yet
	}
	switch claim.Annotations[storage.AnnSelectedNode] {
	case d.node:
		return false, nil
	case "":
		end := SelectedNodeRemoved
		if metav1.HasAnnotation(claim.ObjectMeta, storage.AnnStorageProvisioner) {
			end = ProvisioningRefused
		}
		return false, &EndError{End: end, Object: claimRef(claim)}
	default:
		return false, selectedElsewhere(claim)
	}
}

func fullyBound(claim *v1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, storage.AnnBindCompleted)
}

func (p *Plugin) reachable(pv *v1.PersistentVolume, node *v1.Node) error {
	if volume.CompileVolume(pv).ReachedFrom(node, p.stores.CSINode(node.Name)) {
		return nil
	}
	return &EndError{
		End: VolumeElsewhere, Object: volumeRef(pv),
		Cause: fmt.Errorf("its node affinity does not have the labels of node %s", node.Name),
	}
}

func boundElsewhere(claim *v1.PersistentVolumeClaim) error {
	return &EndError{
		End: ClaimBoundElsewhere, Object: claimRef(claim),
		Cause: fmt.Errorf("spec.volumeName is %s", claim.Spec.VolumeName),
	}
}

func selectedElsewhere(claim *v1.PersistentVolumeClaim) error {
	return &EndError{
		End: SelectedElsewhere, Object: claimRef(claim),
		Cause: fmt.Errorf("annotation %s is %s", storage.AnnSelectedNode, claim.Annotations[storage.AnnSelectedNode]),
	}
}

func podRef(pod *v1.Pod) reason.Ref {
	return reason.Ref{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}
}

func nodeRef(name string) reason.Ref { return reason.Ref{Kind: "Node", Name: name} }

func claimRef(claim *v1.PersistentVolumeClaim) reason.Ref {
	return reason.Ref{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name}
}

func volumeRef(pv *v1.PersistentVolume) reason.Ref {
	return reason.Ref{Kind: "PersistentVolume", Name: pv.Name}
}
