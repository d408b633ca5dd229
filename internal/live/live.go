// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"sync"

	"k8s.io/client-go/informers"
)

// Stores are the indexes, memos and ledgers on top of one informer factory. Use
// For to get one. What it returns is made on first use, so that a scheduler with
// only one of the two plugins starts no informer for the other. All methods may
// be called concurrently.
type Stores struct {
	factory informers.SharedInformerFactory

	devices once[*Devices]
	volumes once[*Volumes]
}

// Devices returns the part for device claims, the same one for every caller.
func (s *Stores) Devices() (*Devices, error) {
	return s.devices.get(func() (*Devices, error) { return newDevices(s.factory) })
}

// Volumes returns the part for volume claims, the same one for every caller.
func (s *Stores) Volumes() (*Volumes, error) {
	return s.volumes.get(func() (*Volumes, error) { return newVolumes(s.factory) })
}

var (
	registryMutex sync.Mutex
	// registry holds the Stores of every informer factory in use. It changes
	// only in For and when the context given to For ends.
	registry = map[informers.SharedInformerFactory]*Stores{}
)

// For returns the Stores of an informer factory: the same one for every caller
// with the same factory, until the context of the first of them ends. It starts
// no informer; the caller may fill the factory's stores itself instead.
func For(ctx context.Context, factory informers.SharedInformerFactory) *Stores {
	registryMutex.Lock()
	defer registryMutex.Unlock()
	if s, ok := registry[factory]; ok {
		return s
	}
	s := &Stores{factory: factory}
	registry[factory] = s
	context.AfterFunc(ctx, func() {
		registryMutex.Lock()
		defer registryMutex.Unlock()
		delete(registry, factory)
	})
	return s
}

// once is a value that is made on first use. A failed attempt is repeated by
// the next caller.
type once[T any] struct {
	mutex sync.Mutex
	made  bool
	value T
}

func (o *once[T]) get(build func() (T, error)) (T, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if !o.made {
		value, err := build()
		if err != nil {
			var zero T
			return zero, err
		}
		o.value, o.made = value, true
	}
	return o.value, nil
}
