// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"encoding/binary"
	"slices"
)

// lot are devices of one cluster that are the same in everything that counts.
type lot struct {
	// devices are their places in clusters.devices, ascending.
	from, to int32
	// most is how many of them could be used.
	most int32
	// looks is where the lot's description is.
	looks, looksTo int32
}

// cluster are devices that depend on each other, because they take from the same
// resources, and on no other device.
type cluster struct {
	// from and to are where its lots are.
	from, to int32
	// wants and wantsTo are where the wants are that use its devices, in the order in
	// which its fills have them.
	wants, wantsTo int32
	// fills is the number of what it can hold, see fills.
	fills int32
}

// clusters splits the devices: plain ones, which are used once and take from
// nothing that could run out, and clusters.
type clusters struct {
	all     []cluster
	lots    []lot
	devices []int32
	wants   []int32
	plain   Set

	parent []int32
	owner  []int32
	// resources are those of the present cluster, local has the place of each
	// resource in it, if stamp has the number of the cluster.
	resources    []int32
	local, stamp []int32
	// place has the place of each want among those of the present cluster; supply is
	// how often the devices of the cluster can be used for each of these.
	place      []int32
	supply     []int64
	members    [][2]int32
	looks, key []byte
	units      []byte
	lotOf      []int32
}

// read finds the clusters, and what each can hold.
func (c *clusters) read(s *Solver, st *state) bool {
	u := &s.uses
	devices := st.problem.Devices
	c.all, c.lots, c.devices, c.wants, c.looks = c.all[:0], c.lots[:0], c.devices[:0], c.wants[:0], c.looks[:0]
	c.plain = zeroed(c.plain, Words(devices))
	c.parent = filled(c.parent, devices, nobody)
	c.owner = filled(c.owner, len(u.left), nobody)
	c.local = zeroed(c.local, len(u.left))
	c.stamp = zeroed(c.stamp, len(u.left))
	for d := range devices {
		c.link(s, u, d)
	}
	c.members = c.members[:0]
	for d := range devices {
		if c.parent[d] != nobody {
			c.members = append(c.members, [2]int32{c.root(int32(d)), int32(d)})
		}
	}
	slices.SortFunc(c.members, func(a, b [2]int32) int {
		if a[0] != b[0] {
			return int(a[0] - b[0])
		}
		return int(a[1] - b[1])
	})
	for i := 0; i < len(c.members); {
		j := i
		for j < len(c.members) && c.members[j][0] == c.members[i][0] {
			j++
		}
		if !c.gather(s, st, c.members[i:j]) {
			return false
		}
		i = j
	}
	return true
}

// link joins a device with those that take from the same resources.
func (c *clusters) link(s *Solver, u *uses, d int) {
	uses := u.at(d)
	if len(uses) == 0 {
		return
	}
	joined := u.several[d]
	if joined {
		c.join(int32(d), int32(d))
	}
	for i := range uses {
		for _, a := range u.amountsOf(&uses[i]) {
			joined = c.claim(s, u, a.Counter, d) || joined
		}
		for _, m := range u.marksOf(&uses[i]) {
			joined = true
			if m.resource != nobody {
				c.own(m.resource, d)
			} else {
				c.join(int32(d), int32(d))
			}
		}
	}
	for _, a := range u.charges[d] {
		joined = c.claim(s, u, a.Counter, d) || joined
	}
	if !joined {
		c.plain.Add(d)
	}
}

func (c *clusters) claim(s *Solver, u *uses, resource int32, d int) bool {
	if u.slack[resource] && !s.pack.watches(resource) {
		return false
	}
	c.own(resource, d)
	if s.pack.watches(resource) {
		c.own(s.pack.unitMarks+s.pack.unitOf[resource], d)
	}
	return true
}

// own joins a device with those that have the resource.
func (c *clusters) own(resource int32, d int) {
	if c.owner[resource] == nobody {
		c.owner[resource] = int32(d)
	}
	c.join(c.owner[resource], int32(d))
}

func (c *clusters) root(d int32) int32 {
	for c.parent[d] != d {
		c.parent[d] = c.parent[c.parent[d]]
		d = c.parent[d]
	}
	return d
}

// join makes two devices members of one cluster. Its root is its first device.
func (c *clusters) join(a, b int32) {
	for _, d := range [...]int32{a, b} {
		if c.parent[d] == nobody {
			c.parent[d] = d
		}
	}
	a, b = c.root(a), c.root(b)
	if a > b {
		a, b = b, a
	}
	c.parent[b] = a
}

// gather makes one cluster of its members. It looks up what a cluster that looks
// the same can hold, or else computes it.
func (c *clusters) gather(s *Solver, st *state, members [][2]int32) bool {
	u := &s.uses
	first, wants := len(c.lots), len(c.wants)
	c.place, c.supply = filled(c.place, len(s.wants.all), nobody), c.supply[:0]
	number := int32(len(c.all) + 1)
	c.resources = c.resources[:0]
	c.lotOf = c.lotOf[:0]
	for _, m := range members {
		d := m[1]
		s.steps += int64(len(u.at(int(d))))
		from := len(c.looks)
		c.looks = c.appendLooks(c.looks, s, u, int(d), number, wants)
		at := slices.IndexFunc(c.lots[first:], func(l lot) bool {
			return !u.several[d] && string(c.looks[l.looks:l.looksTo]) == string(c.looks[from:])
		})
		if at >= 0 {
			c.looks = c.looks[:from]
		} else {
			at = len(c.lots) - first
			c.lots = append(c.lots, lot{looks: int32(from), looksTo: int32(len(c.looks))})
		}
		c.lotOf = append(c.lotOf, int32(at))
	}
	lots := c.lots[first:]
	for l := range lots {
		lots[l].from = int32(len(c.devices))
		for i, at := range c.lotOf {
			if int(at) == l {
				c.devices = append(c.devices, members[i][1])
			}
		}
		lots[l].to = int32(len(c.devices))
		lots[l].most = lots[l].to - lots[l].from
		demand := 0
		for _, use := range u.at(int(c.devices[lots[l].from])) {
			demand += s.wants.all[use.want].demand
		}
		lots[l].most = min(lots[l].most, int32(demand))
	}
	from := len(c.looks)
	c.looks = s.pack.appendUnits(c.looks, s, c, number)
	c.units = c.looks[from:]
	c.all = append(c.all, cluster{
		from: int32(first), to: int32(len(c.lots)), wants: int32(wants), wantsTo: int32(len(c.wants)),
	})
	return c.fill(s, &c.all[len(c.all)-1])
}

// fill finds what the present cluster can hold.
func (c *clusters) fill(s *Solver, cluster *cluster) bool {
	u := &s.uses
	c.key = binary.AppendUvarint(c.key[:0], uint64(len(c.resources)))
	for _, r := range c.resources {
		c.key = binary.AppendUvarint(c.key, uint64(u.left[r]))
	}
	for _, l := range c.lots[cluster.from:cluster.to] {
		c.key = binary.AppendUvarint(c.key, uint64(l.most))
		c.key = append(c.key, c.looks[l.looks:l.looksTo]...)
	}
	for at, w := range c.wants[cluster.wants:cluster.wantsTo] {
		// More than there is to be had makes no difference.
		c.key = binary.AppendUvarint(c.key, uint64(min(int64(s.wants.all[w].demand), c.supply[at])))
	}
	c.key = append(c.key, c.units...)
	if fills, ok := s.filled.recall(c.key); ok {
		cluster.fills = fills
		return true
	}
	fills, ok := s.fills.compute(s, c, cluster)
	if ok {
		cluster.fills = fills
		s.filled.remember(c.key, fills)
	}
	return ok
}

// appendLooks describes a device by all that counts. Resources and wants are named by
// the order in which they occur in the cluster, whose wants are those from one on.
func (c *clusters) appendLooks(looks []byte, s *Solver, u *uses, d int, number int32, wants int) []byte {
	uses := u.at(d)
	looks = binary.AppendUvarint(looks, uint64(len(uses)))
	for i := range uses {
		use := &uses[i]
		looks = binary.AppendUvarint(looks, uint64(c.supplied(use, wants)))
		looks = binary.AppendUvarint(looks, use.seats)
		looks = binary.AppendUvarint(looks, uint64(use.most))
		looks = c.appendAmounts(looks, s, u, u.amountsOf(use), number)
		for _, m := range u.marksOf(use) {
			looks = binary.AppendUvarint(looks, uint64(m.column)+1)
			if m.resource != nobody {
				looks = binary.AppendUvarint(looks, uint64(c.name(m.resource, number))+1)
			} else {
				looks = append(looks, 0)
			}
		}
		looks = append(looks, 0)
		if use.pays {
			looks = append(looks, 1)
		} else {
			looks = append(looks, 0)
		}
	}
	return c.appendAmounts(looks, s, u, u.charges[d], number)
}

func (c *clusters) appendAmounts(looks []byte, s *Solver, u *uses, amounts []Amount, number int32) []byte {
	for _, a := range amounts {
		if u.slack[a.Counter] && !s.pack.watches(a.Counter) || a.Value == 0 {
			continue
		}
		looks = binary.AppendUvarint(looks, uint64(c.name(a.Counter, number))+1)
		looks = binary.AppendUvarint(looks, uint64(a.Value))
	}
	return append(looks, 0)
}

// supplied is the place of the want of a use among those of the present cluster.
func (c *clusters) supplied(use *use, wants int) int32 {
	at := c.place[use.want]
	if at == nobody {
		at = int32(len(c.wants) - wants)
		c.place[use.want] = at
		c.wants, c.supply = append(c.wants, use.want), append(c.supply, 0)
	}
	c.supply[at] += int64(use.most)
	return at
}

// of are the wants that use the devices of a cluster.
func (c *clusters) of(i int) []int32 { return c.wants[c.all[i].wants:c.all[i].wantsTo] }

// name is the place of a resource in the present cluster.
func (c *clusters) name(resource, number int32) int32 {
	if c.stamp[resource] != number {
		c.stamp[resource] = number
		c.local[resource] = int32(len(c.resources))
		c.resources = append(c.resources, resource)
	}
	return c.local[resource]
}
