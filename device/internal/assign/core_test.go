// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/device/internal/assign"
)

func TestCore(t *testing.T) {
	competing := free(5)
	competing.want(0, competing.all(), 3).want(0, make(assign.Set, 1), 0).want(0, competing.all(), 3)
	crowd := free(40)
	crowd.want(0, crowd.all(), 20).want(0, crowd.all(), 13).want(1, crowd.all(), 1)
	unmet := free(16)
	unmet.want(0, unmet.all(), 4).want(0, unmet.all(), 4).want(1, unmet.all(), 1)
	unmet.under(assign.Match, unmet.values(func(d int) int { return d % 2 }), 0, 1)
	unmet.under(assign.Match, unmet.values(func(d int) int { return d % 4 }), 0)
	unmet.under(assign.Match, unmet.values(func(d int) int { return d / 8 }), 0)
	overdrawn := mig(2)
	overdrawn.want(0, overdrawn.of(quarter), 1).want(0, overdrawn.of(half), 3).want(0, overdrawn.of(small), 3)
	for _, c := range []struct {
		name    string
		problem *node
		want    []int
	}{
		{"competing", competing, []int{0, 2}},
		{"crowded", crowd, []int{0, 1}},
		{"unmet", unmet, []int{0}},
		{"overdrawn", overdrawn, []int{0, 1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := (&assign.Solver{}).Core(&c.problem.Problem, plenty); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// The requests of the core cannot be met, and could be without any one of them unless
// the budget was small.
func TestCoreIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		if first(p) != nil {
			return
		}
		budget := int64(1) << rapid.IntRange(4, 40).Draw(t, "budget")
		core := (&assign.Solver{}).Core(p, budget)
		if found := first(only(p, core)); found != nil {
			t.Fatalf("core %v, but %v\n%s", core, found, show(p))
		}
		for i := range core {
			if rest := slices.Delete(slices.Clone(core), i, i+1); budget > 1<<30 && first(only(p, rest)) == nil {
				t.Fatalf("core %v, but %v cannot be met either\n%s", core, rest, show(p))
			}
		}
	})
}

// only is the problem in which the other requests want nothing.
func only(p *assign.Problem, requests []int) *assign.Problem {
	q := *p
	q.Requests = slices.Clone(p.Requests)
	for r := range q.Requests {
		if !slices.Contains(requests, r) {
			q.Requests[r].Choices = make([]assign.Choice, len(q.Requests[r].Choices))
			for k := range q.Requests[r].Choices {
				q.Requests[r].Choices[k].Candidates = make(assign.Set, assign.Words(p.Devices))
			}
		}
	}
	return &q
}
