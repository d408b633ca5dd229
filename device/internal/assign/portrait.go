// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// portrait describes a state by all that matters to what can still be decided, and
// by nothing else: two states that read the same are the same but for the names of
// devices, counters and values. If one cannot be completed, the other cannot.
//
// Devices are described in clusters: those that are joined by a counter, by a value
// under a Distinct constraint, or by one under a Match that is open. Within a
// cluster a counter or value is named by the order in which it occurs, and the
// clusters are sorted by what they read.
type portrait struct {
	// ends is one more than the largest value of each constraint, names where the
	// values of each constraint are numbered from; the counters come first.
	ends, names []int32
	// slots are the choices that can still be made, accept what they accept.
	slots  []int32
	accept []Set
	bits   []uint64

	union    clusters
	drawn    []drawing
	text     []byte
	features []Amount
	marks    []mark
}

// drawing is the description of one cluster.
type drawing struct {
	root     int32
	from, to int
}

func (t *portrait) number(p *Problem) {
	t.ends = filled(t.ends, len(p.Constraints), 0)
	t.names = filled(t.names, len(p.Constraints)+1, int32(len(p.Left)))
	for c := range p.Constraints {
		t.ends[c] = p.Constraints[c].values()
		t.names[c+1] = t.names[c] + t.ends[c]
	}
}

// describe appends the key of a state, after wants has been read from it.
func (s *Solver) describe(st *state, key []byte) []byte {
	t := &s.portrait
	s.look(st)
	for r, chosen := range st.chosen {
		key = binary.AppendVarint(key, int64(chosen))
		key = binary.AppendVarint(key, int64(st.need[r]))
	}
	for _, slot := range t.slots {
		key = binary.AppendUvarint(key, uint64(slot)+1)
	}
	key = append(key, 0)
	for c, pin := range st.pins {
		switch {
		case pin != open:
			key = append(key, 2)
		case st.bound[c]:
			key = append(key, 1)
		default:
			key = append(key, 0)
		}
	}
	t.draw(s, st)
	slices.SortFunc(t.drawn, func(a, b drawing) int {
		return bytes.Compare(t.text[a.from:a.to], t.text[b.from:b.to])
	})
	for _, d := range t.drawn {
		key = binary.AppendUvarint(key, uint64(d.to-d.from))
		key = append(key, t.text[d.from:d.to]...)
	}
	s.steps += int64(len(key) / 8)
	return key
}

// look finds the choices that can still be made, and the devices they accept.
func (s *Solver) look(st *state) {
	t := &s.portrait
	size := Words(st.problem.Devices)
	t.slots, t.accept = t.slots[:0], t.accept[:0]
	t.bits = zeroed(t.bits, size*len(s.rules.slots))
	for _, r := range s.wants.live {
		for k := range s.rules.choices(int(r)) {
			if st.chosen[r] != open && st.chosen[r] != int32(k) {
				continue
			}
			slot := s.rules.slot(int(r), k)
			accept := Set(t.bits[slot*size : (slot+1)*size])
			if st.chosen[r] != open {
				copy(accept, s.wants.accept[r])
			} else if !s.viable(st, slot, accept) {
				continue
			}
			t.slots = append(t.slots, int32(slot))
			t.accept = append(t.accept, accept)
		}
	}
}

// draw describes the clusters.
func (t *portrait) draw(s *Solver, st *state) {
	devices := st.problem.Devices
	u := &t.union
	size := int(t.names[len(t.names)-1]) + max(0, len(s.uses.left)-s.uses.marksFrom)
	u.parent = filled(u.parent, devices, nobody)
	u.owner = filled(u.owner, size, nobody)
	u.local = zeroed(u.local, size)
	u.stamp = zeroed(u.stamp, size)
	for d := range devices {
		if !slices.ContainsFunc(t.accept, func(accept Set) bool { return accept.Has(d) }) {
			continue
		}
		u.join(int32(d), int32(d))
		t.features = t.appendFeatures(t.features[:0], s, st, d)
		for _, f := range t.features {
			if f.Counter == nobody {
				continue
			}
			if u.owner[f.Counter] == nobody {
				u.owner[f.Counter] = int32(d)
			}
			u.join(u.owner[f.Counter], int32(d))
		}
	}
	t.drawn, t.text = t.drawn[:0], t.text[:0]
	for root := range devices {
		if u.parent[root] != int32(root) {
			continue
		}
		one := drawing{root: int32(root), from: len(t.text)}
		u.resources = u.resources[:0]
		for d := root; d < devices; d++ {
			if u.parent[d] != nobody && u.root(int32(d)) == int32(root) {
				t.text = t.appendDevice(t.text, s, st, d, int32(root)+1)
			}
		}
		t.text = s.pack.appendUnits(t.text, s, u, int32(root)+1)
		for _, r := range u.resources {
			if int(r) < len(st.left) {
				t.text = binary.AppendUvarint(t.text, uint64(st.left[r]))
			}
		}
		one.to = len(t.text)
		t.drawn = append(t.drawn, one)
	}
}

// appendFeatures appends the counters that a device takes from, and the values
// that matter.
func (t *portrait) appendFeatures(features []Amount, s *Solver, st *state, d int) []Amount {
	for _, a := range st.charge(d) {
		if a.Value > 0 {
			features = append(features, a)
		}
	}
	for i, slot := range t.slots {
		if !t.accept[i].Has(d) {
			continue
		}
		s.steps++
		features = t.appendOf(features, s, st, int(slot), d)
	}
	return features
}

// appendOf appends those that are of one choice only.
func (t *portrait) appendOf(features []Amount, s *Solver, st *state, slot, d int) []Amount {
	at := &s.rules.slots[slot]
	if !at.Observe {
		for _, a := range at.draw(d) {
			if a.Value > 0 {
				features = append(features, a)
			}
		}
	}
	if s.pack.active && !at.Observe {
		t.marks = s.pack.appendMarks(t.marks[:0], s, slot, d)
		for _, m := range t.marks {
			f := Amount{Counter: nobody, Value: int64(m.column)}
			if m.resource != nobody {
				f.Counter = t.mark(s, m.resource)
			}
			features = append(features, f)
		}
		if u := s.pack.unitOfDevice[d]; u >= 0 {
			features = append(features, Amount{Counter: t.mark(s, s.pack.unitMarks+u)})
		}
	}
	for _, rule := range s.rules.of(slot) {
		if rule.values.One[d] == Exempt || rule.kind == Match && st.pins[rule.constraint] != open {
			continue
		}
		for _, v := range rule.values.list(d) {
			if rule.kind == Match && st.bound[rule.constraint] && !slices.Contains(st.values[rule.constraint], v) {
				continue
			}
			features = append(features, Amount{Counter: t.names[rule.constraint] + v})
		}
	}
	return features
}

func (t *portrait) appendDevice(text []byte, s *Solver, st *state, d int, number int32) []byte {
	shared := byte(1)
	if st.problem.Shared.Has(d) {
		shared = 2
	}
	text = append(text, shared)
	t.features = t.features[:0]
	for _, a := range st.charge(d) {
		if a.Value > 0 {
			t.features = append(t.features, a)
		}
	}
	text = t.appendNames(text, number)
	for i, slot := range t.slots {
		if !t.accept[i].Has(d) {
			continue
		}
		text = binary.AppendUvarint(text, uint64(slot)+1)
		t.features = t.appendOf(t.features[:0], s, st, int(slot), d)
		text = t.appendNames(text, number)
	}
	return append(text, 0)
}

// mark is the name of what a use breaks.
func (t *portrait) mark(s *Solver, resource int32) int32 {
	return t.names[len(t.names)-1] + resource - int32(s.uses.marksFrom)
}

func (t *portrait) appendNames(text []byte, number int32) []byte {
	const nameless = 1 << 31
	for _, f := range t.features {
		if f.Counter == nobody {
			text = binary.AppendUvarint(text, nameless)
			text = binary.AppendUvarint(text, uint64(f.Value))
			continue
		}
		text = binary.AppendUvarint(text, uint64(t.union.name(f.Counter, number))+1)
		text = binary.AppendUvarint(text, uint64(f.Value))
	}
	return append(text, 0)
}

// looksOf describes the values that a Match could be pinned to, by the cluster
// that each is in and its name there. It needs the portrait of the state.
func (s *Solver) looksOf(f *frame, match int) {
	t := &s.portrait
	f.looks = slices.Grow(f.looks[:0], len(f.options))[:len(f.options)]
	for i, v := range f.options {
		f.looks[i] = f.looks[i][:0]
		if t.union.owner[t.names[match]+v] == nobody {
			continue
		}
		name := t.names[match] + v
		root := t.union.root(t.union.owner[name])
		at := slices.IndexFunc(t.drawn, func(d drawing) bool { return d.root == root })
		f.looks[i] = binary.AppendUvarint(f.looks[i], uint64(t.union.local[name])+1)
		f.looks[i] = append(f.looks[i], t.text[t.drawn[at].from:t.drawn[at].to]...)
	}
}
