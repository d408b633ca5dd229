// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Facts is what Compile looks things up in: a picture of the cluster that does
// not change while it is used. A method that looks up one object returns nil
// when there is none. Everything returned is shared and must not be changed.
// Implementations must allow concurrent calls.
//
// Volumes and capacities are asked for by [Place], so that a node costs the same
// however many other nodes there are. The lists need no order where none is named.
type Facts interface {
	// Claim returns the PersistentVolumeClaim of that name.
	Claim(namespace, name string) *v1.PersistentVolumeClaim
	// Class returns the StorageClass of that name.
	Class(name string) *storagev1.StorageClass
	// Driver returns the CSIDriver of that name, which is the provisioner of
	// its classes.
	Driver(name string) *storagev1.CSIDriver
	// Node returns the Node of that name.
	Node(name string) *v1.Node
	// CSINode returns the CSINode of the node of that name.
	CSINode(name string) *storagev1.CSINode
	// NodesWith returns the names of the nodes with that value of the label
	// kubernetes.io/hostname, in order.
	NodesWith(hostname string) []string

	// Volume returns the PersistentVolume of that name.
	Volume(name string) *Volume
	// VolumesFor returns the PersistentVolumes whose spec.claimRef names the
	// claim, whatever its UID.
	VolumesFor(namespace, claim string) []*Volume
	// VolumesAt returns the PersistentVolumes of the class that have the place
	// among their Places, and perhaps more that are of no use to a claim.
	VolumesAt(class string, at Place) []*Volume
	// Volumes returns all PersistentVolumes of the class, bound ones too,
	// ordered by name. It is called to explain and to verify only.
	Volumes(class string) []*Volume

	// CapacitiesAt returns the CSIStorageCapacity objects of the class that have
	// the place among their Places.
	CapacitiesAt(class string, at Place) []*Capacity
	// Capacities returns all CSIStorageCapacity objects of the class, ordered by
	// namespace and name. It is called to explain only.
	Capacities(class string) []*Capacity
	// Drawn returns what claims take from the capacity that it does not show yet,
	// the oldest draw first.
	Drawn(from *Capacity) []Draw

	// PlaceKeys returns the keys of all Places in use, and perhaps more.
	PlaceKeys() []string
}
