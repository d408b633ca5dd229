// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// A benchCase compares two ways to the same answer.
type benchCase struct {
	name, unit string
	// prepare makes what the case needs, when its turn has come, and checks that
	// both sides give the answer that is expected of them.
	prepare func() (upstream, ours side, err error)
}

// cases are in the order of the table.
var cases []benchCase

// register puts a case into the table; call it from an init function. The unit is
// that of both sides' figures: "ns", "ms", "allocs", or "x" for a factor.
func register(name, unit string, prepare func() (upstream, ours side, err error)) {
	cases = append(cases, benchCase{name: name, unit: unit, prepare: prepare})
}

// A side takes one figure of a case.
type side func(m *meter) (float64, error)

// errLimit is returned by a side that was stopped.
var errLimit = errors.New("stopped at the limit")

// meter says how to measure.
type meter struct {
	rounds        int
	sample, limit time.Duration
}

type result struct {
	Case     string  `json:"case"`
	Unit     string  `json:"unit"`
	Upstream float64 `json:"upstream"`
	Ours     float64 `json:"ours"`
	Ratio    float64 `json:"ratio"`
	// AtLeast: upstream was stopped, so it is slower than this.
	AtLeast bool `json:"atLeast,omitempty"`
}

func (m *meter) measure(c benchCase) (result, error) {
	r := result{Case: c.name, Unit: c.unit}
	upstream, ours, err := c.prepare()
	if err != nil {
		return r, err
	}
	var theirs, own []float64
	for range m.rounds {
		if !r.AtLeast {
			figure, err := upstream(m)
			if r.AtLeast = errors.Is(err, errLimit); err != nil && !r.AtLeast {
				return r, fmt.Errorf("upstream: %w", err)
			}
			theirs = append(theirs, figure)
		}
		figure, err := ours(m)
		if err != nil {
			return r, fmt.Errorf("ours: %w", err)
		}
		own = append(own, figure)
	}
	r.Upstream, r.Ours = median(theirs), median(own)
	if r.AtLeast {
		r.Upstream = slices.Max(theirs)
	}
	// A difference below 1 counts for nothing: refusing without a single
	// allocation is not infinitely better than with one.
	r.Ratio = r.Upstream / max(r.Ours, floor(c.unit))
	return r, nil
}

func floor(unit string) float64 {
	if unit == "allocs" {
		return 1
	}
	return 1e-9
}

func median(figures []float64) float64 {
	slices.Sort(figures)
	middle := len(figures) / 2
	if len(figures)%2 == 1 {
		return figures[middle]
	}
	return (figures[middle-1] + figures[middle]) / 2
}

// nanoseconds is how long op takes, on average over as many turns as fill the
// time of a sample.
func nanoseconds(op func()) side {
	return func(m *meter) (float64, error) { return float64(m.time(op)), nil }
}

// milliseconds is nanoseconds for what takes long.
func milliseconds(op func()) side {
	return func(m *meter) (float64, error) { return float64(m.time(op)) / 1e6, nil }
}

// time does op in batches that grow until one takes long enough, so that reading
// the clock is no part of the figure.
func (m *meter) time(op func()) time.Duration {
	for n := 1; ; {
		start := time.Now()
		for range n {
			op()
		}
		took := time.Since(start)
		if took >= m.sample {
			return took / time.Duration(n)
		}
		// Aim a little beyond the time wanted, and never jump too far from a figure
		// that is not worth much yet.
		grown := int(1.2 * float64(n) * float64(m.sample) / float64(max(took, 1)))
		n = min(max(grown, n+1), 100*n)
	}
}

// millisecondsUntilLimit is how long op takes once. When the limit comes first,
// op has to return soon after its context has ended.
func millisecondsUntilLimit(op func(context.Context)) side {
	return func(m *meter) (float64, error) {
		ctx, cancel := context.WithTimeout(context.Background(), m.limit)
		defer cancel()
		start := time.Now()
		op(ctx)
		took := float64(time.Since(start)) / 1e6
		if ctx.Err() != nil {
			return took, errLimit
		}
		if took > float64(m.sample)/1e6 {
			return took, nil
		}
		return float64(m.time(func() { op(context.Background()) })) / 1e6, nil
	}
}

// allocations is how many objects op allocates on the heap.
func allocations(op func()) side {
	return func(*meter) (float64, error) {
		const turns = 100
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		op()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range turns {
			op()
		}
		runtime.ReadMemStats(&after)
		return float64((after.Mallocs - before.Mallocs) / turns), nil
	}
}

// growth is how many times more one figure is than another.
func growth(large, small side) side {
	return func(m *meter) (float64, error) {
		above, err := large(m)
		if err != nil {
			return 0, err
		}
		below, err := small(m)
		if err != nil {
			return 0, err
		}
		return above / below, nil
	}
}
