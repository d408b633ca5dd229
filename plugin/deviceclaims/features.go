// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/internal/gate"
)

// features are the component's feature gates that matter here.
type features struct {
	device device.Features
	// podGroupClaims: claims may belong to a PodGroup.
	podGroupClaims bool
	// deferredResize: a running pod may pass through the scheduler to be resized.
	deferredResize bool
}

// componentFeatures reads the gates by name.
func componentFeatures() features {
	on := gate.Enabled
	return features{
		device: device.Features{
			AdminAccess:               on("DRAAdminAccess"),
			PrioritizedList:           on("DRAPrioritizedList"),
			PartitionableDevices:      on("DRAPartitionableDevices"),
			ConsumableCapacity:        on("DRAConsumableCapacity"),
			FractionalCapacityRange:   on("DRAFractionalCapacityRange"),
			DeviceTaints:              on("DRADeviceTaints"),
			DeviceBindingConditions:   on("DRADeviceBindingConditions") && on("DRAResourceClaimDeviceStatus"),
			ListTypeAttributes:        on("DRAListTypeAttributes"),
			DerivedAttributes:         on("DRADerivedAttributes"),
			DeviceCompatibilityGroups: on("DRADeviceCompatibilityGroups"),
			OptionalNodeOperations:    on("DRAOptionalNodeOperations"),
			// The scheduler counts what devices take from their node in state of its
			// own, which a plugin from outside cannot supply.
			NodeAllocatableResources: false,
		},
		podGroupClaims: on("DRAWorkloadResourceClaims"),
		deferredResize: on(gate.DeferredResize),
	}
}
