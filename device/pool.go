// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/reason"
)

// PoolID names a pool of devices in the cluster: pool names are unique only
// within a driver.
type PoolID struct{ Driver, Pool string }

// String returns driver/pool.
func (id PoolID) String() string { return id.Driver + "/" + id.Pool }

func (id PoolID) compare(other PoolID) int {
	return cmp.Or(cmp.Compare(id.Driver, other.Driver), cmp.Compare(id.Pool, other.Pool))
}

// Pool is what the ResourceSlices of one pool say, compiled once. It is
// immutable and may be shared by any number of Views and goroutines; inside it
// remembers the results of selectors.
//
// Only the newest generation counts, whichever node its slices are for
// (ResourcePool.Generation). A pool is usable on a node while the newest
// generation is complete, that is, as many slices are there as it announces
// (ResourcePool.ResourceSliceCount), and while it does not contradict itself.
type Pool struct {
	// What Solve reads of a pool about which there is nothing to say comes first. With
	// thousands of nodes it waits for memory most of the time, and this is three lines
	// of a cache. What alike pools remember is one piece of memory, see share.go.

	// sole is the node that all slices name, if there is one.
	sole string
	// sound: nothing is wrong with the pool that concerns every node. plain: no device
	// may be shared or has a policy for its capacity. sharing: some may be shared.
	// tainted: one of them has taints. binding: one of them has binding conditions.
	sound, plain, sharing, tainted, binding bool
	// needs are those of all devices.
	needs needs
	// recent are verdicts of programs that were asked for last, by their slot.
	recent [slots]atomic.Pointer[verdictRow]
	spread atomic.Pointer[spread]
	// devices are those of the slices, in their order, in which they are offered.
	devices []poolDevice
	// unused is what there is while nobody uses the pool.
	unused usage
	// lately are columns that were asked for last, by their number in the Problem.
	lately [slots]atomic.Pointer[column]

	id         PoolID
	generation int64
	// raw are all slices that the pool was compiled from, for [Verify].
	raw []*resourceapi.ResourceSlice

	// slices are those of the newest generation, by name.
	slices []slice
	// Unless there is a sole node, local are the indices of slices that name one node,
	// by that node; wide are those of the others. Both ascend.
	local map[string][]int
	wide  []int

	// announced is how many slices the newest generation should have.
	announced int64
	// fault says why no node can use the pool, empty if nothing is wrong.
	fault string

	// faulty: something is wrong that concerns some nodes only.
	faulty bool

	// outdated says where the slices of older generations were usable. It is
	// kept only for a pool that lacks slices, as these may be for the same nodes.
	outdated []scope

	counters counters

	verdicts memo[*program, *verdictRow]
	columns  memo[columnKey, *column]
	drawn    memo[drawKey, *drawRow]
}

// slice is one ResourceSlice of the newest generation.
type slice struct {
	api   *resourceapi.ResourceSlice
	scope scope
	// perDevice: the scope of each device decides, not that of the slice.
	perDevice bool
	// binding: a device of it has binding conditions.
	binding bool
	// first and end are the range of the slice's devices in Pool.devices.
	first, end int
}

type poolDevice struct {
	api   *resourceapi.Device
	slice int
	scope scope
	needs needs
	// shareable: several claims may use it at once, each a part of its capacity.
	shareable bool
	capacity  []capacity
	// vast are the capacities that are too large, or too fine, to be counted.
	vast []resourceapi.QualifiedName
}

// CompilePool compiles the ResourceSlices of one pool: all of them, whichever
// generation and node they are for, in any order. It returns nil if there are
// none. The slices are kept and must not be changed afterwards.
//
// What is wrong with a pool is no error here: it is found by [Problem.Solve] on
// the nodes that the pool matters to, and only on those.
func CompilePool(published []*resourceapi.ResourceSlice) *Pool {
	if len(published) == 0 {
		return nil
	}
	first := &published[0].Spec
	p := &Pool{id: PoolID{Driver: first.Driver, Pool: first.Pool.Name}, raw: slices.Clone(published)}
	slices.SortStableFunc(p.raw, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })

	p.generation, p.plain = first.Pool.Generation, true
	for _, s := range p.raw {
		p.generation = max(p.generation, s.Spec.Pool.Generation)
	}
	for _, s := range p.raw {
		if s.Spec.Pool.Generation == p.generation {
			p.add(s)
		}
	}
	p.announced = p.slices[0].api.Spec.Pool.ResourceSliceCount
	p.index()
	p.fault = p.contradiction()
	p.counters = compileCounters(p)
	p.unused = newUsage(p)
	if p.counters.grouped() {
		for i := range p.devices {
			p.devices[i].needs |= needGroups
		}
	}
	for i := range p.devices {
		p.needs |= p.devices[i].needs
		p.tainted = p.tainted || len(p.devices[i].api.Taints) > 0
	}
	p.binding = p.needs&needBinding != 0
	p.sound = p.fault == "" && p.counters.fault == "" && !p.incomplete()
	if int64(len(p.slices)) < p.announced {
		for _, s := range p.raw {
			if s.Spec.Pool.Generation != p.generation {
				p.outdated = append(p.outdated, scopesOf(s)...)
			}
		}
	}
	return p
}

// ID names the pool. A nil Pool, one without slices, has the zero PoolID.
func (p *Pool) ID() PoolID {
	if p == nil {
		return PoolID{}
	}
	return p.id
}

func (p *Pool) add(api *resourceapi.ResourceSlice) {
	index := len(p.slices)
	s := slice{
		api:       api,
		scope:     compileScope(ptr.Deref(api.Spec.NodeName, ""), api.Spec.AllNodes, api.Spec.NodeSelector),
		perDevice: ptr.Deref(api.Spec.PerDeviceNodeSelection, false),
		first:     len(p.devices),
	}
	for i := range api.Spec.Devices {
		d := &api.Spec.Devices[i]
		device := poolDevice{api: d, slice: index, needs: needsOf(d, api), shareable: ptr.Deref(d.AllowMultipleAllocations, false)}
		if device.shareable {
			p.sharing = true
			if device.capacity, device.vast = capacities(d); len(device.vast) > 0 {
				device.needs |= needCounting
			}
		}
		p.plain = p.plain && givesAll(d)
		s.binding = s.binding || len(d.BindingConditions) > 0
		if s.perDevice {
			device.scope = compileScope(ptr.Deref(d.NodeName, ""), d.AllNodes, d.NodeSelector)
			p.faulty = p.faulty || device.scope.fault != ""
		}
		p.devices = append(p.devices, device)
	}
	s.end = len(p.devices)
	p.faulty = p.faulty || !s.perDevice && s.scope.fault != ""
	p.slices = append(p.slices, s)
}

// index finds out which slices are for which node.
func (p *Pool) index() {
	p.sole = p.slices[0].local()
	for i := range p.slices {
		if p.slices[i].local() != p.sole {
			p.sole = ""
		}
	}
	if p.sole != "" {
		return
	}
	p.local = map[string][]int{}
	for i := range p.slices {
		if node := p.slices[i].local(); node != "" {
			p.local[node] = append(p.local[node], i)
		} else {
			p.wide = append(p.wide, i)
		}
	}
}

// local is the one node that the slice is for, if it names one.
func (s *slice) local() string {
	if s.perDevice {
		return ""
	}
	return s.scope.node
}

// contradiction says what makes the whole pool unusable.
func (p *Pool) contradiction() string {
	for i := range p.slices {
		if count := p.slices[i].api.Spec.Pool.ResourceSliceCount; count != p.announced {
			return fmt.Sprintf("ResourceSlices %s and %s of generation %d disagree about spec.pool.resourceSliceCount: %d and %d",
				p.slices[0].api.Name, p.slices[i].api.Name, p.generation, p.announced, count)
		}
	}
	if seen := int64(len(p.slices)); seen > p.announced {
		return fmt.Sprintf("generation %d announces %d ResourceSlices (spec.pool.resourceSliceCount) and has %d", p.generation, p.announced, seen)
	}
	for i := range p.slices {
		if fault := p.slices[i].scope.unparsable; fault != "" {
			return fmt.Sprintf("ResourceSlice %s: spec.nodeSelector: %s", p.slices[i].api.Name, fault)
		}
	}
	seen := make(map[string]int, len(p.devices))
	for i := range p.devices {
		d := &p.devices[i]
		in := p.slices[d.slice].api.Name
		if other, ok := seen[d.api.Name]; ok {
			return fmt.Sprintf("device %s is in ResourceSlice %s and again in %s", d.api.Name, p.slices[other].api.Name, in)
		}
		seen[d.api.Name] = d.slice
		if d.scope.unparsable != "" {
			return fmt.Sprintf("ResourceSlice %s: device %s: nodeSelector: %s", in, d.api.Name, d.scope.unparsable)
		}
	}
	return ""
}

// incomplete: slices of the newest generation are still missing.
func (p *Pool) incomplete() bool { return p.fault == "" && int64(len(p.slices)) < p.announced }

// usable: nothing is wrong with the pool that concerns every node.
func (p *Pool) usable(f Features) bool {
	return p.sound || p.faultWith(f) == "" && !p.incomplete()
}

// faultWith says why no node can use the pool. Nobody looks at its counters while
// the feature is off.
func (p *Pool) faultWith(f Features) string {
	if p.fault == "" && !p.incomplete() && f.PartitionableDevices {
		return p.counters.fault
	}
	return p.fault
}

// concerns says whether the pool matters to the node: it offers devices there,
// or it may once the driver has published it completely.
func (p *Pool) concerns(node *v1.Node) bool {
	found := false
	p.eachSlice(node.Name, func(s *slice) {
		found = found || s.reaches(p, node)
	})
	return found || slices.ContainsFunc(p.outdated, func(s scope) bool { return s.includes(node) })
}

func (s *slice) reaches(p *Pool, node *v1.Node) bool {
	if !s.perDevice {
		return s.scope.includes(node)
	}
	return slices.ContainsFunc(p.devices[s.first:s.end], func(d poolDevice) bool { return d.scope.includes(node) })
}

// eachSlice visits, in order, the slices that may reach the node of that name:
// all but those that name another node.
func (p *Pool) eachSlice(node string, visit func(*slice)) {
	if p.sole != "" {
		for i := range p.slices {
			if p.sole == node {
				visit(&p.slices[i])
			}
		}
		return
	}
	local, wide := p.local[node], p.wide
	for len(local) > 0 || len(wide) > 0 {
		var next int
		if len(wide) == 0 || len(local) > 0 && local[0] < wide[0] {
			next, local = local[0], local[1:]
		} else {
			next, wide = wide[0], wide[1:]
		}
		visit(&p.slices[next])
	}
}

// span is a range of devices of a pool.
type span struct{ first, end int32 }

// visible is what a node can reach of a pool.
type visible struct {
	// spans ascend.
	spans []span
	// fault is not empty if something is wrong with these devices that concerns this
	// node alone; then none of them may be used.
	fault string
	// binding: a slice of them has a device with binding conditions.
	binding bool
}

// visible adds to v what the node can reach.
func (p *Pool) visible(node *v1.Node, v visible) visible {
	if p.sole != "" {
		if p.sole == node.Name && len(p.devices) > 0 {
			v.add(span{0, int32(len(p.devices))})
			v.binding = v.binding || p.binding
		}
		return v
	}
	p.eachSlice(node.Name, func(s *slice) {
		if !s.perDevice {
			if s.first == s.end || !s.scope.includes(node) {
				return
			}
			if s.scope.fault != "" {
				v.fault = fmt.Sprintf("ResourceSlice %s: spec.nodeSelector: %s", s.api.Name, s.scope.fault)
			}
			v.add(span{int32(s.first), int32(s.end)})
			v.binding = v.binding || s.binding
			return
		}
		for i := s.first; i < s.end; i++ {
			d := &p.devices[i]
			if !d.scope.includes(node) {
				continue
			}
			if d.scope.fault != "" {
				v.fault = fmt.Sprintf("ResourceSlice %s: device %s: nodeSelector: %s", s.api.Name, d.api.Name, d.scope.fault)
			}
			v.add(span{int32(i), int32(i + 1)})
			v.binding = v.binding || s.binding
		}
	})
	return v
}

func (v *visible) add(s span) {
	if last := len(v.spans) - 1; last >= 0 && v.spans[last].end == s.first {
		v.spans[last].end = s.end
		return
	}
	v.spans = append(v.spans, s)
}

func (p *Pool) name(device int32) reason.Device {
	return reason.Device{Driver: p.id.Driver, Pool: p.id.Pool, Name: p.devices[device].api.Name}
}
