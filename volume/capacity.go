// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// Capacity is a CSIStorageCapacity whose node topology has been parsed. It is
// immutable and safe to share; one is made per object, not per pod or node.
type Capacity struct {
	object  *storagev1.CSIStorageCapacity
	nodes   *topology
	segment string
}

// CompileCapacity prepares a CSIStorageCapacity for use in Facts. The object is
// kept and must not be changed afterwards. It never fails: one without a node
// topology, or with one that cannot be followed, is storage that no node
// reaches.
func CompileCapacity(object *storagev1.CSIStorageCapacity) *Capacity {
	nodes := capacityTopology(object.NodeTopology)
	return &Capacity{
		object: object, nodes: nodes,
		segment: object.StorageClassName + " " + metav1.FormatLabelSelector(object.NodeTopology),
	}
}

// Segment names the storage that the object stands for: its class and where it
// can be reached from. A driver that replaces the object by another for the same
// storage keeps the segment.
func (c *Capacity) Segment() string { return c.segment }

// Object returns the object that the capacity was compiled from. It is shared
// and must not be changed.
func (c *Capacity) Object() *storagev1.CSIStorageCapacity { return c.object }

func capacityTopology(selector *metav1.LabelSelector) *topology {
	if selector == nil {
		return nowhere
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nowhere
	}
	requirements, _ := parsed.Requirements()
	if len(requirements) == 0 {
		return nil
	}
	return &topology{terms: [][]labels.Requirement{requirements}}
}

func compareCapacities(a, b *Capacity) int {
	return cmp.Or(cmp.Compare(a.object.Namespace, b.object.Namespace), cmp.Compare(a.object.Name, b.object.Name))
}

// Places returns the places under which a node is to look for the capacity (see
// Facts.CapacitiesAt).
func (c *Capacity) Places() []Place { return c.nodes.places() }

// most is the size of the largest claim that the driver can make a volume for,
// nil if it reports neither number, which means that nothing is known to be there
// (Go doc of CSIStorageCapacity).
func (c *Capacity) most() *resource.Quantity {
	total, largest := c.object.Capacity, c.object.MaximumVolumeSize
	if total == nil || largest != nil && largest.Cmp(*total) < 0 {
		return largest
	}
	return total
}

// reports says whether the driver reports its capacity (KEP-1472).
func reports(driver *storagev1.CSIDriver) bool {
	return driver != nil && ptr.Deref(driver.Spec.StorageCapacity, false)
}

// capacitiesOn returns the capacities of the class that the node reaches, ordered
// by namespace and name.
func capacitiesOn(facts Facts, class string, node labels.Set, keys []string) []*Capacity {
	var reached []*Capacity
	for at := range placesOf(node, keys) {
		for _, c := range facts.CapacitiesAt(class, at) {
			if c.nodes.has(node) {
				reached = append(reached, c)
			}
		}
	}
	slices.SortFunc(reached, compareCapacities)
	return reached
}

// DrawsFrom returns the capacity that a claim draws from which is being
// provisioned, for those who were not there when it was chosen: the first that
// its selected node reaches and that can have room for it. It is nil if there is
// none, or if something that it depends on does not exist yet.
func DrawsFrom(facts Facts, claim *v1.PersistentVolumeClaim) *Capacity {
	class := facts.Class(storagehelpers.GetPersistentVolumeClaimClass(claim))
	node := facts.Node(claim.Annotations[storagehelpers.AnnSelectedNode])
	if class == nil || node == nil || !reports(facts.Driver(class.Provisioner)) {
		return nil
	}
	wanted := storageRequest(claim)
	for _, c := range capacitiesOn(facts, class.Name, node.Labels, facts.PlaceKeys()) {
		if most := c.most(); most != nil && most.Cmp(wanted) >= 0 {
			return c
		}
	}
	return nil
}

func storageRequest(claim *v1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[v1.ResourceStorage]
}
