// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"

	"github.com/berth-scheduler/berth/device/internal/assign"
	"github.com/berth-scheduler/berth/reason"
)

// offer is what one node offers to one Problem: the devices of its usable pools
// in a total order, and for each sieve which of them it lets through.
type offer struct {
	problem *Problem
	node    NodeView
	// missing are the parts of the API that are off, or that the node lacks.
	missing needs
	// uses are those of the node's pools.
	uses []*usage

	devices  []place
	segments []segment
	sieved   []sieved
	// blocked are the pools that matter to the node and cannot be used.
	blocked []blocked
	// alive are the choices of each request that nothing stands in the way of but
	// the other requests; aliveAll is their memory.
	alive    [][]int
	aliveAll []int

	question question
	sets     arena
	rows     []*verdictRow
	seen     visible
	last     []int
}

// place is where a device is found: in node.Pools[pool].Pool.devices[device].
type place struct{ pool, device int32 }

// segment is a run of devices of one pool, the first of which is number base of
// the offer.
type segment struct {
	pool int
	span
	base int
}

type blocked struct {
	pool int
	// fault says what makes the pool invalid, empty if it is incomplete.
	fault string
}

func (b *blocked) code() reason.Code {
	if b.fault != "" {
		return reason.PoolInvalid
	}
	return reason.PoolIncomplete
}

// fill looks at all that the node can see. Nothing of the former node is kept
// but the memory.
func (o *offer) fill(p *Problem, node NodeView) {
	o.collect(p, node)
	size := assign.Words(len(o.devices))
	o.sets.reset(2 * size * len(p.sieves))
	o.sieved = resize(o.sieved, len(p.sieves))
	for i := range p.sieves {
		o.sieved[i].match, o.sieved[i].free = o.sets.set(size), o.sets.set(size)
		o.sift(&p.sieves[i], &o.sieved[i])
	}
}

// collect puts the devices into their order.
func (o *offer) collect(p *Problem, node NodeView) {
	o.problem, o.node = p, node
	o.missing = p.missing
	o.devices, o.segments, o.blocked, o.last = o.devices[:0], o.segments[:0], o.blocked[:0], o.last[:0]
	o.uses = o.uses[:0]
	for i := range node.Pools {
		if node.Pools[i].Pool.needs&needDeclared != 0 {
			o.missing |= undeclared(node.Node)
		}
		o.uses = append(o.uses, node.Pools[i].usage())
		o.gather(i, commonPools)
	}
	// Pools with binding conditions come last: a device that is ready is better than
	// one that has to be made so.
	for _, i := range o.last {
		o.gather(i, bindingPools)
	}
}

// round is which pools are gathered.
type round uint8

const (
	commonPools round = iota
	bindingPools
)

func (o *offer) gather(index int, now round) {
	pool := o.node.Pools[index].Pool
	if !pool.usable(o.problem.options.Features) {
		if pool.concerns(o.node.Node) {
			o.blocked = append(o.blocked, blocked{pool: index, fault: pool.faultWith(o.problem.options.Features)})
		}
		return
	}
	o.seen = pool.visible(o.node.Node, visible{spans: o.seen.spans[:0]})
	switch {
	case o.seen.fault != "":
		o.blocked = append(o.blocked, blocked{pool: index, fault: o.seen.fault})
		return
	case o.seen.binding && now == commonPools:
		o.last = append(o.last, index)
		return
	}
	for _, s := range o.seen.spans {
		o.segments = append(o.segments, segment{pool: index, span: s, base: len(o.devices)})
		for device := s.first; device < s.end; device++ {
			o.devices = append(o.devices, place{pool: int32(index), device: device})
		}
	}
}

// blockedFor returns a pool that cannot be used and might have devices for the
// choice: one of which a device is known that the class accepts, or of which no
// device is known. An incomplete pool goes before an invalid one, as it may get
// well by itself.
func (o *offer) blockedFor(c *choice) *blocked {
	var found *blocked
	for i := range o.blocked {
		b := &o.blocked[i]
		if (found == nil || found.fault != "" && b.fault == "") && o.mayHave(b, c) {
			found = b
		}
	}
	return found
}

func (o *offer) mayHave(b *blocked, c *choice) bool {
	pool := o.node.Pools[b.pool].Pool
	seen := pool.visible(o.node.Node, visible{})
	if len(seen.spans) == 0 {
		return true
	}
	s := &o.problem.sieves[c.sieve]
	o.rowsOf(s, pool)
	return slices.ContainsFunc(seen.spans, func(in span) bool {
		for d := in.first; d < in.end; d++ {
			if o.judge(pool, o.rows[:len(s.class)], d) == accepted {
				return true
			}
		}
		return false
	})
}

func (o *offer) name(i int) reason.Device {
	at := o.devices[i]
	return o.node.Pools[at.pool].Pool.name(at.device)
}

// failures says whether any selector failed on any device, or any capacity could
// not be computed.
func (o *offer) failures() bool {
	return slices.ContainsFunc(o.sieved, func(s sieved) bool { return s.failed || s.uncounted })
}

// arena hands out sets from one piece of memory, used again for the next node.
type arena struct {
	words []uint64
	used  int
}

// reset takes all sets back and makes room for that many words.
func (a *arena) reset(size int) {
	a.words = resize(a.words, size)
	a.used = 0
}

func (a *arena) set(words int) assign.Set {
	s := a.words[a.used : a.used+words : a.used+words]
	a.used += words
	return s
}

// resize returns a slice of n zero values, in the memory of s where it suffices.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}
