// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
)

// The types are upstream's own, so values pass freely between code that imports
// the one package and code that imports the other.
type (
	Allocator                  = structured.Allocator
	AllocatedState             = structured.AllocatedState
	ConsumedCapacity           = structured.ConsumedCapacity
	ConsumedCapacityCollection = structured.ConsumedCapacityCollection
	DeviceClassLister          = structured.DeviceClassLister
	DeviceConsumedCapacity     = structured.DeviceConsumedCapacity
	DeviceID                   = structured.DeviceID
	Features                   = structured.Features
	SharedDeviceID             = structured.SharedDeviceID
)

// ErrFailedAllocationOnNode is wrapped by errors of Allocate that concern the one
// node only. It has no text.
var ErrFailedAllocationOnNode = structured.ErrFailedAllocationOnNode

// MakeDeviceID names a device.
func MakeDeviceID(driver, pool, device string) DeviceID {
	return structured.MakeDeviceID(driver, pool, device)
}

// MakeSharedDeviceID names one share of a device. A nil share ID is the empty one.
func MakeSharedDeviceID(device DeviceID, share *types.UID) SharedDeviceID {
	return structured.MakeSharedDeviceID(device, share)
}

// NewConsumedCapacityCollection makes an empty collection.
func NewConsumedCapacityCollection() ConsumedCapacityCollection {
	return structured.NewConsumedCapacityCollection()
}

// NewDeviceConsumedCapacity pairs a device with what is consumed of it. The map is
// not kept.
func NewDeviceConsumedCapacity(device DeviceID, consumed map[resourceapi.QualifiedName]resource.Quantity) DeviceConsumedCapacity {
	return structured.NewDeviceConsumedCapacity(device, consumed)
}

// IsDeviceAllocated says whether the device, or a share of it, is allocated.
func IsDeviceAllocated(device DeviceID, state *AllocatedState) bool {
	return structured.IsDeviceAllocated(device, state)
}

// NodeMatches says whether node is the one of that name or, if the name is empty,
// any node at all or one that the selector selects. The error is that of a selector
// that cannot be parsed.
func NodeMatches(features Features, node *v1.Node, name string, all bool, selector *v1.NodeSelector) (bool, error) {
	return structured.NodeMatches(features, node, name, all, selector)
}
