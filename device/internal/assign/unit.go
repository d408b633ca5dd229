// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"encoding/binary"
	"slices"
)

// unit is a cluster of counters and the devices that charge them.
type unit struct {
	whole bool
	// from and to are where its parts are; the largest comes first.
	from, to int32
}

// part is a partition that may be left: an idle device of a unit.
type part struct {
	device int32
	// size is how many devices of the unit take no more than this one of any
	// counter.
	size int32
}

// survey finds the units.
func (k *packing) survey(s *Solver, st *state) {
	p := st.problem
	k.units, k.parts, k.devices = k.units[:0], k.parts[:0], k.devices[:0]
	k.unitOf = filled(k.unitOf, len(p.Left), nobody)
	k.unitOfDevice = filled(k.unitOfDevice, p.Devices, nobody)
	union := &s.portrait.union
	union.parent = filled(union.parent, len(p.Left), nobody)
	for _, charge := range p.Charge {
		first := nobody
		for _, a := range charge {
			if a.Value == 0 {
				continue
			}
			if first == nobody {
				first = a.Counter
			}
			union.join(first, a.Counter)
		}
	}
	for counter := range p.Left {
		if union.parent[counter] == nobody {
			continue
		}
		root := union.root(int32(counter))
		if root == int32(counter) {
			k.unitOf[counter] = int32(len(k.units))
			k.units = append(k.units, unit{whole: true})
		}
		k.unitOf[counter] = k.unitOf[root]
	}
	for d, charge := range p.Charge {
		if i := slices.IndexFunc(charge, func(a Amount) bool { return a.Value > 0 }); i >= 0 {
			k.unitOfDevice[d] = k.unitOf[charge[i].Counter]
			k.devices = append(k.devices, int32(d))
		}
	}
	slices.SortStableFunc(k.devices, func(a, b int32) int { return int(k.unitOfDevice[a] - k.unitOfDevice[b]) })
	for from := 0; from < len(k.devices); {
		number := k.unitOfDevice[k.devices[from]]
		to := from
		for to < len(k.devices) && k.unitOfDevice[k.devices[to]] == number {
			to++
		}
		k.measure(s, p, &k.units[number], k.devices[from:to])
		from = to
	}
}

// measure finds the parts of a unit.
func (k *packing) measure(s *Solver, p *Problem, u *unit, devices []int32) {
	u.from = int32(len(k.parts))
	for _, d := range devices {
		u.whole = u.whole && k.idle.Has(int(d))
		if !p.Idle.Has(int(d)) {
			continue
		}
		one := part{device: d}
		for _, e := range devices {
			s.steps += int64(len(p.Charge[e]))
			if covers(p.Charge[d], p.Charge[e]) {
				one.size++
			}
		}
		k.parts = append(k.parts, one)
	}
	parts := k.parts[u.from:]
	slices.SortStableFunc(parts, func(a, b part) int { return int(b.size - a.size) })
	parts = slices.CompactFunc(parts, func(a, b part) bool {
		return a.size == b.size && slices.Equal(p.Charge[a.device], p.Charge[b.device])
	})
	k.parts = k.parts[:int(u.from)+len(parts)]
	u.to = int32(len(k.parts))
}

// covers says whether a takes at least as much of each counter as b.
func covers(a, b []Amount) bool {
	for i, one := range b {
		if amountOf(b[:i], one.Counter) > 0 {
			continue
		}
		if amountOf(b, one.Counter) > amountOf(a, one.Counter) {
			return false
		}
	}
	return true
}

func amountOf(amounts []Amount, counter int32) int64 {
	sum := int64(0)
	for _, a := range amounts {
		if a.Counter == counter {
			sum = plus(sum, a.Value)
		}
	}
	return sum
}

// watches says whether what is left of a counter matters, even if it suffices.
func (k *packing) watches(resource int32) bool {
	if !k.active || int(resource) >= len(k.unitOf) || k.unitOf[resource] < 0 {
		return false
	}
	u := k.units[k.unitOf[resource]]
	return u.from < u.to
}

// appendUnits names the counters of the units that the present cluster takes from,
// and describes their parts.
func (k *packing) appendUnits(looks []byte, s *Solver, c *clusters, number int32) []byte {
	if !k.active {
		return looks
	}
	for i := 0; i < len(c.resources); i++ {
		u, first := k.unitAt(c, i)
		if !first {
			continue
		}
		looks = binary.AppendUvarint(looks, uint64(i)+1)
		for _, part := range k.parts[k.units[u].from:k.units[u].to] {
			looks = binary.AppendUvarint(looks, uint64(part.size)+1)
			for _, a := range s.problem.Charge[part.device] {
				if a.Value == 0 {
					continue
				}
				looks = binary.AppendUvarint(looks, uint64(c.name(a.Counter, number))+1)
				looks = binary.AppendUvarint(looks, uint64(a.Value))
			}
			looks = append(looks, 0)
		}
		looks = append(looks, 0)
	}
	return append(looks, 0)
}

// unitAt returns the unit of a resource of the present cluster, if it is the first
// of that unit.
func (k *packing) unitAt(c *clusters, i int) (unit int32, first bool) {
	if !k.watches(c.resources[i]) {
		return nobody, false
	}
	unit = k.unitOf[c.resources[i]]
	return unit, !slices.ContainsFunc(c.resources[:i], func(r int32) bool {
		return int(r) < len(k.unitOf) && k.unitOf[r] == unit
	})
}

// settle adds the price of what is left of a unit.
func (k *packing) settle(s *Solver, c *clusters, number int32, left, price []int64) {
	u := &k.units[number]
	parts := k.parts[u.from:u.to]
	before := k.largest(s, parts, func(counter int32) int64 { return s.uses.left[counter] })
	after := k.largest(s, parts, func(counter int32) int64 { return left[c.local[counter]] })
	price[shrinks] += int64(before - after)
}

// largest is the size of the largest part that what is left would pay for.
func (k *packing) largest(s *Solver, parts []part, left func(counter int32) int64) int32 {
	for _, part := range parts {
		s.steps++
		charge := s.problem.Charge[part.device]
		if !slices.ContainsFunc(charge, func(a Amount) bool { return a.Value > 0 && amountOf(charge, a.Counter) > left(a.Counter) }) {
			return part.size
		}
	}
	return 0
}
