// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/internal/ledger"
	"github.com/berth-scheduler/berth/volume"
)

// VolumeView implements volume.Facts for one scheduling cycle: what the stores
// hold, with what is planned or written laid over it. Safe for concurrent use.
type VolumeView struct {
	stores       *Volumes
	boundVolumes map[types.UID]*v1.PersistentVolume
	placedClaims map[types.UID]*v1.PersistentVolumeClaim
}

var _ volume.Facts = (*VolumeView)(nil)

// View returns the facts for one scheduling cycle. The ledgers are read first:
// an object that goes from a ledger to its store in between is then seen twice
// rather than not at all.
func (v *Volumes) View() *VolumeView {
	view := &VolumeView{
		stores:       v,
		boundVolumes: byUID(v.BoundVolumes.InFlight()),
		placedClaims: byUID(v.PlacedClaims.InFlight()),
	}
	v.adoptions.adopt(view)
	v.compiledVolumes.sweep(v.volumes)
	v.compiledCapacities.sweep(v.capacities)
	return view
}

// Claim returns the claim of that name as it is planned, written or stored.
func (f *VolumeView) Claim(namespace, name string) *v1.PersistentVolumeClaim {
	stored := f.stores.Claim(namespace, name)
	if stored == nil || stored.Spec.VolumeName != "" {
		// Where a bound claim was to be provisioned no longer matters.
		return stored
	}
	return overlay(stored, f.placedClaims, f.stores.PlacedClaims, func() *v1.PersistentVolumeClaim {
		return f.stores.Claim(namespace, name)
	})
}

// Volume returns the volume of that name as it is planned, written or stored.
func (f *VolumeView) Volume(name string) *volume.Volume {
	stored := f.stores.Volume(name)
	if stored == nil {
		return nil
	}
	return f.compile(stored)
}

// VolumesFor returns the volumes that name the claim, whatever its UID.
func (f *VolumeView) VolumesFor(namespace, claim string) []*volume.Volume {
	name := cache.ObjectName{Namespace: namespace, Name: claim}
	volumes := f.volumes(byClaimRef, name.String())
	for _, planned := range f.boundVolumes {
		ref := planned.Spec.ClaimRef
		if ref == nil || ref.Namespace != namespace || ref.Name != claim {
			continue
		}
		// The store may not show yet whose the volume is to be.
		one := f.Volume(planned.Name)
		if one != nil && !slices.Contains(volumes, one) {
			volumes = append(volumes, one)
		}
	}
	return volumes
}

// VolumesAt returns the volumes of the class at the place. What is planned or
// written may hold some of them.
func (f *VolumeView) VolumesAt(class string, at volume.Place) []*volume.Volume {
	return f.volumes(byPlace, placeValue(class, at))
}

// Volumes returns the volumes of the class, ordered by name.
func (f *VolumeView) Volumes(class string) []*volume.Volume {
	volumes := f.volumes(byClass, class)
	slices.SortFunc(volumes, func(a, b *volume.Volume) int { return cmp.Compare(a.PV().Name, b.PV().Name) })
	return volumes
}

func (f *VolumeView) volumes(index, value string) []*volume.Volume {
	// The index exists, see Volumes.index.
	stored, _ := f.stores.volumes.ByIndex(index, value)
	if len(stored) == 0 {
		return nil
	}
	compiled := make([]*volume.Volume, 0, len(stored))
	for _, obj := range stored {
		if one := f.compile(obj.(*v1.PersistentVolume)); one != nil {
			compiled = append(compiled, one)
		}
	}
	return compiled
}

// CapacitiesAt returns the capacity objects of the class at the place.
func (f *VolumeView) CapacitiesAt(class string, at volume.Place) []*volume.Capacity {
	return f.capacities(byPlace, placeValue(class, at))
}

// Capacities returns the capacity objects of the class, ordered by namespace
// and name.
func (f *VolumeView) Capacities(class string) []*volume.Capacity {
	capacities := f.capacities(byClass, class)
	slices.SortFunc(capacities, func(a, b *volume.Capacity) int {
		return cmp.Or(
			cmp.Compare(a.Object().Namespace, b.Object().Namespace),
			cmp.Compare(a.Object().Name, b.Object().Name))
	})
	return capacities
}

func (f *VolumeView) capacities(index, value string) []*volume.Capacity {
	stored, _ := f.stores.capacities.ByIndex(index, value)
	if len(stored) == 0 {
		return nil
	}
	compiled := make([]*volume.Capacity, len(stored))
	for i, obj := range stored {
		compiled[i] = f.stores.compiledCapacities.get(obj.(*storagev1.CSIStorageCapacity))
	}
	return compiled
}

// Drawn returns what is drawn from the capacity and not shown by it.
func (f *VolumeView) Drawn(from *volume.Capacity) []volume.Draw { return f.stores.Draws.Drawn(from) }

// PlaceKeys returns the keys of all places.
func (f *VolumeView) PlaceKeys() []string { return f.stores.placeKeys.all() }

// NodesWith returns the names of the nodes with that hostname label, in order.
func (f *VolumeView) NodesWith(hostname string) []string {
	stored, _ := f.stores.nodes.ByIndex(byHostname, hostname)
	names := make([]string, len(stored))
	for i, obj := range stored {
		names[i] = obj.(*v1.Node).Name
	}
	slices.Sort(names)
	return names
}

// Class returns the StorageClass of that name.
func (f *VolumeView) Class(name string) *storagev1.StorageClass { return f.stores.Class(name) }

// Driver returns the CSIDriver of that name.
func (f *VolumeView) Driver(name string) *storagev1.CSIDriver { return f.stores.Driver(name) }

// Node returns the Node of that name.
func (f *VolumeView) Node(name string) *v1.Node { return f.stores.Node(name) }

// CSINode returns the CSINode of that name.
func (f *VolumeView) CSINode(name string) *storagev1.CSINode { return f.stores.CSINode(name) }

// compile returns nil when the volume was deleted meanwhile.
func (f *VolumeView) compile(stored *v1.PersistentVolume) *volume.Volume {
	if len(f.boundVolumes) == 0 {
		return f.stores.compiledVolumes.get(stored)
	}
	latest := overlay(stored, f.boundVolumes, f.stores.BoundVolumes, func() *v1.PersistentVolume {
		return f.stores.Volume(stored.Name)
	})
	if latest == nil {
		return nil
	}
	return f.stores.compiledVolumes.get(latest)
}

// overlay returns the object to reckon with. A plan in force counts whatever
// the store says, since its owner may still write it. If the entry has left the
// ledger, the store has caught up after stored was read, so it is read again.
func overlay[T metav1.Object](stored T, inFlight map[types.UID]T, entries *ledger.Ledger[T], again func() T) T {
	pending, ok := inFlight[stored.GetUID()]
	if !ok {
		return stored
	}
	switch latest, state := entries.Latest(stored); state {
	case ledger.Planned, ledger.Doubtful:
		return pending
	case ledger.None:
		return again()
	default:
		return latest
	}
}

func byUID[T metav1.Object](objects []T) map[types.UID]T {
	m := make(map[types.UID]T, len(objects))
	for _, obj := range objects {
		m[obj.GetUID()] = obj
	}
	return m
}
