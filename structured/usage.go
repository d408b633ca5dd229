// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/device"
)

// usage turns an AllocatedState, which knows devices, into who uses which pool.
type usage struct {
	state AllocatedState
	// shared are the devices that have shares, and byPool those that are allocated,
	// by pool. Both are made when a pool first needs them: they take a walk over
	// the whole cluster.
	shared map[DeviceID]bool
	byPool map[device.PoolID][]DeviceID
	uses   map[*pool]*device.Use
}

// taken is what is known of a device that is in use: all of it, or shares of it
// that consume so much together.
type taken struct {
	device   DeviceID
	whole    bool
	consumed ConsumedCapacity
}

func (t taken) equal(other taken) bool {
	return t.device == other.device && t.whole == other.whole &&
		maps.EqualFunc(t.consumed, other.consumed, func(a, b *resource.Quantity) bool { return a.Cmp(*b) == 0 })
}

func (u *usage) none() bool {
	return len(u.state.AllocatedDevices) == 0 && len(u.state.AllocatedSharedDeviceIDs) == 0 && len(u.state.AggregatedCapacity) == 0
}

// of is what is used of the pool. The caller must hold the lock of the allocator.
func (u *usage) of(p *pool) *device.Use {
	if use, ok := u.uses[p]; ok {
		return use
	}
	if u.uses == nil {
		u.uses = map[*pool]*device.Use{}
	}
	use := p.usedAs(u.taken(p))
	u.uses[p] = use
	return use
}

func (u *usage) taken(p *pool) []taken {
	var all []taken
	for _, name := range p.names {
		if t := (taken{device: name, whole: u.state.AllocatedDevices.Has(name), consumed: u.state.AggregatedCapacity[name]}); t.whole || t.consumed != nil || u.isShared(name) {
			all = append(all, t)
		}
	}
	if p.counted {
		// Devices that the pool no longer shows may still use its counters.
		for _, name := range u.allocated(p.compiled.ID()) {
			if !slices.Contains(p.names, name) {
				all = append(all, taken{device: name, whole: true})
			}
		}
	}
	return all
}

func (u *usage) isShared(name DeviceID) bool {
	if len(u.state.AllocatedSharedDeviceIDs) == 0 {
		return false
	}
	if u.shared == nil {
		u.shared = make(map[DeviceID]bool, len(u.state.AllocatedSharedDeviceIDs))
		for share := range u.state.AllocatedSharedDeviceIDs {
			u.shared[share.GetDeviceID()] = true
		}
	}
	return u.shared[name]
}

func (u *usage) allocated(id device.PoolID) []DeviceID {
	if u.byPool == nil {
		u.byPool = map[device.PoolID][]DeviceID{}
		seen := map[DeviceID]bool{}
		add := func(name DeviceID) {
			if !seen[name] {
				seen[name] = true
				id := device.PoolID{Driver: name.Driver.String(), Pool: name.Pool.String()}
				u.byPool[id] = append(u.byPool[id], name)
			}
		}
		for name := range u.state.AllocatedDevices {
			add(name)
		}
		for share := range u.state.AllocatedSharedDeviceIDs {
			add(share.GetDeviceID())
		}
		for _, names := range u.byPool {
			slices.SortFunc(names, func(a, b DeviceID) int { return strings.Compare(a.Device.String(), b.Device.String()) })
		}
	}
	return u.byPool[id]
}

// usedAs compiles the use of a pool, or finds it as it was the last time.
func (p *pool) usedAs(all []taken) *device.Use {
	if len(all) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.EqualFunc(p.taken, all, taken.equal) {
		held := make([]device.Holding, len(all))
		for i := range all {
			held[i] = all[i].holding()
			// The caller may go on to change what its state has.
			all[i].consumed = all[i].consumed.Clone()
		}
		p.taken, p.use = all, device.NewUse(p.compiled.ID(), held)
	}
	return p.use
}

func (t taken) holding() device.Holding {
	h := device.Holding{Device: t.device.Device.String(), Shared: !t.whole}
	if h.Shared {
		h.Consumed = make(map[resourceapi.QualifiedName]resource.Quantity, len(t.consumed))
		for name, quantity := range t.consumed {
			h.Consumed[name] = quantity.DeepCopy()
		}
	}
	return h
}
