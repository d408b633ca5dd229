// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/reason"
)

// Draw is what a claim takes, or will take, from a CSIStorageCapacity that does
// not show it yet: the driver is about to make its volume, or has made it and
// not reported since. Who draws how much is decided by the caller.
type Draw struct {
	// Claim is the PersistentVolumeClaim, UID its UID.
	Claim reason.Ref
	UID   types.UID
	// Size is what is not shown yet, in bytes.
	Size resource.Quantity
}

// DrawOf returns the draw of a claim that nothing has been reported of.
func DrawOf(claim *v1.PersistentVolumeClaim) Draw {
	return Draw{Claim: claimRef(claim.Namespace, claim.Name), UID: claim.UID, Size: storageRequest(claim)}
}

// without returns the draws but that of one claim.
func without(drawn []Draw, claim *v1.PersistentVolumeClaim) []Draw {
	own := func(d Draw) bool { return d.UID == claim.UID && d.Claim == claimRef(claim.Namespace, claim.Name) }
	if !slices.ContainsFunc(drawn, own) {
		return drawn
	}
	return slices.DeleteFunc(slices.Clone(drawn), own)
}

// less returns what is left of a total, at least nothing: an object may have
// fallen below what is drawn.
func less(total *resource.Quantity, drawn []Draw) *resource.Quantity {
	left := total.DeepCopy()
	for i := range drawn {
		left.Sub(drawn[i].Size)
	}
	if left.Sign() < 0 {
		left = resource.Quantity{Format: total.Format}
	}
	return &left
}
