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

// Use is how much of the storage of one class a plan uses, in bytes. It is what
// a score is computed from: Wanted divided by Offered is between 0 and 1.
type Use struct {
	// Class is the name of the StorageClass.
	Class string
	// Wanted is the sum of the sizes of the claims.
	Wanted resource.Quantity
	// Offered is the sum of the sizes of their volumes (static), or what is left
	// for them in the reported capacity before they draw from it (dynamic). It is
	// never zero.
	Offered resource.Quantity
}

// StaticUse returns how well the existing volumes that the plan chooses fit,
// ordered by class.
func (p Plan) StaticUse() []Use {
	var uses []Use
	for _, b := range p.bindings {
		use := useOf(&uses, b.Claim)
		use.Wanted.Add(storageRequest(b.Claim))
		use.Offered.Add(b.Volume.Spec.Capacity[v1.ResourceStorage])
	}
	return inOrder(uses)
}

// DynamicUse returns how much of the reported capacity the plan uses, ordered by
// class. Claims whose capacity is not reported, or has no total, are left out.
func (p Plan) DynamicUse() []Use {
	var uses []Use
	for i, d := range p.provisions {
		if d.Capacity == nil || d.Offered == nil {
			continue
		}
		use := useOf(&uses, d.Claim)
		use.Wanted.Add(storageRequest(d.Claim))
		counted := slices.ContainsFunc(p.provisions[:i], func(other Provision) bool { return other.Capacity == d.Capacity })
		if !counted {
			use.Offered.Add(*d.Offered)
		}
	}
	return inOrder(uses)
}

// useOf returns the entry of the claim's class.
func useOf(uses *[]Use, claim *v1.PersistentVolumeClaim) *Use {
	class := storagehelpers.GetPersistentVolumeClaimClass(claim)
	i := slices.IndexFunc(*uses, func(u Use) bool { return u.Class == class })
	if i < 0 {
		i = len(*uses)
		*uses = append(*uses, Use{Class: class})
	}
	return &(*uses)[i]
}

func inOrder(uses []Use) []Use {
	uses = slices.DeleteFunc(uses, func(u Use) bool { return u.Offered.IsZero() })
	slices.SortFunc(uses, func(a, b Use) int { return cmp.Compare(a.Class, b.Class) })
	return uses
}
