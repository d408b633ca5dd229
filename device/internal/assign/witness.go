// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import "slices"

// witness is one way to complete a state: the choices of all requests, and the
// devices that are yet to be given.
type witness struct {
	choices []int32
	devices [][]int32
}

func (w *witness) reset(requests int) {
	w.choices = filled(w.choices, requests, open)
	if cap(w.devices) < requests {
		w.devices = append(w.devices[:cap(w.devices)], make([][]int32, requests-cap(w.devices))...)
	}
	w.devices = w.devices[:requests]
	for r := range w.devices {
		w.devices[r] = w.devices[r][:0]
	}
}

func (w *witness) copy(from *witness) {
	w.reset(len(from.choices))
	copy(w.choices, from.choices)
	for r := range w.devices {
		w.devices[r] = append(w.devices[r], from.devices[r]...)
	}
}

// holder finds a request that has a device, and where.
func (w *witness) holder(device int) (request, place int) {
	for r := range w.devices {
		if i := slices.Index(w.devices[r], int32(device)); i >= 0 {
			return r, i
		}
	}
	return -1, 0
}

// holds says whether the witness completes a state, by doing it.
func (s *Solver) holds(st *state, w *witness) bool {
	s.probe.copy(st)
	for r := range w.devices {
		if s.probe.chosen[r] == open && !s.probe.choose(r, int(w.choices[r])) {
			return false
		}
	}
	for r, devices := range w.devices {
		for _, d := range devices {
			s.steps++
			if !s.probe.give(r, int(d)) {
				return false
			}
		}
	}
	return !slices.ContainsFunc(s.probe.need, func(need int32) bool { return need > 0 })
}
