// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/volume"
)

type (
	compiledVolumes    = compiler[*v1.PersistentVolume, *volume.Volume]
	compiledCapacities = compiler[*storagev1.CSIStorageCapacity, *volume.Capacity]
)

// compiler compiles each object once and keeps the result for its name. It is
// right only for the very object that it was compiled from: pointers are
// compared. The field compile must be set.
//
// Index functions use it too. They run with the store locked, so nothing here
// calls the store with the mutex held.
type compiler[Object interface {
	comparable
	metav1.Object
}, Compiled any,
] struct {
	compile func(Object) Compiled

	mutex  sync.RWMutex
	byName map[cache.ObjectName]memoized[Object, Compiled]
	// sweepAt is the number of objects at which sweep has something to do.
	sweepAt int
}

type memoized[Object, Compiled any] struct {
	from     Object
	compiled Compiled
}

func (m *compiler[Object, Compiled]) get(obj Object) Compiled {
	name := cache.MetaObjectToName(obj)
	m.mutex.RLock()
	known, ok := m.byName[name]
	m.mutex.RUnlock()
	if ok && known.from == obj {
		return known.compiled
	}
	compiled := m.compile(obj)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.byName == nil {
		m.byName = make(map[cache.ObjectName]memoized[Object, Compiled])
	}
	m.byName[name] = memoized[Object, Compiled]{from: obj, compiled: compiled}
	return compiled
}

// sweep forgets the objects that the store no longer holds, each time that as
// many have come in as it kept the last time.
func (m *compiler[Object, Compiled]) sweep(store cache.Store) {
	var gone []cache.ObjectName
	names := m.worthSweeping()
	if names == nil {
		return
	}
	for _, name := range names {
		if _, held, err := store.GetByKey(name.String()); err == nil && !held {
			gone = append(gone, name)
		}
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, name := range gone {
		delete(m.byName, name)
	}
	m.sweepAt = 2*len(m.byName) + 64
}

// worthSweeping returns all names if there are many more than the last time.
func (m *compiler[Object, Compiled]) worthSweeping() []cache.ObjectName {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	if len(m.byName) < m.sweepAt {
		return nil
	}
	return slices.Collect(maps.Keys(m.byName))
}
