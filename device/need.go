// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"math/bits"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// needs are the parts of the API that using a device takes. A device is not used
// while one of them is missing.
type needs uint16

const (
	needCounters needs = 1 << iota
	needSharing
	needBinding
	needAllocatable
	needOperations
	needDeclared
	needOwnNodes
	needGroups
	needCounting
)

// needTexts say why devices are refused, in words for one and for several, and what
// they do, each with what is missing.
var needTexts = [...]struct{ because, they, missing string }{
	{"shared counters", "consume shared counters", "feature gate DRAPartitionableDevices is off"},
	{"multiple allocations", "allow multiple allocations", "feature gate DRAConsumableCapacity is off"},
	{"binding conditions", "have binding conditions", "feature gate DRADeviceBindingConditions is off"},
	{"allocatable resources of the node", "map to allocatable resources of the node", "which nobody accounts for here"},
	{"skipped operations of the node", "skip operations of the node", "feature gate DRAOptionalNodeOperations is off"},
	{"skipped operations of the node", "skip operations of the node", "the node does not declare the feature DRAOptionalNodeOperations"},
	{"nodes of its own", "select their nodes by themselves", "feature gate DRAPartitionableDevices is off"},
	{"compatibility groups in the pool", "are in a pool with compatibility groups", "feature gate DRADeviceCompatibilityGroups is off"},
	{"a capacity", "have a capacity", "which cannot be counted exactly"},
}

func (n needs) why() string {
	text := &needTexts[bits.TrailingZeros16(uint16(n))]
	return text.because + " (" + text.missing + ")"
}

func (n needs) they() string {
	text := &needTexts[bits.TrailingZeros16(uint16(n))]
	return text.they + " (" + text.missing + ")"
}

// needsOf are the parts that a device takes.
func needsOf(d *resourceapi.Device, s *resourceapi.ResourceSlice) needs {
	var n needs
	if len(d.ConsumesCounters) > 0 {
		n |= needCounters
	}
	if ptr.Deref(d.AllowMultipleAllocations, false) {
		n |= needSharing
	}
	if len(d.BindingConditions) > 0 {
		n |= needBinding
	}
	if len(d.NodeAllocatableResources) > 0 {
		n |= needAllocatable
	}
	if len(s.Spec.SkipNodeOperations) > 0 {
		n |= needOperations | needDeclared
	}
	if ptr.Deref(s.Spec.PerDeviceNodeSelection, false) {
		n |= needOwnNodes
	}
	return n
}

// missing are the parts that are switched off.
func (f Features) missing() needs {
	n := needCounting
	for part, on := range map[needs]bool{
		needCounters | needOwnNodes: f.PartitionableDevices,
		needSharing:                 f.ConsumableCapacity,
		needBinding:                 f.DeviceBindingConditions,
		needAllocatable:             f.NodeAllocatableResources,
		needOperations:              f.OptionalNodeOperations,
		needGroups:                  f.DeviceCompatibilityGroups,
	} {
		if !on {
			n |= part
		}
	}
	return n
}

// SkipsOperations says whether devices of an allocation skip operations of their
// node. Only a node with [Handles] may use them.
func SkipsOperations(allocation *resourceapi.AllocationResult) bool {
	return slices.ContainsFunc(allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return len(r.SkipNodeOperations) > 0
	})
}

// Handles says whether a node declares that it knows of devices which skip its
// operations (NodeStatus.DeclaredFeatures).
func Handles(node *v1.Node) bool { return undeclared(node) == 0 }

// undeclared are the parts that the node does not take part in
// (NodeStatus.DeclaredFeatures).
func undeclared(node *v1.Node) needs {
	if slices.Contains(node.Status.DeclaredFeatures, "DRAOptionalNodeOperations") {
		return 0
	}
	return needDeclared
}
