// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import "math/bits"

// Set is a set of devices, by their numbers. Its length fits the number of devices,
// or it is nil and has no members.
type Set []uint64

// Words is how long a Set of n devices is.
func Words(n int) int { return (n + 63) / 64 }

// Has says whether i is a member.
func (s Set) Has(i int) bool { return i/64 < len(s) && s[i/64]&(1<<(i%64)) != 0 }

// Add makes i a member.
func (s Set) Add(i int) { s[i/64] |= 1 << (i % 64) }

// Drop makes i no member.
func (s Set) Drop(i int) { s[i/64] &^= 1 << (i % 64) }

// Count returns how many members there are.
func (s Set) Count() int {
	n := 0
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// Next returns the first member from i on, or -1.
func (s Set) Next(i int) int {
	for w := i / 64; w < len(s); w++ {
		word := s[w]
		if w == i/64 {
			word &= ^uint64(0) << (i % 64)
		}
		if word != 0 {
			return w*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// Common returns the first member that s and t share, or -1.
func (s Set) Common(t Set) int {
	for w, word := range s {
		if word &= t[w]; word != 0 {
			return w*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
}
