// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/reason"
)

// Watch returns a channel that receives after any of the objects (of kind
// PersistentVolumeClaim, PersistentVolume, Node or Pod) was added, changed or
// deleted; by then its store shows it. A volume that names a claim counts as a
// change of the claim too. Several changes may be received as one. The caller
// must call stop when it no longer listens.
//
// The channel says that it is time to look at the stores, nothing more: no fact
// is taken from an event.
func (v *Volumes) Watch(objects []reason.Ref) (changed <-chan struct{}, stop func()) {
	return v.watches.add(objects)
}

// watches are the channels to send on when an object changes.
type watches struct {
	mutex    sync.Mutex
	byObject map[reason.Ref]map[chan struct{}]struct{}
}

func (w *watches) add(objects []reason.Ref) (<-chan struct{}, func()) {
	changed := make(chan struct{}, 1)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.byObject == nil {
		w.byObject = make(map[reason.Ref]map[chan struct{}]struct{})
	}
	for _, obj := range objects {
		if w.byObject[obj] == nil {
			w.byObject[obj] = make(map[chan struct{}]struct{})
		}
		w.byObject[obj][changed] = struct{}{}
	}
	return changed, func() { w.remove(objects, changed) }
}

func (w *watches) remove(objects []reason.Ref, changed chan struct{}) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, obj := range objects {
		delete(w.byObject[obj], changed)
		if len(w.byObject[obj]) == 0 {
			delete(w.byObject, obj)
		}
	}
}

func (w *watches) wake(obj reason.Ref) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for changed := range w.byObject[obj] {
		select {
		case changed <- struct{}{}:
		default: // already told, and not looked yet
		}
	}
}

func (w *watches) handler(kind string) cache.ResourceEventHandler {
	wake := func(obj any) {
		name, err := cache.DeletionHandlingObjectToName(obj)
		if err != nil {
			return // not an object of the API, so nobody waits for it
		}
		w.wake(reason.Ref{Kind: kind, Namespace: name.Namespace, Name: name.Name})
		if pv, ok := obj.(*v1.PersistentVolume); ok && pv.Spec.ClaimRef != nil {
			ref := pv.Spec.ClaimRef
			w.wake(reason.Ref{Kind: "PersistentVolumeClaim", Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    wake,
		UpdateFunc: func(_, obj any) { wake(obj) },
		DeleteFunc: wake,
	}
}
