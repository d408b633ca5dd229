// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"fmt"
	"testing"

	"github.com/berth-scheduler/berth/device/internal/assign"
)

// A case is a problem that a search by trial does not end on, or its twin with one
// device more.
type testCase struct {
	name     string
	problem  *assign.Problem
	possible bool
}

// node builds problems. Devices are alike unless a test says otherwise.
type node struct{ assign.Problem }

func free(devices int) *node {
	n := &node{assign.Problem{Devices: devices, Limit: 32}}
	n.Idle = n.all()
	return n
}

func (n *node) all() assign.Set { return n.where(func(int) bool { return true }) }

func (n *node) where(wanted func(device int) bool) assign.Set {
	s := make(assign.Set, assign.Words(n.Devices))
	for d := range n.Devices {
		if wanted(d) {
			s.Add(d)
		}
	}
	return s
}

// want adds a request of the claim: as many of the devices, or the next count if
// they are too few.
func (n *node) want(claim int, devices assign.Set, counts ...int) *node {
	request := assign.Request{Claim: claim}
	for _, count := range counts {
		request.Choices = append(request.Choices, assign.Choice{Count: count, Candidates: devices})
	}
	n.Requests = append(n.Requests, request)
	return n
}

// values gives each device a value.
func (n *node) values(of func(device int) int) *assign.Values {
	v := &assign.Values{One: make([]int32, n.Devices)}
	for d := range v.One {
		v.One[d] = int32(of(d))
	}
	return v
}

// under puts the only choice of each request under a constraint.
func (n *node) under(kind assign.Kind, values *assign.Values, requests ...int) *node {
	c := assign.Constraint{Kind: kind}
	for _, r := range requests {
		c.Members = append(c.Members, assign.Member{Request: r, Values: values})
	}
	n.Constraints = append(n.Constraints, c)
	return n
}

// profile is a partition of a GPU: how many there are, and what each takes of the
// memory of 80 and the 7 slices.
type profile struct {
	count          int
	memory, slices int64
}

var profiles = []profile{{1, 80, 7}, {2, 40, 3}, {4, 20, 1}, {7, 10, 1}}

const (
	whole = iota
	half
	quarter
	small
)

const partitions = 1 + 2 + 4 + 7

// mig is a node of GPUs that are partitioned.
func mig(gpus int) *node {
	n := free(gpus * partitions)
	for g := range gpus {
		n.Left = append(n.Left, 80, 7)
		for _, p := range profiles {
			for range p.count {
				n.Charge = append(n.Charge, []assign.Amount{
					{Counter: int32(2 * g), Value: p.memory}, {Counter: int32(2*g + 1), Value: p.slices},
				})
			}
		}
	}
	return n
}

// of are the partitions of a profile.
func (n *node) of(profile int) assign.Set {
	from := 0
	for _, p := range profiles[:profile] {
		from += p.count
	}
	return n.where(func(d int) bool {
		at := d % partitions
		return at >= from && at < from+profiles[profile].count
	})
}

// hold takes a partition away.
func (n *node) hold(device int) *node {
	for _, a := range n.Charge[device] {
		n.Left[a.Counter] -= a.Value
	}
	n.Idle.Drop(device)
	for r := range n.Requests {
		n.Requests[r].Choices[0].Candidates.Drop(device)
	}
	return n
}

func cases() []testCase {
	var all []testCase
	add := func(possible bool, n *node, format string, args ...any) {
		all = append(all, testCase{fmt.Sprintf(format, args...), &n.Problem, possible})
	}
	for _, count := range []int{16, 20, 24, 32} {
		for more := range 2 {
			n := free(count - 1 + more)
			add(more > 0, n.want(0, n.all(), count), "a/count-%d-on-%d", count, n.Devices)
		}
	}
	for _, count := range []int{6, 8, 9, 10, 11, 12} {
		for more := range 2 {
			n := free(count - 1 + more)
			for range count {
				n.want(0, n.all(), 1)
			}
			add(more > 0, n, "b/%d-requests-on-%d", count, n.Devices)
		}
	}
	for _, c := range []struct{ count, groups, size int }{{4, 8, 3}, {8, 16, 7}} {
		for more := range 2 {
			n := free(c.groups*c.size + more)
			group := n.values(func(d int) int { return d % c.groups })
			add(more > 0, n.want(0, n.all(), c.count).under(assign.Match, group, 0), "c/count-%d-match-%d-groups-of-%d+%d", c.count, c.groups, c.size, more)
		}
	}
	for _, devices := range []int{7, 14, 21, 64} {
		for more := range 2 {
			n := free(devices)
			group := n.values(func(d int) int { return min(d, devices-1) % (7 + more) })
			if more > 0 && devices == 7 {
				continue
			}
			n.want(0, n.all(), 4).want(0, n.all(), 4).under(assign.Distinct, group, 0, 1)
			add(more > 0, n, "d/2-of-4-distinct-%d-values-on-%d", 7+more, devices)
		}
	}
	for _, e := range []struct {
		devices int
		counts  []int
	}{{8, []int{7, 6, 5}}, {12, []int{9, 8, 7}}, {16, []int{12, 10, 9}}} {
		for _, more := range []int{0, 2*e.counts[2] - e.devices} {
			n := free(e.devices + more)
			add(more > 0, n.want(0, n.all(), e.counts...).want(0, n.all(), e.counts...), "e/2-alternatives-%v-on-%d", e.counts, n.Devices)
		}
	}
	all = append(all, racks()...)
	all = append(all, gpus()...)
	return all
}

// racks are two claims of four requests each, with two constraints per claim.
func racks() []testCase {
	var all []testCase
	add := func(possible bool, devices, count int, name string, rack, numa func(d int) int) {
		n := free(devices)
		for claim := range 2 {
			for range 4 {
				n.want(claim, n.all(), count)
			}
		}
		for claim := range 2 {
			from := 4 * claim
			n.under(assign.Match, n.values(rack), from, from+1, from+2, from+3)
			n.under(assign.Match, n.values(numa), from, from+1, from+2, from+3)
		}
		all = append(all, testCase{"f/" + name, &n.Problem, possible})
	}
	group := func(d int) int {
		if d < 4 {
			return 0
		}
		return 1 + (d-4)/3%4
	}
	for more := range 2 {
		add(more > 0, 16+more, 1, fmt.Sprintf("count-1-groups-4-3-3-3-3+%d", more),
			func(d int) int { return group(d) / 2 }, func(d int) int { return group(d) % 2 })
		add(more > 0, 16+more, 2, fmt.Sprintf("count-2-groups-8-7-1+%d", more),
			func(d int) int { return min(d/8, 1) },
			func(d int) int {
				if d == 15 {
					return 1
				}
				return 0
			})
	}
	return all
}

// gpus are the cases of partitions.
func gpus() []testCase {
	var all []testCase
	add := func(possible bool, n *node, format string, args ...any) {
		all = append(all, testCase{fmt.Sprintf(format, args...), &n.Problem, possible})
	}
	for _, gpus := range []int{1, 2, 3, 4, 8} {
		for _, smalls := range []int{4, 5} {
			n := mig(gpus)
			add(smalls == 4, n.want(0, n.of(half), 2*gpus-1).want(0, n.of(small), smalls), "g/%d-gpus-%d-halves-%d-smalls", gpus, 2*gpus-1, smalls)
		}
	}
	n := mig(1)
	add(false, n.want(0, n.of(quarter), 2).want(0, n.of(small), 5), "g/1-gpu-2-quarters-5-smalls")
	n = mig(8)
	add(false, n.want(0, n.of(whole), 8).want(0, n.of(small), 1), "g/8-gpus-8-wholes-1-small")
	for _, count := range []int{9, 32} {
		n = mig(8)
		add(true, n.want(0, n.all(), count), "g/8-gpus-%d-of-any", count)
	}
	for _, gpus := range []int{1, 2, 3, 4, 8} {
		for more := range 2 {
			n := mig(gpus)
			n.Limit = 64
			add(more == 0, n.want(0, n.of(quarter), 2*gpus).want(0, n.of(small), 4*gpus+more), "g/%d-gpus-%d-quarters-%d-smalls", gpus, 2*gpus, 4*gpus+more)
		}
	}
	for _, claims := range []int{8, 9} {
		n := mig(8)
		parent := n.values(func(d int) int { return d / partitions })
		for c := range claims {
			n.want(c, n.of(half), 1).want(c, n.of(quarter), 1).want(c, n.of(small), 1)
		}
		for c := range claims {
			n.under(assign.Match, parent, 3*c, 3*c+1, 3*c+2)
		}
		add(claims == 8, n, "h/8-gpus-%d-claims-half-quarter-small-on-one", claims)
	}
	for _, short := range []int{0, 1} {
		n := free(64)
		// Sixteen selectors, of which each accepts 12 devices; one device too few for
		// the last ones together.
		for r := range 16 {
			n.want(r/4, n.where(func(d int) bool { return d < 32-short && (d%16 <= r || r > 12) }), 2)
		}
		add(short == 0, n, "i/16-selectors-on-%d", 32-short)
	}
	for _, name := range []string{"1-small", "1-half-3-smalls", "2-halves-3-smalls"} {
		n := mig(8)
		switch name {
		case "1-small":
			n.want(0, n.of(small), 1)
		case "1-half-3-smalls":
			n.want(0, n.of(half), 1).want(0, n.of(small), 3)
		default:
			n.want(0, n.of(half), 2).want(0, n.of(small), 3)
		}
		for g := range 7 {
			n.hold(g * partitions)
		}
		add(name != "2-halves-3-smalls", n, "mig/7-of-8-taken-%s", name)
	}
	n = mig(1)
	parent := n.values(func(d int) int { return d / partitions })
	n.want(0, n.of(half), 1).want(0, n.of(quarter), 1).want(0, n.of(small), 1).under(assign.Match, parent, 0, 1, 2)
	add(true, n, "h/1-gpu-half-quarter-small-on-one")
	return all
}

// budget is what callers allow by default, most the steps that each case may take.
const (
	budget = 50_000_000
	most   = 1_000_000
)

// TestCases: each is answered, rightly and in far fewer steps than any budget.
func TestCases(t *testing.T) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			for _, strategy := range []assign.Strategy{assign.InOrder, assign.Packed} {
				solver := &assign.Solver{}
				verdict := solver.Solve(c.problem, strategy, budget)
				want := assign.Impossible
				if c.possible {
					want = assign.Found
				}
				if verdict != want || solver.Steps() > most {
					t.Errorf("strategy %d: verdict %d after %d steps", strategy, verdict, solver.Steps())
				}
				if c.possible && !check(c.problem, solver.Answer().Choices, solver.Answer().Devices) {
					t.Errorf("strategy %d: wrong answer %v", strategy, solver.Answer())
				}
			}
		})
	}
}

func BenchmarkSolve(b *testing.B) {
	for _, c := range append(cases(), shapes()...) {
		for strategy, name := range []string{assign.InOrder: "in-order", assign.Packed: "packed"} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				solver := &assign.Solver{}
				b.ReportAllocs()
				for b.Loop() {
					solver.Solve(c.problem, assign.Strategy(strategy), budget)
				}
				b.ReportMetric(float64(solver.Steps()), "steps/op")
			})
		}
	}
}

// shapes are what most pods ask for.
func shapes() []testCase {
	one, four, match, refuse := free(8), free(8), free(8), free(8)
	one.want(0, one.all(), 1)
	four.want(0, four.all(), 4)
	match.want(0, match.all(), 4).under(assign.Match, match.values(func(d int) int { return d % 2 }), 0)
	refuse.want(0, make(assign.Set, 1), 1)
	return []testCase{
		{"shape/one-of-eight", &one.Problem, true},
		{"shape/four", &four.Problem, true},
		{"shape/four-match", &match.Problem, true},
		{"shape/refuse-full", &refuse.Problem, false},
	}
}
