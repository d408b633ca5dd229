// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/device/internal/assign"
)

const plenty = 1 << 40

// draw makes small problems in which everything may come together.
func draw(t *rapid.T) *assign.Problem {
	p := &assign.Problem{Devices: rapid.IntRange(1, 7).Draw(t, "devices")}
	n := p.Devices
	claims := rapid.IntRange(1, 2).Draw(t, "claims")
	p.Limit = rapid.SampledFrom([]int{32, 32, 32, 4, 3}).Draw(t, "limit")
	set := func(name string, odds int) assign.Set {
		s := make(assign.Set, assign.Words(n))
		for d := range n {
			if rapid.IntRange(0, 9).Draw(t, name) < odds {
				s.Add(d)
			}
		}
		return s
	}
	counters := rapid.IntRange(0, 3).Draw(t, "counters")
	for range counters {
		p.Left = append(p.Left, rapid.Int64Range(-1, 6).Draw(t, "left"))
	}
	amounts := func(name string) []assign.Amount {
		var list []assign.Amount
		for c := range counters {
			if v := rapid.Int64Range(-2, 3).Draw(t, name); v >= 0 {
				list = append(list, assign.Amount{Counter: int32(c), Value: v})
			}
		}
		return list
	}
	perDevice := func(name string) [][]assign.Amount {
		list := make([][]assign.Amount, n)
		for d := range list {
			list[d] = amounts(name)
		}
		return list
	}
	if counters > 0 && rapid.Bool().Draw(t, "charged") {
		p.Charge = perDevice("charge")
	}
	if rapid.IntRange(0, 2).Draw(t, "sharing") == 0 {
		p.Shared = set("shared", 4)
	}
	p.Idle = set("idle", 8)
	for range rapid.IntRange(0, 2).Draw(t, "levels") {
		level := make([]int32, n)
		for d := range level {
			level[d] = rapid.Int32Range(-1, 2).Draw(t, "group")
		}
		p.Topology = append(p.Topology, level)
	}
	alike := set("candidates", 8)
	for range rapid.IntRange(1, 4).Draw(t, "requests") {
		request := assign.Request{Claim: rapid.IntRange(0, claims-1).Draw(t, "claim")}
		for range rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "choices") {
			choice := assign.Choice{
				Count:      rapid.SampledFrom([]int{1, 1, 2, 2, 3, 0}).Draw(t, "count"),
				All:        rapid.IntRange(0, 7).Draw(t, "all") == 0,
				Observe:    rapid.IntRange(0, 7).Draw(t, "observe") == 0,
				Candidates: alike,
			}
			if rapid.Bool().Draw(t, "selective") {
				choice.Candidates = set("candidates", 6)
			}
			if counters > 0 && rapid.IntRange(0, 2).Draw(t, "drawing") == 0 {
				choice.Draw = perDevice("draw")
			}
			request.Choices = append(request.Choices, choice)
		}
		p.Requests = append(p.Requests, request)
	}
	for range rapid.SampledFrom([]int{0, 0, 1, 1, 2, 3}).Draw(t, "constraints") {
		p.Constraints = append(p.Constraints, drawConstraint(t, p))
	}
	return p
}

func drawConstraint(t *rapid.T, p *assign.Problem) assign.Constraint {
	c := assign.Constraint{Kind: rapid.SampledFrom([]assign.Kind{assign.Match, assign.Distinct}).Draw(t, "kind")}
	values := func() *assign.Values {
		v := &assign.Values{One: make([]int32, p.Devices), Lists: map[int32][]int32{}}
		for d := range v.One {
			v.One[d] = rapid.SampledFrom([]int32{0, 1, 2, 0, 1, 2, 3, assign.Exempt, assign.None, assign.Many}).Draw(t, "value")
			if v.One[d] == assign.Many {
				v.Lists[int32(d)] = rapid.SliceOfNDistinct(rapid.Int32Range(0, 3), 1, 3, rapid.ID[int32]).Draw(t, "list")
			}
		}
		return v
	}
	all := values()
	for r := range p.Requests {
		for k := range p.Requests[r].Choices {
			switch rapid.IntRange(0, 5).Draw(t, "member") {
			case 0:
			case 1:
				c.Members = append(c.Members, assign.Member{Request: r, Choice: k, Values: values()})
			default:
				c.Members = append(c.Members, assign.Member{Request: r, Choice: k, Values: all})
			}
		}
	}
	return c
}

func show(p *assign.Problem) string {
	text := fmt.Sprintf("devices %d left %v charge %v shared %v limit %d idle %v topology %v\n", p.Devices, p.Left, p.Charge, p.Shared, p.Limit, p.Idle, p.Topology)
	for r, request := range p.Requests {
		text += fmt.Sprintf("  request %d of claim %d\n", r, request.Claim)
		for _, c := range request.Choices {
			text += fmt.Sprintf("    %+v\n", c)
		}
	}
	for _, c := range p.Constraints {
		text += fmt.Sprintf("  kind %d", c.Kind)
		for _, m := range c.Members {
			text += fmt.Sprintf(" (%d %d %v)", m.Request, m.Choice, *m.Values)
		}
		text += "\n"
	}
	return text
}

type solution struct {
	choices []int
	devices [][]int32
}

func keep(choices []int, devices [][]int32) solution {
	s := solution{choices: slices.Clone(choices)}
	for _, d := range devices {
		s.devices = append(s.devices, append([]int32{}, d...))
	}
	return s
}

func first(p *assign.Problem) (found *solution) {
	solutions(p, func(choices []int, devices [][]int32) bool {
		s := keep(choices, devices)
		found = &s
		return false
	})
	return found
}

// TestInOrderIsFirst: there is a solution exactly when a search of everything finds
// one, and InOrder answers with the one that it finds first.
func TestInOrderIsFirst(t *testing.T) {
	reused := &assign.Solver{}
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		want := first(p)
		defer func() {
			if e := recover(); e != nil && strings.Contains(fmt.Sprint(e), "runtime") {
				t.Fatalf("%v %v\n%s", e, want, show(p))
			} else if e != nil {
				panic(e)
			}
		}()
		for _, solver := range []*assign.Solver{{}, reused} {
			verdict := solver.Solve(p, assign.InOrder, plenty)
			if want == nil {
				if verdict != assign.Impossible {
					t.Fatalf("verdict %d, want impossible\n%s", verdict, show(p))
				}
				continue
			}
			if verdict != assign.Found {
				t.Fatalf("verdict %d, want %v\n%s", verdict, want, show(p))
			}
			got := keep(solver.Answer().Choices, solver.Answer().Devices)
			if !reflect.DeepEqual(got, *want) {
				t.Fatalf("got %v, want %v\n%s", got, want, show(p))
			}
		}
	})
}

// TestBudget: however small the budget, no answer is wrong.
func TestBudget(t *testing.T) {
	solver := &assign.Solver{}
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		want := first(p)
		strategy := rapid.SampledFrom([]assign.Strategy{assign.InOrder, assign.Packed}).Draw(t, "strategy")
		budget := int64(1) << rapid.IntRange(0, 14).Draw(t, "budget")
		budget -= budget / 2 * int64(rapid.IntRange(0, 1).Draw(t, "less"))
		switch verdict := solver.Solve(p, strategy, budget); verdict {
		case assign.Impossible:
			if want != nil {
				t.Fatalf("impossible, want %v\n%s", want, show(p))
			}
		case assign.Found, assign.Settled:
			answer := solver.Answer()
			if !check(p, answer.Choices, answer.Devices) {
				t.Fatalf("wrong: %v\n%s", answer, show(p))
			}
			if got := keep(answer.Choices, answer.Devices); verdict == assign.Found && strategy == assign.InOrder && !reflect.DeepEqual(got, *want) {
				t.Fatalf("got %v, want %v\n%s", got, want, show(p))
			}
		}
	})
}

// TestPackedIsBest: Packed makes the first choices that can be made, and of all
// devices for them it finds some that leave the most useful remainder.
func TestPackedIsBest(t *testing.T) {
	reused := &assign.Solver{}
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		var want *solution
		var best []int64
		solutions(p, func(choices []int, devices [][]int32) bool {
			if want != nil {
				order := slices.Compare(choices, want.choices)
				if order > 0 {
					return true
				}
				if order == 0 && slices.Compare(price(p, choices, devices), best) >= 0 {
					return true
				}
			}
			s := keep(choices, devices)
			want, best = &s, price(p, choices, devices)
			return true
		})
		for _, solver := range []*assign.Solver{{}, reused} {
			verdict := solver.Solve(p, assign.Packed, plenty)
			if want == nil {
				if verdict != assign.Impossible {
					t.Fatalf("verdict %d, want impossible\n%s", verdict, show(p))
				}
				continue
			}
			got := solver.Answer()
			if verdict != assign.Found || !check(p, got.Choices, got.Devices) {
				t.Fatalf("verdict %d, got %v, want %v\n%s", verdict, got, want, show(p))
			}
			if !slices.Equal(got.Choices, want.choices) || !slices.Equal(price(p, got.Choices, got.Devices), best) {
				t.Fatalf("got %v at %v, want %v at %v\n%s", got, price(p, got.Choices, got.Devices), want, best, show(p))
			}
		}
	})
}
