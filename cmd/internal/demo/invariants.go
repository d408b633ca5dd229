// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
)

// invariants must hold in every cluster, whatever its pods: no device is in two
// claims, what is allocated is in use, and no volume belongs to two claims.
func invariants(s *snapshot.Snapshot) []error {
	var wrong []error
	type device struct{ driver, pool, name string }
	holder := map[device]string{}
	for _, claim := range s.ResourceClaims {
		if claim.Status.Allocation == nil {
			continue
		}
		name := claim.Namespace + "/" + claim.Name
		if len(claim.Status.ReservedFor) == 0 {
			wrong = append(wrong, fmt.Errorf("claim %s is allocated and reserved for nobody", name))
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			d := device{result.Driver, result.Pool, result.Device}
			if other, taken := holder[d]; taken {
				wrong = append(wrong, fmt.Errorf("device %s/%s/%s is in claims %s and %s", d.driver, d.pool, d.name, other, name))
			}
			holder[d] = name
		}
	}
	owner := map[string]types.UID{}
	for _, claim := range s.PersistentVolumeClaims {
		volume := claim.Spec.VolumeName
		if volume == "" {
			continue
		}
		if other, taken := owner[volume]; taken && other != claim.UID {
			wrong = append(wrong, fmt.Errorf("volume %s belongs to two claims, one of them %s/%s", volume, claim.Namespace, claim.Name))
		}
		owner[volume] = claim.UID
	}
	return wrong
}

// checkVolume: claim and volume are bound to each other, and the pod's node can
// reach the volume. It returns the class of the claim.
func checkVolume(s *snapshot.Snapshot, claim *v1.PersistentVolumeClaim, pod *v1.Pod) (string, []error) {
	class := volumehelpers.GetPersistentVolumeClaimClass(claim)
	volume := s.PersistentVolume(claim.Spec.VolumeName)
	if claim.Status.Phase != v1.ClaimBound || volume == nil {
		return class, []error{fmt.Errorf("claim %s is not bound to a volume", claim.Name)}
	}
	var wrong []error
	if volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID != claim.UID {
		wrong = append(wrong, fmt.Errorf("claim %s is bound to %s, which is not bound to it", claim.Name, volume.Name))
	}
	for _, node := range s.Nodes {
		if node.Name != pod.Spec.NodeName {
			continue
		}
		if err := volumehelpers.CheckNodeAffinity(volume, node.Labels); err != nil {
			wrong = append(wrong, fmt.Errorf("volume %s cannot be reached from node %s: %w", volume.Name, node.Name, err))
		}
	}
	return class, wrong
}

// podVolumes returns the PersistentVolumeClaims of the pod that exist.
func podVolumes(s *snapshot.Snapshot, pod *v1.Pod) []*v1.PersistentVolumeClaim {
	var all []*v1.PersistentVolumeClaim
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		if claim := s.PersistentVolumeClaim(pod.Namespace, volume.PersistentVolumeClaim.ClaimName); claim != nil {
			all = append(all, claim)
		}
	}
	return all
}
