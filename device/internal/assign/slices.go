// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

// zeroed returns a slice of n zero values, in the memory of s where it suffices.
func zeroed[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// filled returns a slice of n times v, in the memory of s where it suffices.
func filled(s []int32, n int, v int32) []int32 {
	s = zeroed(s, n)
	if v != 0 {
		for i := range s {
			s[i] = v
		}
	}
	return s
}

// roomy is how much of a list is worth keeping its memory for. A search that needs
// more is rare.
const roomy = 1 << 14
