// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/binary"
	"slices"
)

// The nodes of a cluster are much alike: what a selector says about their devices,
// and the values that constraints compare, are the same on most of them, though each
// device has a serial number of its own. So what pools remember of that is one piece
// of memory for all of which it is true. A search that goes through 5,000 nodes then
// finds it in the cache of the processor; a piece per pool would be a wait of about
// 60 ns for each node and piece, which is what BenchmarkNodes was spending most of
// its time on.

// share returns a row that says the same about devices, which is complete.
func (r *verdictRow) share() *verdictRow {
	said := make([]byte, len(r.devices))
	for i := range r.devices {
		said[i] = byte(r.devices[i].Load())
	}
	return r.program.rows.keep(string(said), r)
}

// sharedColumn is all that there is to say about a column.
type sharedColumn struct {
	key    columnKey
	values string
}

// shareColumn returns a column that has the same values. Those with lists or
// failures are rare and stay what they are.
func (s *Selectors) shareColumn(c *column) *column {
	if c.Lists != nil || c.failed != nil {
		return c
	}
	b := binary.AppendUvarint(nil, uint64(len(c.One)))
	for _, number := range c.One {
		b = binary.AppendVarint(b, int64(number))
	}
	for _, v := range c.values {
		b = appendValue(b, v)
	}
	return s.columns.keep(sharedColumn{key: c.key, values: string(b)}, c)
}

// shareSpread returns a spread of the same columns, which are shared themselves.
func (s *Selectors) shareSpread(made *spread) *spread {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.spreads {
		if slices.Equal(known.of, made.of) && slices.Equal(known.columns, made.columns) {
			return known
		}
	}
	if len(s.spreads) >= memoSize {
		s.spreads = append(s.spreads[:0], s.spreads[1:]...)
	}
	s.spreads = append(s.spreads, made)
	return made
}
