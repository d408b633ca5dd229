// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import "encoding/binary"

// memory remembers a number for each key. It keeps its space when it forgets.
type memory struct {
	table []int32
	// entries are the keys in the order in which they came, keys what they say.
	entries []entry
	keys    []byte
}

type entry struct {
	hash     uint64
	from, to int
	value    int32
}

func (m *memory) forget() {
	if len(m.entries) > roomy {
		*m = memory{}
	}
	if len(m.entries) > 0 {
		clear(m.table)
	}
	m.entries, m.keys = m.entries[:0], m.keys[:0]
}

func (m *memory) recall(key []byte) (value int32, ok bool) {
	if len(m.entries) == 0 {
		return 0, false
	}
	if i := m.table[m.place(hashOf(key), key)]; i > 0 {
		return m.entries[i-1].value, true
	}
	return 0, false
}

// remember keeps the value for a key, in place of what it was before.
func (m *memory) remember(key []byte, value int32) {
	if 2*len(m.entries) >= len(m.table) {
		m.grow()
	}
	hash := hashOf(key)
	if i := m.table[m.place(hash, key)]; i > 0 {
		m.entries[i-1].value = value
		return
	}
	e := entry{hash: hash, from: len(m.keys), to: len(m.keys) + len(key), value: value}
	m.keys = append(m.keys, key...)
	m.entries = append(m.entries, e)
	m.table[m.place(e.hash, key)] = int32(len(m.entries))
}

// place is where in the table the key is, or belongs.
func (m *memory) place(hash uint64, key []byte) int {
	mask := len(m.table) - 1
	for at := int(hash) & mask; ; at = (at + 1) & mask {
		i := m.table[at]
		if i == 0 {
			return at
		}
		if e := &m.entries[i-1]; e.hash == hash && string(m.keys[e.from:e.to]) == string(key) {
			return at
		}
	}
}

func (m *memory) grow() {
	m.table = zeroed(m.table, max(64, 2*len(m.table)))
	for i := range m.entries {
		e := &m.entries[i]
		m.table[m.place(e.hash, m.keys[e.from:e.to])] = int32(i + 1)
	}
}

func hashOf(key []byte) uint64 {
	const prime = 0x9e3779b97f4a7c15
	hash := uint64(len(key)) * prime
	for ; len(key) >= 8; key = key[8:] {
		hash = (hash ^ binary.LittleEndian.Uint64(key)) * prime
		hash ^= hash >> 29
	}
	for _, b := range key {
		hash = (hash ^ uint64(b)) * prime
	}
	return hash ^ hash>>32
}
