// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	storage "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/volume"
)

// The indexes of the stores. Index functions run before a change can be seen in
// the store, and before any event tells of it.
const (
	// byClass indexes PersistentVolumes and CSIStorageCapacity objects by the
	// name of their StorageClass.
	byClass = "berth.storageClass"
	// byPlace indexes them by class and place, see volume.Place.
	byPlace = "berth.place"
	// byClaimRef indexes PersistentVolumes by the claim that they name.
	byClaimRef = "berth.claimRef"
	// byHostname indexes Nodes by the label kubernetes.io/hostname.
	byHostname = "berth.hostname"
)

// index adds the indexes to the informers.
func (v *Volumes) index(factory informers.SharedInformerFactory) error {
	core, store := factory.Core().V1(), factory.Storage().V1()
	for _, one := range []struct {
		kind     string
		informer cache.SharedIndexInformer
		indexers cache.Indexers
	}{
		{"PersistentVolumes", core.PersistentVolumes().Informer(), cache.Indexers{
			byClass: func(obj any) ([]string, error) {
				return []string{storage.GetPersistentVolumeClass(obj.(*v1.PersistentVolume))}, nil
			},
			byPlace: func(obj any) ([]string, error) {
				pv := obj.(*v1.PersistentVolume)
				return v.places(storage.GetPersistentVolumeClass(pv), v.compiledVolumes.get(pv).Places()), nil
			},
			byClaimRef: func(obj any) ([]string, error) {
				if ref := obj.(*v1.PersistentVolume).Spec.ClaimRef; ref != nil {
					return []string{cache.ObjectName{Namespace: ref.Namespace, Name: ref.Name}.String()}, nil
				}
				return nil, nil
			},
		}},
		{"CSIStorageCapacities", store.CSIStorageCapacities().Informer(), cache.Indexers{
			byClass: func(obj any) ([]string, error) {
				return []string{obj.(*storagev1.CSIStorageCapacity).StorageClassName}, nil
			},
			byPlace: func(obj any) ([]string, error) {
				capacity := obj.(*storagev1.CSIStorageCapacity)
				return v.places(capacity.StorageClassName, v.compiledCapacities.get(capacity).Places()), nil
			},
		}},
		{"Nodes", core.Nodes().Informer(), cache.Indexers{
			byHostname: func(obj any) ([]string, error) {
				return []string{obj.(*v1.Node).Labels[v1.LabelHostname]}, nil
			},
		}},
	} {
		if err := one.informer.AddIndexers(one.indexers); err != nil {
			return fmt.Errorf("indexing %s: %w", one.kind, err)
		}
	}
	return nil
}

// places returns the index values of what has these places, and remembers their
// keys.
func (v *Volumes) places(class string, places []volume.Place) []string {
	values := make([]string, len(places))
	for i, at := range places {
		v.placeKeys.add(at.Key)
		values[i] = placeValue(class, at)
	}
	return values
}

// placeValue is unique, as neither class names nor label keys contain a space.
func placeValue(class string, at volume.Place) string {
	return class + " " + at.Key + " " + at.Value
}

// keySet is a set of label keys. It only grows: looking for a key that is no
// longer in use does no harm, and there are few.
type keySet struct {
	mutex sync.Mutex
	keys  atomic.Pointer[[]string]
}

// all returns the keys in order.
func (s *keySet) all() []string {
	if keys := s.keys.Load(); keys != nil {
		return *keys
	}
	return nil
}

func (s *keySet) add(key string) {
	if _, known := slices.BinarySearch(s.all(), key); known || key == "" {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	keys := s.all()
	if i, known := slices.BinarySearch(keys, key); !known {
		keys = slices.Insert(slices.Clone(keys), i, key)
		s.keys.Store(&keys)
	}
}
