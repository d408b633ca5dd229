// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// Features are the switches of the optional parts of dynamic resource
// allocation, named as the feature gates of Kubernetes without the prefix "DRA".
// The zero value has everything off.
//
// A claim or device that needs a part which is off, or which this version does
// not have, is refused and the refusal names the part. Nothing is done by half.
// A switch that is on does not add a part that this version lacks.
type Features struct {
	AdminAccess     bool
	PrioritizedList bool
	// PartitionableDevices also allows slices that select nodes per device.
	PartitionableDevices bool
	// ConsumableCapacity also lets selectors read device.allowMultipleAllocations.
	ConsumableCapacity      bool
	FractionalCapacityRange bool
	// DeviceTaints makes taints count. While it is off they keep nobody away.
	DeviceTaints            bool
	DeviceBindingConditions bool
	// ListTypeAttributes also lets selectors read lists.
	ListTypeAttributes        bool
	DerivedAttributes         bool
	DeviceCompatibilityGroups bool
	OptionalNodeOperations    bool
	// NodeAllocatableResources is for a caller that counts what devices take from
	// the allocatable resources of their node. The engine does not.
	NodeAllocatableResources bool
}
