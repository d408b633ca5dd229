// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// obstacle is why a kubelet could not start a pod. The reasons are those of
// events and conditions.
type obstacle struct {
	reason  string
	message string
}

const (
	claimMissing      = "ClaimMissing"
	claimNotAllocated = "ClaimNotAllocated"
	claimNotReserved  = "ClaimNotReserved"
	claimElsewhere    = "ClaimAllocatedElsewhere"
	volumeMissing     = "VolumeMissing"
	volumeNotBound    = "VolumeNotBound"
	volumeUnreachable = "VolumeUnreachable"
)

func obstruct(reason, format string, args ...any) *obstacle {
	return &obstacle{reason: reason, message: fmt.Sprintf(format, args...)}
}

// missing finds the first thing that the pod needs and does not have on the
// node. It returns nil when the pod can start.
func (k *kubelet) missing(ctx context.Context, pod *corev1.Pod, node *corev1.Node) (*obstacle, error) {
	for i := range pod.Spec.ResourceClaims {
		podClaim := &pod.Spec.ResourceClaims[i]
		name, mustCheckOwner, err := resourceclaim.Name(pod, podClaim)
		if err != nil {
			return obstruct(claimMissing, "claim %q: %v", podClaim.Name, err), nil
		}
		if name == nil {
			// The template's controller found that no claim is needed.
			continue
		}
		found, err := k.claimMissing(ctx, pod, node, *name, mustCheckOwner)
		if found != nil || err != nil {
			return found, err
		}
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		found, err := k.claimMissing(ctx, pod, node, status.ResourceClaimName, true)
		if found != nil || err != nil {
			return found, err
		}
	}
	for i := range pod.Spec.Volumes {
		found, err := k.volumeMissing(ctx, pod, node, &pod.Spec.Volumes[i])
		if found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}

func (k *kubelet) claimMissing(ctx context.Context, pod *corev1.Pod, node *corev1.Node, name string, mustCheckOwner bool) (*obstacle, error) {
	claim, err := k.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return obstruct(claimMissing, "ResourceClaim %s does not exist", name), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ResourceClaim %s/%s: %w", pod.Namespace, name, err)
	}
	if mustCheckOwner {
		if err := resourceclaim.IsForPod(pod, claim, true); err != nil {
			return obstruct(claimMissing, "%v", err), nil
		}
	}
	return claimObstacle(pod, node, claim)
}

func claimObstacle(pod *corev1.Pod, node *corev1.Node, claim *resourceapi.ResourceClaim) (*obstacle, error) {
	if claim.Status.Allocation == nil {
		return obstruct(claimNotAllocated, "ResourceClaim %s is not allocated", claim.Name), nil
	}
	if !resourceclaim.IsReservedForPod(pod, claim, true) {
		return obstruct(claimNotReserved, "ResourceClaim %s is not reserved for the pod", claim.Name), nil
	}
	if claim.Status.Allocation.NodeSelector == nil {
		return nil, nil
	}
	selector, err := nodeaffinity.NewNodeSelector(claim.Status.Allocation.NodeSelector)
	if err != nil {
		return nil, fmt.Errorf("node selector of ResourceClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	if !selector.Match(node) {
		return obstruct(claimElsewhere, "ResourceClaim %s is allocated for other nodes than %s", claim.Name, node.Name), nil
	}
	return nil, nil
}

func (k *kubelet) volumeMissing(ctx context.Context, pod *corev1.Pod, node *corev1.Node, volume *corev1.Volume) (*obstacle, error) {
	var name string
	switch {
	case volume.PersistentVolumeClaim != nil:
		name = volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		name = ephemeral.VolumeClaimName(pod, volume)
	default:
		return nil, nil
	}
	claim, err := k.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return obstruct(volumeMissing, "PersistentVolumeClaim %s does not exist", name), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read PersistentVolumeClaim %s/%s: %w", pod.Namespace, name, err)
	}
	if volume.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return obstruct(volumeMissing, "%v", err), nil
		}
	}
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "" {
		return obstruct(volumeNotBound, "PersistentVolumeClaim %s is not bound", name), nil
	}
	persistent, err := k.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return obstruct(volumeMissing, "PersistentVolume %s does not exist", claim.Spec.VolumeName), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read PersistentVolume %s: %w", claim.Spec.VolumeName, err)
	}
	if ref := persistent.Spec.ClaimRef; ref == nil || ref.UID != claim.UID {
		return obstruct(volumeNotBound, "PersistentVolume %s is not bound to PersistentVolumeClaim %s", persistent.Name, name), nil
	}
	mounted, err := asMounted(persistent)
	if err != nil {
		return obstruct(volumeUnreachable, "%v", err), nil
	}
	if err := storagehelpers.CheckNodeAffinity(mounted, node.Labels); err != nil {
		return obstruct(volumeUnreachable, "PersistentVolume %s cannot be reached from node %s: %v", persistent.Name, node.Name, err), nil
	}
	return nil, nil
}
