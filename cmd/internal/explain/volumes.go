// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/cmd/internal/simulate"
	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
	"github.com/berth-scheduler/berth/reason"
)

const (
	provisionedByAnnotation = "pv.kubernetes.io/provisioned-by"
	selectedNodeAnnotation  = "volume.kubernetes.io/selected-node"
)

// volumes returns the volumes of the pod that stand for a PersistentVolumeClaim.
func volumes(s *snapshot.Snapshot, pod *v1.Pod) []Volume {
	var all []Volume
	for i := range pod.Spec.Volumes {
		entry := &pod.Spec.Volumes[i]
		var name string
		switch {
		case entry.PersistentVolumeClaim != nil:
			name = entry.PersistentVolumeClaim.ClaimName
		case entry.Ephemeral != nil:
			name = ephemeral.VolumeClaimName(pod, entry)
		default:
			continue
		}
		one := Volume{Name: entry.Name, Claim: reason.Ref{Kind: "PersistentVolumeClaim", Namespace: pod.Namespace, Name: name}}
		claim := s.PersistentVolumeClaim(pod.Namespace, name)
		one.Missing = claim == nil
		if claim != nil {
			one.Class = volumehelpers.GetPersistentVolumeClaimClass(claim)
			if class := s.StorageClass(one.Class); class != nil && class.VolumeBindingMode != nil {
				one.Binding = string(*class.VolumeBindingMode)
			}
			if size, ok := claim.Spec.Resources.Requests[v1.ResourceStorage]; ok {
				one.Size = &size
			}
			if claim.Spec.VolumeName != "" {
				one.Bound = bound(s, claim.Spec.VolumeName)
			}
		}
		all = append(all, one)
	}
	return all
}

func bound(s *snapshot.Snapshot, name string) *BoundVolume {
	one := &BoundVolume{Name: name}
	if volume := s.PersistentVolume(name); volume != nil {
		one.Size = volume.Spec.Capacity[v1.ResourceStorage]
		one.ProvisionedBy = volume.Annotations[provisionedByAnnotation]
	}
	return one
}

// countFits counts, for each volume that is not bound, the nodes that have a
// place for it, and finds the most that a node has where it does not suffice.
func (r *Report) countFits(nodes []simulate.Node) {
	for i := range r.Volumes {
		volume := &r.Volumes[i]
		if volume.Bound != nil || volume.Missing {
			continue
		}
		fits := 0
		for _, node := range nodes {
			rejection := refused(node, volume.Claim)
			if rejection == nil {
				fits++
				continue
			}
			had := cmp.Or(rejection.Facts.Limit, rejection.Facts.Had)
			if had != nil && !had.IsZero() && (volume.Most == nil || had.Cmp(volume.Most.Size) > 0) {
				volume.Most = &Most{Node: node.Name, Size: *had, PerVolume: rejection.Facts.Limit != nil}
			}
		}
		volume.Fits = &fits
	}
}

// refused is what the node says against the claim, nil when it has a place for it.
func refused(node simulate.Node, claim reason.Ref) *reason.Rejection {
	if node.Volumes == nil {
		return nil
	}
	for _, rejection := range node.Volumes.All() {
		if rejection.Claim.Name == claim.Name {
			return rejection
		}
	}
	return nil
}

// waitsForProvisioning names the volumes that a driver is making right now for
// a pod that has been given a node.
func waitsForProvisioning(s *snapshot.Snapshot, volumes []Volume) []string {
	var all []string
	for _, volume := range volumes {
		claim := s.PersistentVolumeClaim(volume.Claim.Namespace, volume.Claim.Name)
		if claim == nil || volume.Bound != nil || claim.Annotations[selectedNodeAnnotation] == "" {
			continue
		}
		provisioner := "its driver"
		if class := s.StorageClass(volume.Class); class != nil {
			provisioner = class.Provisioner
		}
		all = append(all, fmt.Sprintf("%s to provision claim %s for node %s",
			provisioner, volume.Claim, claim.Annotations[selectedNodeAnnotation]))
	}
	return all
}
