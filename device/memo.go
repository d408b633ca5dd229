// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "sync"

// memo remembers what was derived from something that does not change, at most
// size results. It is safe for concurrent use. The zero value is empty.
type memo[K comparable, V any] struct {
	mu    sync.RWMutex
	known map[K]V
	// order has the keys, the oldest first.
	order []K
}

// memoSize is how many results of a kind a pool remembers.
const memoSize = 64

func (m *memo[K, V]) find(key K) (V, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok := m.known[key]
	return v, ok
}

// keep remembers a result and returns it, or the one that somebody else kept in
// the meantime.
func (m *memo[K, V]) keep(key K, made V) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.known[key]; ok {
		return v
	}
	if m.known == nil {
		m.known = map[K]V{}
	}
	if len(m.order) >= memoSize {
		delete(m.known, m.order[0])
		m.order = append(m.order[:0], m.order[1:]...)
	}
	m.known[key] = made
	m.order = append(m.order, key)
	return made
}
