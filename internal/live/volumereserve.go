// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	storage "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/volume"
)

// VolumePlans are the objects of one pod's volume.Plan as they will look once
// written.
type VolumePlans struct {
	// Bound are PersistentVolumes whose spec.claimRef names their claim, by UID.
	Bound []*v1.PersistentVolume
	// Placed are claims with the selected-node annotation.
	Placed []*v1.PersistentVolumeClaim
	// Draws are the provisions of the plan. If they are left out, later pods may
	// have the same storage.
	Draws []volume.Provision
}

// Reserve enters the plans of a pod into the ledgers, all or none. It returns an
// error that names the object when the stores or what other pods have reserved
// no longer allow a plan; the pod may try again, and keeps what it had reserved
// before. The plans must not be changed afterwards.
func (v *Volumes) Reserve(owner types.UID, plans VolumePlans) error {
	v.reserving.Lock()
	defer v.reserving.Unlock()

	for _, pv := range plans.Bound {
		if err := v.checkBound(pv); err != nil {
			return fmt.Errorf("reserving PersistentVolume %s: %w", pv.Name, err)
		}
	}
	for _, claim := range plans.Placed {
		if err := v.checkPlaced(claim); err != nil {
			return fmt.Errorf("reserving PersistentVolumeClaim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	drawn, err := v.reserveDraws(owner, plans.Draws)
	if err != nil {
		return err
	}
	added := slices.DeleteFunc(slices.Clone(plans.Bound), func(pv *v1.PersistentVolume) bool {
		return v.BoundVolumes.Owns(owner, pv.UID)
	})
	if err = v.BoundVolumes.Reserve(owner, plans.Bound, sameClaim); err != nil {
		v.UndoDraws(owner, drawn)
		return fmt.Errorf("reserving PersistentVolumes: %w", err)
	}
	if err = v.PlacedClaims.Reserve(owner, plans.Placed, sameNode); err != nil {
		for _, pv := range added {
			v.BoundVolumes.Undo(owner, pv.UID)
		}
		v.UndoDraws(owner, drawn)
		return fmt.Errorf("reserving PersistentVolumeClaims: %w", err)
	}
	return nil
}

func (v *Volumes) checkBound(plan *v1.PersistentVolume) error {
	ref := plan.Spec.ClaimRef
	pv := v.Volume(plan.Name)
	switch {
	case pv == nil || pv.UID != plan.UID:
		return fmt.Errorf("it was deleted")
	case pv.Spec.ClaimRef != nil && !names(pv.Spec.ClaimRef, ref):
		return fmt.Errorf("it was bound to claim %s/%s", pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name)
	}
	claim := v.Claim(ref.Namespace, ref.Name)
	switch {
	case claim == nil || claim.UID != ref.UID:
		return fmt.Errorf("claim %s/%s was deleted", ref.Namespace, ref.Name)
	case claim.Spec.VolumeName != "" && claim.Spec.VolumeName != plan.Name:
		return fmt.Errorf("claim %s/%s was bound to PersistentVolume %s", ref.Namespace, ref.Name, claim.Spec.VolumeName)
	}
	for _, placed := range v.PlacedClaims.InFlight() {
		if placed.UID == ref.UID && placed.Annotations[storage.AnnSelectedNode] != "" {
			return fmt.Errorf("claim %s/%s is being provisioned on node %s",
				ref.Namespace, ref.Name, placed.Annotations[storage.AnnSelectedNode])
		}
	}
	return nil
}

func (v *Volumes) checkPlaced(plan *v1.PersistentVolumeClaim) error {
	claim := v.Claim(plan.Namespace, plan.Name)
	switch {
	case claim == nil || claim.UID != plan.UID:
		return fmt.Errorf("it was deleted")
	case claim.Spec.VolumeName != "":
		return fmt.Errorf("it was bound to PersistentVolume %s", claim.Spec.VolumeName)
	case claim.Annotations[storage.AnnSelectedNode] != "":
		if err := sameNode(plan, claim); err != nil {
			return err
		}
	}
	for _, bound := range v.BoundVolumes.InFlight() {
		if ref := bound.Spec.ClaimRef; ref != nil && ref.UID == plan.UID {
			return fmt.Errorf("it is being bound to PersistentVolume %s", bound.Name)
		}
	}
	return nil
}

// names says whether a claimRef stands for the claim that want names with its
// UID. One without UID was written by a user for any claim of that name.
func names(ref, want *v1.ObjectReference) bool {
	return ref.Namespace == want.Namespace && ref.Name == want.Name && (ref.UID == "" || ref.UID == want.UID)
}

// sameClaim contradicts a volume in flight for another claim, and a claim in
// flight on another volume.
func sameClaim(plan, other *v1.PersistentVolume) error {
	ref := other.Spec.ClaimRef
	switch {
	case ref == nil:
		return nil
	case plan.UID == other.UID && !names(ref, plan.Spec.ClaimRef):
		return fmt.Errorf("PersistentVolume %s is reserved for claim %s/%s", plan.Name, ref.Namespace, ref.Name)
	case plan.UID != other.UID && ref.UID == plan.Spec.ClaimRef.UID:
		return fmt.Errorf("claim %s/%s has PersistentVolume %s reserved", ref.Namespace, ref.Name, other.Name)
	}
	return nil
}

// sameNode contradicts a claim in flight on another node.
func sameNode(plan, other *v1.PersistentVolumeClaim) error {
	selected := other.Annotations[storage.AnnSelectedNode]
	if plan.UID == other.UID && selected != "" && selected != plan.Annotations[storage.AnnSelectedNode] {
		return fmt.Errorf("claim %s/%s is being provisioned on node %s", plan.Namespace, plan.Name, selected)
	}
	return nil
}
