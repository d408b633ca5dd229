// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "slices"

// usage is what a Use means for a Pool: what is left of its devices and counters.
type usage struct {
	// state is that of each device; nil if all are idle.
	state []deviceState
	pool  *Pool
	// holders are those of the devices that are not idle.
	holders map[int32]*holder
	// remaining is what is left of the capacity of the devices that are shared.
	remaining map[int32][]int64
	// left is what is left of each counter.
	left []int64
	// gone are devices in use that the pool does not show, of a pool with counters:
	// they may still consume any of these.
	gone []string
	// peers are the compatibility groups that the devices in use leave, per counter
	// set; nil if the pool has none.
	peers []peers
}

// deviceState says how a device is used.
type deviceState uint8

const (
	idle deviceState = iota
	// shared: there are shares of it.
	shared
	// whole: somebody holds all of it.
	whole
)

// peers says which groups a device has to be in to be used along with those that
// consume from a counter set already (DeviceCounterConsumption.CompatibilityGroups).
type peers struct {
	// any: nobody consumes from the set, so nothing is required.
	any bool
	// groups are those that all have in common. None of those in use declares any
	// if lone.
	groups []int32
	lone   bool
}

// usage returns what is left of the pool.
func (v PoolView) usage() *usage {
	if v.Use.empty() {
		return &v.Pool.unused
	}
	if known := v.Use.meaning.Load(); known != nil && known.pool == v.Pool {
		return known
	}
	u := v.Use.meets(v.Pool)
	v.Use.meaning.Store(u)
	return u
}

func (u *Use) meets(p *Pool) *usage {
	m := &usage{pool: p, state: make([]deviceState, len(p.devices)), holders: make(map[int32]*holder, len(u.holders))}
	m.left = slices.Clone(p.unused.left)
	m.peers = slices.Clone(p.unused.peers)
	shown := 0
	for i := range p.devices {
		h := u.holders[p.devices[i].api.Name]
		if h == nil {
			continue
		}
		shown++
		m.state[i] = shared
		if h.whole {
			m.state[i] = whole
		}
		m.holders[int32(i)] = h
		if m.state[i] == shared && p.devices[i].shareable {
			if m.remaining == nil {
				m.remaining = map[int32][]int64{}
			}
			m.remaining[int32(i)] = remaining(p.devices[i].capacity, h)
		}
		if p.counters.charges != nil {
			for _, amount := range p.counters.charges[i] {
				// Below nothing it does not matter by how much.
				m.left[amount.Counter] = max(m.left[amount.Counter]-amount.Value, -largest)
			}
		}
		if m.peers != nil {
			for _, member := range p.counters.memberships[i] {
				m.peers[member.set] = m.peers[member.set].with(member.groups)
			}
		}
	}
	if shown < len(u.names) && len(p.counters.all) > 0 {
		shows := make(map[string]bool, len(p.devices))
		for i := range p.devices {
			shows[p.devices[i].api.Name] = true
		}
		for _, name := range u.names {
			if !shows[name] {
				m.gone = append(m.gone, name)
			}
		}
	}
	return m
}

// newUsage is the usage of a pool that nobody uses.
func newUsage(p *Pool) usage {
	u := usage{pool: p, left: make([]int64, len(p.counters.all))}
	for i := range p.counters.all {
		u.left[i] = p.counters.all[i].total
	}
	if p.counters.grouped() {
		u.peers = make([]peers, len(p.counters.sets))
		for i := range u.peers {
			u.peers[i].any = true
		}
	}
	return u
}

func (u *usage) of(device int32) deviceState {
	if u.state == nil {
		return idle
	}
	return u.state[device]
}

// with adds a device that is used.
func (p peers) with(groups []int32) peers {
	if p.any {
		return peers{groups: groups, lone: len(groups) == 0}
	}
	return peers{groups: p.admitted(groups), lone: p.lone}
}

// admits says whether a device of these groups may join.
func (p peers) admits(groups []int32) bool {
	if len(groups) == 0 {
		return p.any || p.lone
	}
	return len(p.admitted(groups)) > 0
}

// admitted are those of a device's groups by which it may join.
func (p peers) admitted(groups []int32) []int32 {
	if p.any {
		return groups
	}
	var common []int32
	for _, g := range groups {
		if slices.Contains(p.groups, g) {
			common = append(common, g)
		}
	}
	return common
}
