// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

type key struct{ namespace, name string }

// shelfKey is a place for the volumes or capacities of a class.
type shelfKey struct {
	class string
	at    Place
}

// objects are Facts held in memory.
type objects struct {
	claims     map[key]*v1.PersistentVolumeClaim
	classes    map[string]*storagev1.StorageClass
	drivers    map[string]*storagev1.CSIDriver
	nodes      map[string]*v1.Node
	csiNodes   map[string]*storagev1.CSINode
	byHostname map[string][]string

	volumes      map[string]*Volume
	volumesOf    map[string][]*Volume
	volumesFor   map[key][]*Volume
	volumesAt    map[shelfKey][]*Volume
	capacitiesOf map[string][]*Capacity
	capacitiesAt map[shelfKey][]*Capacity
	drawn        map[*Capacity][]Draw
	placeKeys    []string
}

// NewFacts returns Facts that consist of the given objects, which must not be
// changed afterwards. Objects of kinds that volumes do not depend on are left
// out, so that a whole cluster can be handed over. Each object is to be given
// once.
//
// A claim that is being provisioned (it names a node and has no volume) draws its
// whole size, as nobody can tell from the objects what the driver has reported.
func NewFacts(all ...runtime.Object) Facts {
	f := &objects{
		claims:       map[key]*v1.PersistentVolumeClaim{},
		classes:      map[string]*storagev1.StorageClass{},
		drivers:      map[string]*storagev1.CSIDriver{},
		nodes:        map[string]*v1.Node{},
		csiNodes:     map[string]*storagev1.CSINode{},
		byHostname:   map[string][]string{},
		volumes:      map[string]*Volume{},
		volumesOf:    map[string][]*Volume{},
		volumesFor:   map[key][]*Volume{},
		volumesAt:    map[shelfKey][]*Volume{},
		capacitiesOf: map[string][]*Capacity{},
		capacitiesAt: map[shelfKey][]*Capacity{},
		drawn:        map[*Capacity][]Draw{},
	}
	for _, one := range all {
		switch o := one.(type) {
		case *v1.PersistentVolumeClaim:
			f.claims[key{o.Namespace, o.Name}] = o
		case *v1.PersistentVolume:
			f.addVolume(CompileVolume(o))
		case *v1.Node:
			f.nodes[o.Name] = o
			hostname := o.Labels[v1.LabelHostname]
			f.byHostname[hostname] = append(f.byHostname[hostname], o.Name)
		case *storagev1.StorageClass:
			f.classes[o.Name] = o
		case *storagev1.CSIDriver:
			f.drivers[o.Name] = o
		case *storagev1.CSINode:
			f.csiNodes[o.Name] = o
		case *storagev1.CSIStorageCapacity:
			f.addCapacity(CompileCapacity(o))
		}
	}
	f.order()
	f.draw()
	return f
}

func (f *objects) addVolume(v *Volume) {
	class := storagehelpers.GetPersistentVolumeClass(v.pv)
	f.volumes[v.pv.Name] = v
	f.volumesOf[class] = append(f.volumesOf[class], v)
	if ref := v.pv.Spec.ClaimRef; ref != nil {
		claim := key{ref.Namespace, ref.Name}
		f.volumesFor[claim] = append(f.volumesFor[claim], v)
	}
	for _, at := range v.Places() {
		k := shelfKey{class, at}
		f.volumesAt[k] = append(f.volumesAt[k], v)
		f.placeKeys = append(f.placeKeys, at.Key)
	}
}

func (f *objects) addCapacity(c *Capacity) {
	class := c.object.StorageClassName
	f.capacitiesOf[class] = append(f.capacitiesOf[class], c)
	for _, at := range c.Places() {
		k := shelfKey{class, at}
		f.capacitiesAt[k] = append(f.capacitiesAt[k], c)
		f.placeKeys = append(f.placeKeys, at.Key)
	}
}

func (f *objects) order() {
	for _, volumes := range f.volumesOf {
		slices.SortFunc(volumes, func(a, b *Volume) int { return cmp.Compare(a.pv.Name, b.pv.Name) })
	}
	for _, capacities := range f.capacitiesOf {
		slices.SortFunc(capacities, compareCapacities)
	}
	for _, nodes := range f.byHostname {
		slices.Sort(nodes)
	}
	f.placeKeys = slices.DeleteFunc(sorted(f.placeKeys), func(key string) bool { return key == "" })
}

func (f *objects) draw() {
	compareKeys := func(a, b key) int { return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name)) }
	for _, k := range slices.SortedFunc(maps.Keys(f.claims), compareKeys) {
		claim := f.claims[k]
		if claim.Spec.VolumeName != "" || claim.Annotations[storagehelpers.AnnSelectedNode] == "" {
			continue
		}
		if from := DrawsFrom(f, claim); from != nil {
			f.drawn[from] = append(f.drawn[from], DrawOf(claim))
		}
	}
}

func (f *objects) Claim(namespace, name string) *v1.PersistentVolumeClaim {
	return f.claims[key{namespace, name}]
}
func (f *objects) Class(name string) *storagev1.StorageClass { return f.classes[name] }
func (f *objects) Driver(name string) *storagev1.CSIDriver   { return f.drivers[name] }
func (f *objects) Node(name string) *v1.Node                 { return f.nodes[name] }
func (f *objects) CSINode(name string) *storagev1.CSINode    { return f.csiNodes[name] }
func (f *objects) NodesWith(hostname string) []string        { return f.byHostname[hostname] }
func (f *objects) Volume(name string) *Volume                { return f.volumes[name] }
func (f *objects) Volumes(class string) []*Volume            { return f.volumesOf[class] }
func (f *objects) VolumesFor(namespace, claim string) []*Volume {
	return f.volumesFor[key{namespace, claim}]
}

func (f *objects) VolumesAt(class string, at Place) []*Volume {
	return f.volumesAt[shelfKey{class, at}]
}
func (f *objects) Capacities(class string) []*Capacity { return f.capacitiesOf[class] }
func (f *objects) CapacitiesAt(class string, at Place) []*Capacity {
	return f.capacitiesAt[shelfKey{class, at}]
}
func (f *objects) Drawn(from *Capacity) []Draw { return f.drawn[from] }
func (f *objects) PlaceKeys() []string         { return f.placeKeys }
