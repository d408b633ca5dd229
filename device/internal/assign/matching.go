// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

// matching gives devices that are used once to wants, when nothing else is to be
// minded. It is a maximum matching, found along augmenting paths: a want without a
// spare device asks those who hold its candidates whether they can take another,
// and these ask on. Each is asked once a path.
type matching struct {
	// owner has the want of each device, or nobody. spare are the others.
	owner []int32
	spare Set
	steps *int64

	// A path: the wants reached, in the order in which they were, from whom, and by
	// which device of theirs.
	queue, from, via []int32
	seen             []bool
}

const nobody int32 = -1

// reset makes the devices of the set spare.
func (m *matching) reset(devices Set, wants int) {
	m.spare = append(m.spare[:0], devices...)
	m.owner = filled(m.owner, 64*len(devices), nobody)
	m.from, m.via, m.seen = zeroed(m.from, wants), zeroed(m.via, wants), zeroed(m.seen, wants)
	m.queue = m.queue[:0]
}

// augment gives the want one device more, whoever has to take another for it.
func (m *matching) augment(want int, wants []want) bool {
	clear(m.seen)
	m.queue = append(m.queue[:0], int32(want))
	m.seen[want] = true
	for i := 0; i < len(m.queue); i++ {
		w := int(m.queue[i])
		accept := wants[w].accept
		*m.steps += int64(len(accept))
		if d := accept.Common(m.spare); d >= 0 {
			m.spare.Drop(d)
			for ; w != want; w = int(m.from[w]) {
				m.owner[d] = int32(w)
				d = int(m.via[w])
			}
			m.owner[d] = int32(want)
			return true
		}
		for d := accept.Next(0); d >= 0; d = accept.Next(d + 1) {
			*m.steps++
			if holder := m.owner[d]; holder != nobody && !m.seen[holder] {
				m.seen[holder] = true
				m.from[holder], m.via[holder] = int32(w), int32(d)
				m.queue = append(m.queue, holder)
			}
		}
	}
	return false
}
