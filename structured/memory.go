// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/berth-scheduler/berth/device"
)

// memory is what allocators leave behind for those that come after. A scheduler
// makes one for every pod, with slices that hardly ever change; all that these have
// in common is their cel.Cache.
type memory struct {
	selectors *device.Selectors
	// question is the one that was asked last, nil at first. A pod asks the same on
	// every node.
	question atomic.Pointer[question]

	mu sync.Mutex
	// latest is the catalog of the allocator that was made last.
	latest *catalog
}

// expressions is how many compiled selectors are kept.
const expressions = 256

// memories has the memory of each cel.Cache that is still in use. There is no other
// place that outlives an allocator: the signature of NewAllocator is upstream's.
var memories sync.Map // weak.Pointer[cel.Cache] → *memory

func memoryOf(cache *cel.Cache) *memory {
	fresh := func() *memory { return &memory{selectors: device.NewSelectors(expressions)} }
	if cache == nil {
		return fresh()
	}
	key := weak.Make(cache)
	if m, ok := memories.Load(key); ok {
		return m.(*memory)
	}
	m, loaded := memories.LoadOrStore(key, fresh())
	if !loaded {
		runtime.AddCleanup(cache, func(key weak.Pointer[cel.Cache]) { memories.Delete(key) }, key)
	}
	return m.(*memory)
}

// catalog is the slices of a cluster, compiled. It is immutable but for what its
// pools remember.
type catalog struct {
	slices []*resourceapi.ResourceSlice
	// view has the pools without their use.
	view  *device.View
	pools map[device.PoolID]*pool
}

// pool is valid while its slices are the very same objects.
type pool struct {
	slices   []*resourceapi.ResourceSlice
	compiled *device.Pool
	// names are those of the devices, of whatever generation; counted says whether
	// any consumes counters.
	names   []DeviceID
	counted bool
	// overfull: there are more slices than they announce, all of them the same number.
	overfull bool

	mu sync.Mutex
	// taken and use belong together: the last that was compiled.
	taken []taken
	use   *device.Use
}

// catalogOf compiles the slices, or what of them is not known yet.
func (m *memory) catalogOf(published []*resourceapi.ResourceSlice) *catalog {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.latest != nil && slices.Equal(m.latest.slices, published) {
		return m.latest
	}
	known := map[device.PoolID]*pool{}
	if m.latest != nil {
		known = m.latest.pools
	}
	m.latest = newCatalog(slices.Clone(published), known)
	return m.latest
}

func newCatalog(published []*resourceapi.ResourceSlice, known map[device.PoolID]*pool) *catalog {
	c := &catalog{slices: published, pools: map[device.PoolID]*pool{}}
	for _, s := range published {
		id := device.PoolID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name}
		p := c.pools[id]
		if p == nil {
			p = &pool{}
			c.pools[id] = p
		}
		p.slices = append(p.slices, s)
	}
	views := make([]device.PoolView, 0, len(c.pools))
	for id, p := range c.pools {
		if old := known[id]; old != nil && slices.Equal(old.slices, p.slices) {
			c.pools[id] = old
		} else {
			p.compile()
		}
		views = append(views, device.PoolView{Pool: c.pools[id].compiled})
	}
	c.view = device.NewView(views)
	return c
}

func (p *pool) compile() {
	p.compiled = device.CompilePool(p.slices)
	p.overfull = overfull(p.slices)
	seen := map[string]bool{}
	for _, s := range p.slices {
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			p.counted = p.counted || len(d.ConsumesCounters) > 0
			if !seen[d.Name] {
				seen[d.Name] = true
				p.names = append(p.names, MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name))
			}
		}
	}
}

func overfull(published []*resourceapi.ResourceSlice) bool {
	newest, count, announced, agreed := int64(-1), int64(0), int64(0), true
	for _, s := range published {
		if s.Spec.Pool.Generation > newest {
			newest, count, announced, agreed = s.Spec.Pool.Generation, 0, s.Spec.Pool.ResourceSliceCount, true
		}
		if s.Spec.Pool.Generation == newest {
			count++
			agreed = agreed && s.Spec.Pool.ResourceSliceCount == announced
		}
	}
	return agreed && count > announced
}
