// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	storage "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/volume"
)

// reserveDraws enters the draws of a pod, all or none. A claim that is placed
// already draws on for as long as one of its pods counts on it. It returns the claims
// whose draws the pod did not count on before.
func (v *Volumes) reserveDraws(owner types.UID, provisions []volume.Provision) ([]*v1.PersistentVolumeClaim, error) {
	var added []*v1.PersistentVolumeClaim
	for _, d := range provisions {
		counted := v.Draws.Counts(owner, d.Claim.UID)
		if d.Capacity == nil {
			v.Draws.Join(owner, d.Claim.UID)
		} else if err := v.reserveDraw(owner, d); err != nil {
			v.UndoDraws(owner, added)
			return nil, fmt.Errorf("reserving storage for PersistentVolumeClaim %s/%s: %w", d.Claim.Namespace, d.Claim.Name, err)
		}
		if !counted {
			added = append(added, d.Claim)
		}
	}
	return added, nil
}

// reserveDraw enters one draw, held against the capacity as it is now.
func (v *Volumes) reserveDraw(owner types.UID, d volume.Provision) error {
	now := get[storagev1.CSIStorageCapacity](v.capacities, d.Capacity.Namespace, d.Capacity.Name)
	if now == nil {
		return fmt.Errorf("CSIStorageCapacity %s/%s was deleted", d.Capacity.Namespace, d.Capacity.Name)
	}
	return v.Draws.Reserve(owner, v.compiledCapacities.get(now), volume.DrawOf(d.Claim))
}

// UndoDraws takes a pod out of what its claims draw. A claim draws on while it
// names a node, since its provisioner is at work. If the write of that name is in
// doubt, it must be settled before.
func (v *Volumes) UndoDraws(owner types.UID, claims []*v1.PersistentVolumeClaim) {
	for _, claim := range claims {
		if latest := v.latestClaim(claim.Namespace, claim.Name); latest != nil && latest.UID == claim.UID && isPlaced(latest) {
			v.Draws.Placed(claim.UID)
		}
		v.Draws.Undo(owner, claim.UID)
	}
}

// latestClaim returns the newest form of the claim that the API server returned,
// to the informer or to one of our writes.
func (v *Volumes) latestClaim(namespace, name string) *v1.PersistentVolumeClaim {
	stored := v.Claim(namespace, name)
	if stored == nil {
		return nil
	}
	known, _, _ := v.PlacedClaims.Plan(stored)
	return known
}

func isPlaced(claim *v1.PersistentVolumeClaim) bool {
	return claim.Annotations[storage.AnnSelectedNode] != ""
}

// claimHandler follows the draws of claims. It does not look at the object of the
// event, but at the store and what was written: the newest counts.
func (v *Volumes) claimHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { v.followClaim(obj.(*v1.PersistentVolumeClaim)) },
		UpdateFunc: func(old, obj any) {
			if old, obj := old.(*v1.PersistentVolumeClaim), obj.(*v1.PersistentVolumeClaim); old.UID != obj.UID {
				v.forgetClaim(old.UID)
			}
			v.followClaim(obj.(*v1.PersistentVolumeClaim))
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			if claim, ok := obj.(*v1.PersistentVolumeClaim); ok {
				v.forgetClaim(claim.UID)
			}
		},
	}
}

func (v *Volumes) followClaim(seen *v1.PersistentVolumeClaim) {
	claim := v.latestClaim(seen.Namespace, seen.Name)
	switch {
	case claim == nil || claim.UID != seen.UID:
		v.forgetClaim(seen.UID)
	case claim.Spec.VolumeName != "":
		v.adoptions.drop(claim.UID)
		v.Draws.Bound(claim.UID)
	case !isPlaced(claim):
		v.adoptions.drop(claim.UID)
		v.Draws.Unplaced(claim.UID)
	case !v.Draws.Placed(claim.UID):
		v.adoptions.want(claim)
	}
}

func (v *Volumes) forgetClaim(uid types.UID) {
	v.adoptions.drop(uid)
	v.Draws.Gone(uid)
}

func (v *Volumes) capacityHandler() cache.ResourceEventHandler {
	report := func(obj any) {
		v.Draws.Reported(v.compiledCapacities.get(obj.(*storagev1.CSIStorageCapacity)))
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    report,
		UpdateFunc: func(_, obj any) { report(obj) },
	}
}

// adoptions are the claims whose provisioner is at work although no pod has
// reserved that here: another process did, or this one before it was started
// again. What they draw from is looked up with the next View, when all stores are
// filled. If it is not known then, nothing is held against anybody.
type adoptions struct {
	mutex   sync.Mutex
	waiting map[types.UID]*v1.PersistentVolumeClaim
}

func (a *adoptions) want(claim *v1.PersistentVolumeClaim) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.waiting == nil {
		a.waiting = make(map[types.UID]*v1.PersistentVolumeClaim)
	}
	a.waiting[claim.UID] = claim
}

func (a *adoptions) drop(uid types.UID) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	delete(a.waiting, uid)
}

// adopt enters the draws of the claims that wait for it, in the order of UID.
func (a *adoptions) adopt(facts *VolumeView) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(a.waiting)) {
		claim := a.waiting[uid]
		if from := volume.DrawsFrom(facts, claim); from != nil {
			facts.stores.Draws.Adopt(from, volume.DrawOf(claim))
		}
	}
	clear(a.waiting)
}
