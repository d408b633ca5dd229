// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/device/internal/assign"
)

// FuzzSolve: whatever the problem, each answer breaks no rule, the strategies and a
// solver that was used before agree about whether there is one, and the core of an
// impossible problem is impossible.
func FuzzSolve(f *testing.F) {
	f.Add([]byte{})
	reused := &assign.Solver{}
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		p := draw(t)
		verdicts := map[bool]bool{}
		for _, strategy := range []assign.Strategy{assign.InOrder, assign.Packed} {
			for _, solver := range []*assign.Solver{{}, reused} {
				verdict := solver.Solve(p, strategy, 1_000_000)
				switch verdict {
				case assign.Ended:
					continue
				case assign.Found, assign.Settled:
					if answer := solver.Answer(); !check(p, answer.Choices, answer.Devices) {
						t.Fatalf("wrong: %v\n%s", answer, show(p))
					}
				}
				verdicts[verdict == assign.Impossible] = true
			}
		}
		if len(verdicts) > 1 {
			t.Fatalf("possible and impossible\n%s", show(p))
		}
		if !verdicts[true] {
			return
		}
		core := only(p, reused.Core(p, 1_000_000))
		if verdict := reused.Solve(core, assign.InOrder, 1_000_000); verdict == assign.Found || verdict == assign.Settled {
			t.Fatalf("the core of an impossible problem is possible\n%s", show(core))
		}
	}))
}
