// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/device"
)

// question is what a pod asks of every node: its claims, with the classes that they
// name, compiled. It is immutable.
type question struct {
	features Features
	claims   []*resourceapi.ResourceClaim
	classes  []*resourceapi.DeviceClass
	problem  *device.Problem
	// numbered: names were changed, see unambiguous.
	numbered bool
}

func (q *question) class(name string) *resourceapi.DeviceClass {
	for _, class := range q.classes {
		if class.Name == name {
			return class
		}
	}
	return nil
}

// newQuestion compiles the claims. Its errors hold for every node.
func newQuestion(claims []*resourceapi.ResourceClaim, f Features, lister DeviceClassLister, selectors *device.Selectors) (*question, error) {
	q := &question{features: f, claims: slices.Clone(claims)}
	check := checker{question: q, lister: lister}
	for _, claim := range claims {
		if err := check.claim(claim); err != nil {
			return nil, err
		}
	}
	open := unambiguous(claims)
	q.numbered = !slices.Equal(open, claims)
	problem, refused := device.Compile(open, q.class, device.Options{
		Features: featuresOf(f), Strategy: device.InOrder, Selectors: selectors,
	})
	if refused != nil {
		return nil, q.invalid(refused)
	}
	q.problem = problem
	return q, nil
}

// is says whether the very same objects are asked about.
func (q *question) is(claims []*resourceapi.ResourceClaim, f Features, lister DeviceClassLister) bool {
	if q.features != f || !slices.Equal(q.claims, claims) {
		return false
	}
	for _, class := range q.classes {
		if now, err := lister.Get(class.Name); err != nil || now != class {
			return false
		}
	}
	return true
}

func featuresOf(f Features) device.Features {
	return device.Features{
		AdminAccess:               f.AdminAccess,
		PrioritizedList:           f.PrioritizedList,
		PartitionableDevices:      f.PartitionableDevices,
		ConsumableCapacity:        f.ConsumableCapacity,
		FractionalCapacityRange:   f.FractionalCapacityRange,
		DeviceTaints:              f.DeviceTaints,
		DeviceBindingConditions:   f.DeviceBindingAndStatus,
		ListTypeAttributes:        f.ListTypeAttributes,
		DerivedAttributes:         f.DerivedAttributes,
		DeviceCompatibilityGroups: f.CompatibilityGroups,
		OptionalNodeOperations:    f.OptionalNodeOperations,
		// The scheduler accounts for resources of the node, not the allocator.
		NodeAllocatableResources: true,
	}
}
