// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// Volume is a PersistentVolume whose node affinity has been parsed. It is
// immutable and safe to share; one is made per object, not per pod or node.
type Volume struct {
	pv   *v1.PersistentVolume
	size resource.Quantity
	// reach is who reaches the volume as its node affinity is written.
	reach reach
	// migration is set for an in-tree volume that a CSI driver serves on nodes
	// where its plugin is migrated.
	migration *migration
}

// reach is a node affinity, parsed.
type reach struct {
	nodes *topology
	// invalid is the part of it that cannot be followed, nil normally. No node
	// reaches such a volume.
	invalid *invalidField
}

// CompileVolume prepares a PersistentVolume for use in Facts. The object is
// kept and must not be changed afterwards. It never fails: a node affinity that
// cannot be followed makes a volume that no node reaches, and the rejections of
// the claims that would need it say so.
//
// A node is known by its labels only, as the kubelet checks them before it
// mounts (k8s.io/component-helpers/storage/volume.CheckNodeAffinity). A node
// affinity with matchFields therefore cannot be followed.
func CompileVolume(pv *v1.PersistentVolume) *Volume {
	return &Volume{
		pv:        pv,
		size:      pv.Spec.Capacity[v1.ResourceStorage],
		reach:     affinityReach(pv),
		migration: migrationOf(pv),
	}
}

func affinityReach(pv *v1.PersistentVolume) reach {
	nodes, invalid := affinityTopology(pv.Spec.NodeAffinity)
	return reach{nodes: nodes, invalid: invalid}
}

// PV returns the object that the volume was compiled from. It is shared and
// must not be changed.
func (v *Volume) PV() *v1.PersistentVolume { return v.pv }

// Places returns the places under which a claim without a volume is to look for
// this one (see Facts.VolumesAt). There are none if no claim can have it: if it
// is held, not available, being deleted, or reached by no node.
func (v *Volume) Places() []Place {
	if v.pv.Spec.ClaimRef != nil || v.pv.DeletionTimestamp != nil || v.pv.Status.Phase != v1.VolumeAvailable {
		return nil
	}
	all := v.reach.nodes.places()
	if v.migration != nil {
		all = append(all, v.migration.reach.nodes.places()...)
	}
	if slices.Contains(all, Place{}) {
		return []Place{{}}
	}
	return distinct(all)
}

// on returns who reaches the volume, as it counts on the node.
func (v *Volume) on(n *node) *reach {
	if v.migration != nil && n.migrated(v.migration.plugin) {
		return &v.migration.reach
	}
	return &v.reach
}

// reachedFrom says whether the node reaches the volume.
func (v *Volume) reachedFrom(n *node) bool { return v.on(n).nodes.has(n.labels) }

// isFor says whether the volume is kept for the claim: by its user or by the
// provisioner that made it, or because it has been bound to it just now.
func (v *Volume) isFor(claim *v1.PersistentVolumeClaim) bool {
	return storagehelpers.IsVolumeBoundToClaim(v.pv, claim)
}

// compareVolumes is the order in which claims take volumes: the smallest first,
// then by name.
func compareVolumes(a, b *Volume) int {
	return cmp.Or(a.size.Cmp(b.size), cmp.Compare(a.pv.Name, b.pv.Name))
}
