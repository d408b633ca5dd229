// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/device/internal/assign"
)

func TestBlame(t *testing.T) {
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
		want    assign.Blame
	}{
		{"competing", competing, assign.Blame{Cause: assign.Competing, Requests: []int{0, 2}}},
		{"crowded", crowd, assign.Blame{Cause: assign.Crowded, Requests: []int{0, 1}}},
		{"unmet", unmet, assign.Blame{Cause: assign.Unmet, Constraint: 2, Requests: []int{0}}},
		{"overdrawn", overdrawn, assign.Blame{
			Cause: assign.Overdrawn, Requests: []int{0, 1, 2}, Counters: []int32{0, 2}, Wanted: 170, Left: 160,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := (&assign.Solver{}).Blame(&c.problem.Problem, plenty)
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestBlameIsTrue: who is blamed cannot be met, even if only the cause counts.
func TestBlameIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		budget := int64(1) << rapid.IntRange(4, 40).Draw(t, "budget")
		solver := &assign.Solver{}
		blame := solver.Blame(p, budget)
		checkBlame(t, p, blame)
		if possible := first(p) != nil; possible && blame.Cause != assign.Unknown || !possible && budget > 1<<30 && blame.Cause == assign.Unknown {
			t.Fatalf("possible is %t, got %+v\n%s", possible, blame, show(p))
		}
	})
}

func checkBlame(t *rapid.T, p *assign.Problem, b assign.Blame) {
	if b.Cause == assign.Unknown {
		return
	}
	q := *p
	q.Requests = nil
	for r, request := range p.Requests {
		choices := slices.Clone(request.Choices)
		for k := range choices {
			if !slices.Contains(b.Requests, r) {
				choices[k] = assign.Choice{Candidates: make(assign.Set, assign.Words(p.Devices))}
			}
			if b.Cause < assign.Overdrawn {
				choices[k].Draw = nil
			}
		}
		q.Requests = append(q.Requests, assign.Request{Claim: request.Claim, Choices: choices})
	}
	q.Constraints = nil
	if b.Cause == assign.Unmet {
		q.Constraints = p.Constraints[:b.Constraint+1]
	}
	if b.Cause < assign.Overdrawn {
		q.Charge = nil
	}
	if b.Cause < assign.Crowded {
		q.Limit = 1000
	}
	if b.Cause == assign.Overdrawn {
		q.Left = slices.Clone(p.Left)
		for c := range q.Left {
			if !slices.Contains(b.Counters, int32(c)) {
				q.Left[c] = 1000
			}
		}
	}
	if found := first(&q); found != nil {
		t.Fatalf("blamed %+v, but %v\n%s", b, found, show(p))
	}
}
