// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"slices"

	"github.com/berth-scheduler/berth/device/internal/assign"
)

// check says whether an answer breaks no rule of a problem. It shares nothing with
// the search.
func check(p *assign.Problem, choices []int, devices [][]int32) bool {
	left := slices.Clone(p.Left)
	touched := map[int32]bool{}
	spend := func(amounts []assign.Amount) {
		for _, a := range amounts {
			left[a.Counter] -= a.Value
			touched[a.Counter] = touched[a.Counter] || a.Value > 0
		}
	}
	type claimed struct{ claim, device int }
	taken, paid, seen, total := map[int]bool{}, map[int]bool{}, map[claimed]bool{}, map[int]int{}
	for r, request := range p.Requests {
		choice := request.Choices[choices[r]]
		want := choice.Count
		if choice.All {
			want = choice.Candidates.Count()
		}
		if len(devices[r]) != want || choice.All && want == 0 {
			return false
		}
		total[request.Claim] += want
		if total[request.Claim] > p.Limit {
			return false
		}
		for i, device := range devices[r] {
			d := int(device)
			if i > 0 && devices[r][i-1] >= device || !choice.Candidates.Has(d) {
				return false
			}
			if !p.Shared.Has(d) {
				if seen[claimed{request.Claim, d}] || !choice.Observe && taken[d] {
					return false
				}
				seen[claimed{request.Claim, d}] = true
			}
			if choice.Observe {
				continue
			}
			taken[d] = true
			if p.Charge != nil && (!p.Shared.Has(d) || !paid[d]) {
				spend(p.Charge[d])
				paid[d] = true
			}
			if choice.Draw != nil {
				spend(choice.Draw[d])
			}
		}
	}
	for counter := range touched {
		if touched[counter] && left[counter] < 0 {
			return false
		}
	}
	for _, c := range p.Constraints {
		var lists [][]int32
		for _, m := range c.Members {
			if choices[m.Request] != m.Choice {
				continue
			}
			for _, d := range devices[m.Request] {
				switch one := m.Values.One[d]; one {
				case assign.None:
					return false
				case assign.Exempt:
				case assign.Many:
					lists = append(lists, m.Values.Lists[d])
				default:
					lists = append(lists, []int32{one})
				}
			}
		}
		if !hold(c.Kind, lists) {
			return false
		}
	}
	return true
}

func hold(kind assign.Kind, lists [][]int32) bool {
	count := map[int32]int{}
	for _, list := range lists {
		for _, v := range list {
			count[v]++
		}
	}
	most := 0
	for _, n := range count {
		most = max(most, n)
	}
	if kind == assign.Distinct {
		return most <= 1
	}
	return most == len(lists)
}

// solutions calls visit for each solution in order, until it returns false.
func solutions(p *assign.Problem, visit func(choices []int, devices [][]int32) bool) {
	n := len(p.Requests)
	choices, devices := make([]int, n), make([][]int32, n)
	// A prefix is checked as a problem of its own, which is what makes this end.
	prefix := func(n int) bool {
		q := *p
		q.Requests, q.Constraints = p.Requests[:n], nil
		for _, c := range p.Constraints {
			c.Members = slices.DeleteFunc(slices.Clone(c.Members), func(m assign.Member) bool { return m.Request >= n })
			q.Constraints = append(q.Constraints, c)
		}
		return check(&q, choices, devices)
	}
	var request func(r int) bool
	request = func(r int) bool {
		if r == n {
			return visit(choices, devices)
		}
		for k, choice := range p.Requests[r].Choices {
			choices[r] = k
			var candidates []int32
			for d := range p.Devices {
				if choice.Candidates.Has(d) {
					candidates = append(candidates, int32(d))
				}
			}
			want := choice.Count
			if choice.All {
				want = len(candidates)
			}
			var choose func(from int, picked []int32) bool
			choose = func(from int, picked []int32) bool {
				if len(picked) == want {
					devices[r] = slices.Clone(picked)
					return !prefix(r+1) || request(r+1)
				}
				for i := from; i < len(candidates); i++ {
					if !choose(i+1, append(picked, candidates[i])) {
						return false
					}
				}
				return true
			}
			if !choose(0, nil) {
				return false
			}
		}
		return true
	}
	request(0)
}

// price is what Packed minds about a solution, the most important first; smaller is
// better.
func price(p *assign.Problem, choices []int, devices [][]int32) []int64 {
	left := slices.Clone(p.Left)
	for i := range left {
		left[i] = max(left[i], 0)
	}
	used := map[int]bool{}
	for r, request := range p.Requests {
		choice := request.Choices[choices[r]]
		if choice.Observe {
			continue
		}
		for _, d := range devices[r] {
			if p.Charge != nil && !used[int(d)] {
				for _, a := range p.Charge[d] {
					left[a.Counter] -= a.Value
				}
			}
			if choice.Draw != nil {
				for _, a := range choice.Draw[d] {
					left[a.Counter] -= a.Value
				}
			}
			used[int(d)] = true
		}
	}
	broken := func(members []int) int64 {
		taken := int64(0)
		for _, d := range members {
			if !p.Idle.Has(d) {
				return 0
			}
			if used[d] {
				taken = 1
			}
		}
		return taken
	}
	wholes, largest := int64(0), int64(0)
	for _, unit := range units(p) {
		wholes += broken(unit)
		best := int64(0)
		for _, d := range unit {
			if !p.Idle.Has(d) || !covered(p.Charge[d], func(c int32) int64 { return left[c] }) {
				continue
			}
			size := int64(0)
			for _, e := range unit {
				if covered(p.Charge[e], func(c int32) int64 { return sum(p.Charge[d], c) }) {
					size++
				}
			}
			best = max(best, size)
		}
		largest += best
	}
	tuple := []int64{wholes, -largest}
	for _, level := range p.Topology {
		members := map[int32][]int{}
		for d, group := range level {
			members[group] = append(members[group], d)
		}
		spread, groups := int64(0), int64(0)
		for r, request := range p.Requests {
			if len(devices[r]) < 2 || request.Choices[choices[r]].Observe {
				continue
			}
			seen := map[int32]bool{}
			for _, d := range devices[r] {
				if level[d] < 0 || !seen[level[d]] {
					spread++
				}
				seen[level[d]] = true
			}
		}
		for group, members := range members {
			if group >= 0 {
				groups += broken(members)
			}
		}
		tuple = append(tuple, spread, groups)
	}
	shared := int64(0)
	for d := range used {
		if p.Shared.Has(d) && p.Idle.Has(d) {
			shared++
		}
	}
	return append(tuple, shared)
}

// units are the devices that are joined by the counters that they charge.
func units(p *assign.Problem) [][]int {
	unit := make([]int, p.Devices)
	for d := range unit {
		unit[d] = d
	}
	for again := true; again; {
		again = false
		for d, a := range p.Charge {
			for e, b := range p.Charge {
				joined := slices.ContainsFunc(a, func(x assign.Amount) bool {
					return slices.ContainsFunc(b, func(y assign.Amount) bool { return x.Counter == y.Counter && x.Value > 0 && y.Value > 0 })
				})
				if joined && unit[d] > unit[e] {
					unit[d], again = unit[e], true
				}
			}
		}
	}
	members := make([][]int, p.Devices)
	for d, charge := range p.Charge {
		if slices.ContainsFunc(charge, func(a assign.Amount) bool { return a.Value > 0 }) {
			members[unit[d]] = append(members[unit[d]], d)
		}
	}
	return slices.DeleteFunc(members, func(m []int) bool { return m == nil })
}

func sum(amounts []assign.Amount, counter int32) int64 {
	total := int64(0)
	for _, a := range amounts {
		if a.Counter == counter {
			total += a.Value
		}
	}
	return total
}

func covered(amounts []assign.Amount, by func(counter int32) int64) bool {
	for _, a := range amounts {
		if sum(amounts, a.Counter) > by(a.Counter) {
			return false
		}
	}
	return true
}
