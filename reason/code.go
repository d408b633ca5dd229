// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package reason

import "fmt"

// Kind says what follows from a rejection.
type Kind string

// The four kinds; see the package documentation.
const (
	DoesNotFit  Kind = "DoesNotFit"
	CannotKnow  Kind = "CannotKnow"
	BrokenInput Kind = "BrokenInput"
	OutOfBudget Kind = "OutOfBudget"
)

// Code is one reason of the closed list.
type Code string

// Reasons that concern a ResourceClaim, a DeviceClass or devices.
const (
	// ClaimNotCreated: the pod's template claim has not been generated yet.
	ClaimNotCreated Code = "ClaimNotCreated"
	// ClaimNotFound: the pod names a ResourceClaim that does not exist.
	ClaimNotFound Code = "ClaimNotFound"
	// ClaimDeleting: the ResourceClaim is being deleted.
	ClaimDeleting Code = "ClaimDeleting"
	// ClaimNotOwned: the claim was generated for another pod.
	ClaimNotOwned Code = "ClaimNotOwned"
	// ClaimFull: the claim is reserved for as many pods as the API allows.
	ClaimFull Code = "ClaimFull"
	// ClaimElsewhere: the claim is allocated and its devices cannot be reached
	// from this node.
	ClaimElsewhere Code = "ClaimElsewhere"
	// DevicesNotReady: devices of an allocated claim have failed, or their binding
	// conditions were not true in time.
	DevicesNotReady Code = "DevicesNotReady"
	// DeviceClassNotFound: a request names a DeviceClass that does not exist.
	DeviceClassNotFound Code = "DeviceClassNotFound"
	// SelectorInvalid: a CEL selector of a class or claim does not compile.
	SelectorInvalid Code = "SelectorInvalid"
	// SelectorFailed: a CEL selector failed on a device, in a request that
	// needs to know about every device.
	SelectorFailed Code = "SelectorFailed"
	// AttributeInvalid: the CEL expression of a derived attribute does not compile.
	AttributeInvalid Code = "AttributeInvalid"
	// AttributeFailed: the CEL expression of a derived attribute failed on a
	// device that a constraint asks it of.
	AttributeFailed Code = "AttributeFailed"
	// ClaimUnsupported: the claim asks for something that this version or
	// configuration does not do.
	ClaimUnsupported Code = "ClaimUnsupported"
	// ClaimTooLarge: the claim wants more devices than one claim may hold.
	ClaimTooLarge Code = "ClaimTooLarge"
	// NoDeviceOfClass: the node has no device of the class.
	NoDeviceOfClass Code = "NoDeviceOfClass"
	// NotEnoughDevices: too few devices match the request and are free.
	NotEnoughDevices Code = "NotEnoughDevices"
	// CountersShort: enough devices match and nobody holds them, but too little of
	// the shared counters that they consume is left.
	CountersShort Code = "CountersShort"
	// CountersUnknown: enough devices would do, but a device that is in use and that
	// its pool no longer shows may still consume the counters that they need.
	CountersUnknown Code = "CountersUnknown"
	// CapacityShort: enough devices match and may be shared, but too little of their
	// capacity is left.
	CapacityShort Code = "CapacityShort"
	// CapacityInvalid: the part of a device's capacity that a request would consume
	// cannot be computed, in a request that needs to know about every device.
	CapacityInvalid Code = "CapacityInvalid"
	// DevicesUnsupported: enough devices match the request and would be free, but
	// too many of them take a part of the API that is missing or switched off.
	DevicesUnsupported Code = "DevicesUnsupported"
	// ExtendedClaimLeft: the claim that an earlier attempt has made for the pod's
	// extended resources has to be deleted first.
	ExtendedClaimLeft Code = "ExtendedClaimLeft"
	// ExtendedResourceMapped: the node serves the pod's extended resources without a
	// claim, from a device plugin, but the pod's status names a ResourceClaim for them
	// already, without which the kubelet would not start it. Request is a resource.
	ExtendedResourceMapped Code = "ExtendedResourceMapped"
	// DevicesShared: each request could be met alone, not all of them together.
	DevicesShared Code = "DevicesShared"
	// DevicesNominated: the devices are free, and left for a more important pod, or
	// one that came first, which is nominated for the node. Object is that pod.
	DevicesNominated Code = "DevicesNominated"
	// NominationPending: a more important pod, or one that came first, is nominated
	// for the node, and it is not known yet who goes for it. Object is that pod.
	NominationPending Code = "NominationPending"
	// ConstraintUnmet: enough devices are free, but no choice of them satisfies
	// a constraint of the claim.
	ConstraintUnmet Code = "ConstraintUnmet"
	// PoolIncomplete: the driver is publishing the pool; some of its
	// ResourceSlices are missing.
	PoolIncomplete Code = "PoolIncomplete"
	// PoolInvalid: the ResourceSlices of a pool contradict each other or the API.
	PoolInvalid Code = "PoolInvalid"
	// SearchEnded: the search used up its budget of steps.
	SearchEnded Code = "SearchEnded"
)

// Reasons that concern a PersistentVolumeClaim, a StorageClass or volumes.
const (
	// VolumeClaimNotCreated: the claim of an ephemeral volume has not been
	// created yet.
	VolumeClaimNotCreated Code = "VolumeClaimNotCreated"
	// VolumeClaimNotFound: the pod names a PersistentVolumeClaim that does not
	// exist.
	VolumeClaimNotFound Code = "VolumeClaimNotFound"
	// VolumeClaimDeleting: the PersistentVolumeClaim is being deleted.
	VolumeClaimDeleting Code = "VolumeClaimDeleting"
	// VolumeClaimLost: the claim's volume is gone (phase Lost).
	VolumeClaimLost Code = "VolumeClaimLost"
	// VolumeClaimNotOwned: the ephemeral volume's claim belongs to another pod.
	VolumeClaimNotOwned Code = "VolumeClaimNotOwned"
	// VolumeClaimUnbound: the class binds immediately and the claim is not
	// bound yet.
	VolumeClaimUnbound Code = "VolumeClaimUnbound"
	// VolumeClaimUnsupported: the claim asks for something that this version or
	// configuration does not do.
	VolumeClaimUnsupported Code = "VolumeClaimUnsupported"
	// StorageClassNotFound: the claim's StorageClass does not exist.
	StorageClassNotFound Code = "StorageClassNotFound"
	// VolumeNotFound: the claim is bound to a PersistentVolume that does not
	// exist.
	VolumeNotFound Code = "VolumeNotFound"
	// VolumeInvalid: a PersistentVolume's node affinity cannot be followed.
	VolumeInvalid Code = "VolumeInvalid"
	// VolumeElsewhere: the claim's volume cannot be reached from this node.
	VolumeElsewhere Code = "VolumeElsewhere"
	// NoVolume: no PersistentVolume that this node can reach fits the claim,
	// and the class cannot provision one.
	NoVolume Code = "NoVolume"
	// VolumesShared: each claim would find a volume alone, not all of them
	// together.
	VolumesShared Code = "VolumesShared"
	// TopologyNotAllowed: the class does not provision in this node's topology.
	TopologyNotAllowed Code = "TopologyNotAllowed"
	// NotEnoughStorage: the driver reports too little capacity for this node.
	NotEnoughStorage Code = "NotEnoughStorage"
	// SelectedNodeElsewhere: the claim is being provisioned for another node.
	SelectedNodeElsewhere Code = "SelectedNodeElsewhere"
	// SelectedNodeGone: the claim is being provisioned for a node that does not
	// exist.
	SelectedNodeGone Code = "SelectedNodeGone"
	// NodeRefused: the claim's provisioner has refused this node lately, and other
	// nodes are tried first.
	NodeRefused Code = "NodeRefused"
)

type entry struct {
	kind   Kind
	status string
	// evictable: pods that end can make room for the pod that was refused.
	evictable bool
}

// The closed list. A status line has no value that differs between nodes.
var entries = map[Code]entry{
	ClaimNotCreated:        {CannotKnow, "waiting for a ResourceClaim to be created from its template", false},
	ClaimNotFound:          {CannotKnow, "ResourceClaim not found", false},
	ClaimDeleting:          {CannotKnow, "ResourceClaim is being deleted", false},
	ClaimNotOwned:          {BrokenInput, "ResourceClaim was created for another pod", false},
	ClaimFull:              {DoesNotFit, "ResourceClaim is already reserved for the most pods it may have", false},
	ClaimElsewhere:         {DoesNotFit, "allocated ResourceClaim is not available on the node", false},
	DevicesNotReady:        {CannotKnow, "devices of an allocated ResourceClaim did not become ready", false},
	DeviceClassNotFound:    {CannotKnow, "DeviceClass not found", false},
	SelectorInvalid:        {BrokenInput, "a device selector does not compile", false},
	SelectorFailed:         {BrokenInput, "a device selector failed on a device of the node", false},
	AttributeInvalid:       {BrokenInput, "a derived attribute does not compile", false},
	AttributeFailed:        {BrokenInput, "a derived attribute failed on a device of the node", false},
	ClaimUnsupported:       {BrokenInput, "ResourceClaim asks for something that is not supported", false},
	ClaimTooLarge:          {BrokenInput, "ResourceClaim wants more devices than a claim may hold", false},
	NoDeviceOfClass:        {DoesNotFit, "no device of the DeviceClass", false},
	NotEnoughDevices:       {DoesNotFit, "not enough free devices", true},
	CountersShort:          {DoesNotFit, "not enough of the shared counters of devices is left", true},
	CountersUnknown:        {CannotKnow, "a device in use that its driver no longer publishes may still consume shared counters", false},
	CapacityShort:          {DoesNotFit, "not enough capacity of devices that may be shared is left", true},
	CapacityInvalid:        {BrokenInput, "the capacity that a request would consume cannot be computed", false},
	DevicesUnsupported:     {DoesNotFit, "devices of the class need something that is not supported", false},
	ExtendedClaimLeft:      {CannotKnow, "waiting for the ResourceClaim for extended resources of an earlier attempt to be deleted", false},
	ExtendedResourceMapped: {DoesNotFit, "a device plugin cannot serve extended resources of a pod that was mapped to a ResourceClaim", false},
	DevicesShared:          {DoesNotFit, "not enough free devices for all requests together", true},
	DevicesNominated:       {DoesNotFit, "free devices are kept for a pod that is nominated for the node", true},
	NominationPending:      {CannotKnow, "others are about to be evicted for a pod that is nominated for the node", false},
	ConstraintUnmet:        {DoesNotFit, "free devices do not satisfy a constraint", true},
	PoolIncomplete:         {CannotKnow, "a pool of devices is being updated by its driver", false},
	PoolInvalid:            {BrokenInput, "a pool of devices is invalid", false},
	SearchEnded:            {OutOfBudget, "the search for devices used up its budget", false},

	VolumeClaimNotCreated:  {CannotKnow, "waiting for the PersistentVolumeClaim of an ephemeral volume to be created", false},
	VolumeClaimNotFound:    {CannotKnow, "PersistentVolumeClaim not found", false},
	VolumeClaimDeleting:    {CannotKnow, "PersistentVolumeClaim is being deleted", false},
	VolumeClaimLost:        {BrokenInput, "PersistentVolumeClaim has lost its volume", false},
	VolumeClaimNotOwned:    {BrokenInput, "PersistentVolumeClaim of an ephemeral volume belongs to another pod", false},
	VolumeClaimUnbound:     {CannotKnow, "waiting for the PersistentVolumeClaim to be bound", false},
	VolumeClaimUnsupported: {BrokenInput, "PersistentVolumeClaim asks for something that is not supported", false},
	StorageClassNotFound:   {CannotKnow, "StorageClass not found", false},
	VolumeNotFound:         {CannotKnow, "bound PersistentVolume not found", false},
	VolumeInvalid:          {BrokenInput, "a PersistentVolume has a node affinity that cannot be followed", false},
	VolumeElsewhere:        {DoesNotFit, "PersistentVolume cannot be reached from the node", false},
	NoVolume:               {DoesNotFit, "no PersistentVolume fits the claim", false},
	VolumesShared:          {DoesNotFit, "not enough PersistentVolumes for all claims together", false},
	TopologyNotAllowed:     {DoesNotFit, "StorageClass does not provision in the node's topology", false},
	NotEnoughStorage:       {DoesNotFit, "not enough free storage", false},
	SelectedNodeElsewhere:  {DoesNotFit, "PersistentVolumeClaim is being provisioned for another node", false},
	SelectedNodeGone:       {CannotKnow, "PersistentVolumeClaim is pinned to a node that does not exist", false},
	NodeRefused:            {CannotKnow, "the provisioner refused the node for a PersistentVolumeClaim", false},
}

// Kind returns the kind of the code. It panics on a code that is not in the
// list, which only a bug in Berth can make.
func (c Code) Kind() Kind { return c.entry().kind }

// Evictable says whether pods that end could cure the reason: they give back
// devices. They do not give back storage, which belongs to their claims.
func (c Code) Evictable() bool { return c.entry().evictable }

func (c Code) status() string { return c.entry().status }

func (c Code) entry() entry {
	e, ok := entries[c]
	if !ok {
		panic(fmt.Sprintf("reason: code %q is not in the closed list", string(c)))
	}
	return e
}
