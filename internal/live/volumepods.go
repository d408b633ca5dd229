// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
)

// pendingWithClaims indexes the pods without a node that use claims, all under
// the empty value.
const pendingWithClaims = "berth.pendingWithVolumeClaims"

func indexPending(obj any) ([]string, error) {
	pod := obj.(*v1.Pod)
	if pod.Spec.NodeName != "" || len(VolumeClaimNames(pod)) == 0 {
		return nil, nil
	}
	return []string{""}, nil
}

// PendingPods returns the pods that use PersistentVolumeClaims and have no node
// yet, in no particular order. They are shared and must not be changed.
func (v *Volumes) PendingPods() []*v1.Pod {
	// The index exists, see newVolumes.
	stored, _ := v.pods.ByIndex(pendingWithClaims, "")
	pods := make([]*v1.Pod, 0, len(stored))
	for _, obj := range stored {
		pods = append(pods, obj.(*v1.Pod))
	}
	return pods
}

// VolumeClaimNames are the names of the PersistentVolumeClaims that the pod uses,
// in the order of its volumes, those of ephemeral volumes included.
func VolumeClaimNames(pod *v1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		vol := &pod.Spec.Volumes[i]
		switch {
		case vol.PersistentVolumeClaim != nil:
			names = append(names, vol.PersistentVolumeClaim.ClaimName)
		case vol.Ephemeral != nil:
			names = append(names, ephemeral.VolumeClaimName(pod, vol))
		}
	}
	return names
}
