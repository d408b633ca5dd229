// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/cmd/internal/simulate"
	"github.com/berth-scheduler/berth/reason"
)

// waitsForWhole says what can undo the refusal of the pod as a whole.
func (r *Report) waitsForWhole(refusal *simulate.Refusal) []string {
	var all []string
	for _, claim := range r.Claims {
		switch {
		case claim.TemplateMissing:
			all = append(all, fmt.Sprintf("ResourceClaimTemplate %s/%s to be created", r.Pod.Namespace, claim.Template))
		case claim.Missing && claim.Template != "":
			all = append(all, fmt.Sprintf("claim %q to be created from ResourceClaimTemplate %s/%s", claim.Name, r.Pod.Namespace, claim.Template))
		case claim.Missing:
			all = append(all, "ResourceClaim "+claim.Claim.String()+" to be created")
		}
	}
	for _, volume := range r.Volumes {
		if volume.Missing {
			all = append(all, "PersistentVolumeClaim "+volume.Claim.String()+" to be created")
		}
	}
	if len(all) > 0 || refusal.Rejection == nil {
		return all
	}
	var changes wishes
	for _, one := range refusal.Rejection.All() {
		changes.add(one)
	}
	if never := changes.never(); len(never) > 0 {
		return never
	}
	return changes.texts()
}

// waitsFor says what can undo the refusals of the nodes: first what happens by
// itself, then what somebody has to add or correct.
func waitsFor(nodes []simulate.Node) []string {
	var all, ending []string
	var changes wishes
	others := false
	for _, node := range nodes {
		if frees(node) {
			ending = append(ending, node.Name)
		}
		others = others || node.Refusal.Rejection == nil && hasClaims(node)
		for _, one := range refusals(node) {
			changes.add(one)
		}
	}
	if len(ending) > 0 {
		all = append(all, "a pod that holds devices on "+some(ending, 3)+" to end")
	}
	all = append(all, changes.texts()...)
	if others {
		all = append(all, "a change of the nodes, or of the pods on them")
	}
	if len(all) == 0 {
		all = changes.never()
	}
	if len(all) == 0 && len(nodes) > 0 {
		all = append(all, "a change of the nodes, or of the pods on them")
	}
	return all
}

// refusals are what our plugins say against the node, whoever refused it first.
func refusals(node simulate.Node) []*reason.Rejection {
	if r := node.Refusal.Rejection; r != nil {
		return r.All()
	}
	var all []*reason.Rejection
	for _, r := range []*reason.Rejection{node.Devices, node.Volumes} {
		if r != nil {
			all = append(all, r.All()...)
		}
	}
	return all
}

// frees says whether pods that end can give the node all that it lacks.
func frees(node simulate.Node) bool {
	r := node.Refusal.Rejection
	if r == nil || node.NeverFits || node.Volumes != nil {
		return false
	}
	return !slices.ContainsFunc(r.All(), func(one *reason.Rejection) bool {
		f := one.Facts
		d := f.Devices
		if !one.Code.Evictable() || d == nil || len(d.Held) == 0 || f.Wanted == nil || tooFewExist(one) {
			return true
		}
		return one.Code == reason.NotEnoughDevices && int64(d.Free+len(d.Held)) < f.Wanted.Value()
	})
}

// change is what has to happen for the rejection to go away.
func change(r *reason.Rejection) string {
	f := r.Facts
	switch r.Code {
	case reason.NoDeviceOfClass, reason.NotEnoughDevices, reason.DevicesShared, reason.ConstraintUnmet:
		if f.Class == "" {
			return "a node with more devices"
		}
		if selectorsFail(r) {
			return fmt.Sprintf("a device of class %s on which the selectors of request %q do not fail", f.Class, r.Request)
		}
		if noneMatches(r) {
			return fmt.Sprintf("a device of class %s that the selectors of request %q accept", f.Class, r.Request)
		}
		if f.Wanted == nil {
			return "a node with devices of class " + f.Class
		}
		text := fmt.Sprintf("a node with %s free × %s", f.Wanted, f.Class)
		if f.Attribute != "" {
			text += " on one " + f.Attribute
		}
		return text
	case reason.DevicesNominated, reason.NominationPending:
		return "pod " + f.Object.String() + " to be placed"
	case reason.ExtendedClaimLeft:
		return "claim " + r.Claim.String() + " to be deleted, which the scheduler does"
	case reason.ExtendedResourceMapped:
		return "a node that serves " + r.Request + " by DRA, or for the pod to be created anew"
	case reason.PoolIncomplete:
		return "driver " + strings.Split(f.Object.Name, "/")[0] + " to publish the rest of its pool"
	case reason.ClaimDeleting, reason.VolumeClaimDeleting:
		return r.Claim.Kind + " " + r.Claim.String() + " to be gone and created again"
	case reason.ClaimFull:
		return "a pod that uses claim " + r.Claim.String() + " to end"
	case reason.ClaimElsewhere:
		return "claim " + r.Claim.String() + " to be released, or room on the nodes that reach its devices"
	case reason.DevicesNotReady:
		return "claim " + r.Claim.String() + " to get other devices, or its devices to become ready"
	case reason.DeviceClassNotFound:
		return "DeviceClass " + f.Class + " to be created"
	case reason.StorageClassNotFound:
		return "StorageClass " + f.Class + " to be created"
	case reason.VolumeNotFound:
		return "the PersistentVolume of claim " + r.Claim.String() + " to be created"
	case reason.VolumeElsewhere:
		return "room on the nodes that reach the volume of claim " + r.Claim.String()
	case reason.VolumeClaimUnbound:
		return "claim " + r.Claim.String() + " to be bound"
	case reason.NoVolume, reason.VolumesShared:
		if f.Class == "" {
			return "a PersistentVolume that fits"
		}
		return "a free PersistentVolume of class " + f.Class + " that fits claim " + r.Claim.String()
	case reason.NotEnoughStorage:
		if f.Limit != nil && f.Wanted != nil {
			return fmt.Sprintf("class %s to have volumes as large as %s", f.Class, f.Wanted)
		}
		return "free storage of class " + f.Class
	case reason.SelectedNodeElsewhere, reason.SelectedNodeGone:
		return "claim " + r.Claim.String() + " to be provisioned, or given back by its driver"
	case reason.NodeRefused:
		return "the provisioner of claim " + r.Claim.String() + " to be asked again"
	case reason.SearchEnded:
		return "any change that makes the search smaller"
	}
	if r.Kind() == reason.BrokenInput {
		return "what is wrong to be corrected"
	}
	return ""
}
