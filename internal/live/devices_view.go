// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/internal/ledger"
)

// View is a picture of all pools that a cluster's slices publish, and of who
// holds their devices. It is made for one scheduling cycle and may be used by any
// number of goroutines.
//
// The pools are frozen when it is made. Who uses a pool is looked up when the
// first node asks and is the same for all nodes from then on: a cycle pays for the
// pools that its nodes can see and for no others. What the ledger has in flight is
// frozen when the View is made, so a claim that goes from the ledger to the store
// during the cycle is not missed.
type View struct {
	devices  *Devices
	pools    *device.View
	inFlight inFlight
	// uses are the *usage of the pools that were asked for, by *device.Pool.
	uses sync.Map
}

// use is a compiled Use with the claims that it came from.
type use struct {
	from     []*resourceapi.ResourceClaim
	compiled *device.Use
}

// usage is the use of one pool in one View.
type usage struct {
	once sync.Once
	use  use
	err  error
}

// Change is how a node would look if some claims were gone or others were there.
type Change struct {
	// Gone says of a claim that holds devices that it no longer does. nil means none.
	Gone func(*resourceapi.ResourceClaim) bool
	// Extra are claims that hold devices too.
	Extra []*resourceapi.ResourceClaim
}

// Lookups counts how often what was derived before was still valid.
type Lookups struct {
	// Slices are lists of slices, of which all pools are derived; Uses are the uses
	// of pools that anybody uses.
	Slices, Uses struct{ Hits, Misses atomic.Int64 }
}

// Lookups returns the counters, which go on counting.
func (d *Devices) Lookups() *Lookups { return &d.lookups }

// View returns a View. Slices are all that exist, in any order.
func (d *Devices) View(resourceSlices []*resourceapi.ResourceSlice) *View {
	// The ledger before the store: see ledger.InFlight.
	inFlight := newInFlight(d.ledger.InFlight())

	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.pools.same(resourceSlices) {
		d.lookups.Slices.Hits.Add(1)
	} else {
		d.lookups.Slices.Misses.Add(1)
		d.pools = d.pools.next(resourceSlices)
		maps.DeleteFunc(d.uses, func(id device.PoolID, _ use) bool {
			_, ok := d.pools.pools[id]
			return !ok
		})
	}
	return &View{devices: d, pools: d.pools.view, inFlight: inFlight}
}

// Node returns what the node can see.
func (v *View) Node(node *v1.Node) (device.NodeView, error) {
	return v.NodeAfter(node, Change{})
}

// NodeAfter returns what the node would see after a change.
func (v *View) NodeAfter(node *v1.Node, change Change) (device.NodeView, error) {
	seen := v.pools.Node(node)
	pools := make([]device.PoolView, len(seen.Pools))
	for i, view := range seen.Pools {
		current, err := v.use(view.Pool)
		if err != nil {
			return device.NodeView{}, err
		}
		pools[i] = device.PoolView{Pool: view.Pool, Use: change.apply(view.Pool.ID(), current)}
	}
	return device.NodeView{Node: node, Pools: pools}, nil
}

func (c Change) apply(id device.PoolID, current use) *device.Use {
	gone := c.Gone != nil && slices.ContainsFunc(current.from, c.Gone)
	extra := slices.ContainsFunc(c.Extra, func(claim *resourceapi.ResourceClaim) bool {
		return slices.Contains(poolsOf(claim), id)
	})
	if !gone && !extra {
		return current.compiled
	}
	claims := slices.Clone(current.from)
	if gone {
		claims = slices.DeleteFunc(claims, c.Gone)
	}
	return device.CompileUse(id, append(claims, c.Extra...))
}

// use returns who uses a pool, looked up once in the life of the View.
func (v *View) use(pool *device.Pool) (use, error) {
	found, ok := v.uses.Load(pool)
	if !ok {
		found, _ = v.uses.LoadOrStore(pool, &usage{})
	}
	u := found.(*usage)
	u.once.Do(func() { u.use, u.err = v.devices.use(pool.ID(), v.inFlight) })
	return u.use, u.err
}

// use returns the use of a pool, from the memo if its claims are still the same.
func (d *Devices) use(id device.PoolID, inFlight inFlight) (use, error) {
	claims, err := d.claimsOf(id, inFlight)
	if err != nil || len(claims) == 0 {
		return use{}, err
	}
	d.mutex.Lock()
	known, ok := d.uses[id]
	d.mutex.Unlock()
	if ok && slices.Equal(known.from, claims) {
		d.lookups.Uses.Hits.Add(1)
		return known, nil
	}
	d.lookups.Uses.Misses.Add(1)
	made := use{from: claims, compiled: device.CompileUse(id, claims)}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.uses[id] = made
	return made, nil
}

// claimsOf returns the claims that hold devices of a pool, in order of UID.
func (d *Devices) claimsOf(id device.PoolID, inFlight inFlight) ([]*resourceapi.ResourceClaim, error) {
	objs, err := d.claims.ByIndex(claimsByPool, id.String())
	if err != nil {
		return nil, fmt.Errorf("look up the ResourceClaims of pool %s: %w", id, err)
	}
	claims := slices.Clone(inFlight.byPool[id])
	for _, obj := range objs {
		stored, ok := obj.(*resourceapi.ResourceClaim)
		if !ok {
			continue
		}
		other, ok := inFlight.byUID[stored.UID]
		switch {
		case !ok && inFlight.planned.Has(types.NamespacedName{Namespace: stored.Namespace, Name: stored.Name}):
			// Planned before it had a UID, and created since.
		case !ok:
			claims = append(claims, stored)
		case other.ResourceVersion != stored.ResourceVersion && ledger.AtLeast(other, stored):
			// The store is behind; what it says is over.
		case sameDevices(other, stored):
			// The plan has become true.
		default:
			// Somebody else allocated the claim while our plan is still in
			// force. Until it is undone, both count.
			claims = append(claims, stored)
		}
	}
	slices.SortStableFunc(claims, func(a, b *resourceapi.ResourceClaim) int { return cmp.Compare(a.UID, b.UID) })
	return claims, nil
}

func sameDevices(a, b *resourceapi.ResourceClaim) bool {
	return a.Status.Allocation != nil && b.Status.Allocation != nil &&
		apiequality.Semantic.DeepEqual(a.Status.Allocation.Devices.Results, b.Status.Allocation.Devices.Results)
}

// inFlight are the claims of the ledger, found by UID and by pool.
type inFlight struct {
	byUID  map[types.UID]*resourceapi.ResourceClaim
	byPool map[device.PoolID][]*resourceapi.ResourceClaim
	// planned are the names of claims that are to be created.
	planned sets.Set[types.NamespacedName]
}

func newInFlight(claims []*resourceapi.ResourceClaim) inFlight {
	in := inFlight{
		byUID:  make(map[types.UID]*resourceapi.ResourceClaim, len(claims)),
		byPool: make(map[device.PoolID][]*resourceapi.ResourceClaim), planned: sets.New[types.NamespacedName](),
	}
	for _, claim := range claims {
		if claim.ResourceVersion == "" {
			in.planned.Insert(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
		}
		in.byUID[claim.UID] = claim
		for _, id := range poolsOf(claim) {
			in.byPool[id] = append(in.byPool[id], claim)
		}
	}
	return in
}
