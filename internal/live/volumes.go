// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/internal/draws"
	"github.com/berth-scheduler/berth/internal/ledger"
	"github.com/berth-scheduler/berth/volume"
)

// Volumes is the part of Stores for volume claims: the stores, the ledgers of
// what pods have reserved, and who waits for which object.
//
// The methods that look up one object by name return what the store holds, and
// nil when it holds none; View overlays them with the ledgers. Everything
// returned is shared and must not be changed.
type Volumes struct {
	claims     cache.Indexer
	volumes    cache.Indexer
	capacities cache.Indexer
	classes    cache.Indexer
	drivers    cache.Indexer
	nodes      cache.Indexer
	csiNodes   cache.Indexer
	pods       cache.Indexer

	// BoundVolumes are the PersistentVolumes that pods have reserved: each plan
	// is the volume with spec.claimRef naming the claim.
	BoundVolumes *ledger.Ledger[*v1.PersistentVolume]
	// PlacedClaims are the claims that pods have reserved a volume for that is
	// to be provisioned: each plan is the claim with the selected-node annotation.
	PlacedClaims *ledger.Ledger[*v1.PersistentVolumeClaim]

	// Draws are what claims take from capacities that do not show it yet. Reserve
	// enters them, UndoDraws takes them back, events do the rest.
	Draws *draws.Book

	// reserving makes the checks of Reserve and its entries in both ledgers one step.
	reserving sync.Mutex

	compiledVolumes    compiledVolumes
	compiledCapacities compiledCapacities
	placeKeys          keySet
	watches            watches
	adoptions          adoptions
}

func newVolumes(factory informers.SharedInformerFactory) (*Volumes, error) {
	core, store := factory.Core().V1(), factory.Storage().V1()
	claims := core.PersistentVolumeClaims().Informer()
	volumes := core.PersistentVolumes().Informer()
	nodes := core.Nodes().Informer()
	pods := core.Pods().Informer()
	capacities := store.CSIStorageCapacities().Informer()

	if err := pods.AddIndexers(cache.Indexers{pendingWithClaims: indexPending}); err != nil {
		return nil, fmt.Errorf("indexing pods that wait with PersistentVolumeClaims: %w", err)
	}
	v := &Volumes{
		claims:     claims.GetIndexer(),
		volumes:    volumes.GetIndexer(),
		capacities: capacities.GetIndexer(),
		classes:    store.StorageClasses().Informer().GetIndexer(),
		drivers:    store.CSIDrivers().Informer().GetIndexer(),
		nodes:      nodes.GetIndexer(),
		csiNodes:   store.CSINodes().Informer().GetIndexer(),
		pods:       pods.GetIndexer(),

		compiledVolumes:    compiledVolumes{compile: volume.CompileVolume},
		compiledCapacities: compiledCapacities{compile: volume.CompileCapacity},
	}
	if err := v.index(factory); err != nil {
		return nil, err
	}
	v.Draws = draws.New(clock.RealClock{})
	v.BoundVolumes = ledger.New(lookup[v1.PersistentVolume](v.volumes))
	v.PlacedClaims = ledger.New(lookup[v1.PersistentVolumeClaim](v.claims))

	for kind, informer := range map[string]cache.SharedIndexInformer{
		"PersistentVolumeClaim": claims,
		"PersistentVolume":      volumes,
		"Node":                  nodes,
		"Pod":                   pods,
	} {
		if _, err := informer.AddEventHandler(v.watches.handler(kind)); err != nil {
			return nil, fmt.Errorf("watching objects of kind %s: %w", kind, err)
		}
	}
	if _, err := claims.AddEventHandler(v.claimHandler()); err != nil {
		return nil, fmt.Errorf("watching what claims draw: %w", err)
	}
	if _, err := capacities.AddEventHandler(v.capacityHandler()); err != nil {
		return nil, fmt.Errorf("watching CSIStorageCapacities: %w", err)
	}
	return v, nil
}

// Claim returns the PersistentVolumeClaim of that name in the store.
func (v *Volumes) Claim(namespace, name string) *v1.PersistentVolumeClaim {
	return get[v1.PersistentVolumeClaim](v.claims, namespace, name)
}

// Volume returns the PersistentVolume of that name in the store.
func (v *Volumes) Volume(name string) *v1.PersistentVolume {
	return get[v1.PersistentVolume](v.volumes, "", name)
}

// Class returns the StorageClass of that name in the store.
func (v *Volumes) Class(name string) *storagev1.StorageClass {
	return get[storagev1.StorageClass](v.classes, "", name)
}

// Driver returns the CSIDriver of that name in the store.
func (v *Volumes) Driver(name string) *storagev1.CSIDriver {
	return get[storagev1.CSIDriver](v.drivers, "", name)
}

// Node returns the Node of that name in the store.
func (v *Volumes) Node(name string) *v1.Node { return get[v1.Node](v.nodes, "", name) }

// CSINode returns the CSINode of that name in the store.
func (v *Volumes) CSINode(name string) *storagev1.CSINode {
	return get[storagev1.CSINode](v.csiNodes, "", name)
}

// Pod returns the Pod of that name in the store.
func (v *Volumes) Pod(namespace, name string) *v1.Pod { return get[v1.Pod](v.pods, namespace, name) }

// get returns nil when the store has no object of that key.
func get[T any](store cache.Store, namespace, name string) *T {
	key := cache.ObjectName{Namespace: namespace, Name: name}.String()
	// The stores of informers return no errors.
	obj, exists, err := store.GetByKey(key)
	if err != nil || !exists {
		return nil
	}
	typed, _ := obj.(*T)
	return typed
}

func lookup[T any](store cache.Store) func(namespace, name string) (*T, bool) {
	return func(namespace, name string) (*T, bool) {
		obj := get[T](store, namespace, name)
		return obj, obj != nil
	}
}
