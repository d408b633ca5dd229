// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import "math"

// use is what it takes that a want gets a device.
type use struct {
	want, device int32
	// seats are places at the device of which each exists once.
	seats uint64
	// pays says whether the use pays the charge of a shared device, if it is the
	// first that does.
	pays bool
	// most is how often the want can use the device: once per request.
	most int32
	// from and to are where its amounts are, marks and marksTo where its marks are.
	from, to, marks, marksTo int32
}

// uses are all uses of all devices, and the resources that they take. A resource
// is a counter, or a value under a Distinct constraint, of which there is one.
type uses struct {
	all     []use
	amounts []Amount
	marks   []mark
	// of has, for each device, where its uses begin; one more says where they end.
	of []int32
	// several are the devices that may have more than one use at once. charges are
	// what their first use takes.
	several []bool
	charges [][]Amount
	// unseated says that the values under Distinct constraints do not count.
	unseated bool
	// seatsOf has the first resource of each constraint that is Distinct.
	seatsOf []int32
	left    []int64
	// marksFrom is where the marks begin.
	marksFrom int
	// slack says of which resources there is more than could be taken.
	slack   []bool
	load    []int64
	largest []Amount
}

// number gives resources to the values of Distinct constraints.
func (u *uses) number(p *Problem) {
	u.seatsOf = filled(u.seatsOf, len(p.Constraints), 0)
	next := len(p.Left)
	for c := range p.Constraints {
		if p.Constraints[c].Kind == Distinct {
			u.seatsOf[c] = int32(next)
			next += int(p.Constraints[c].values())
		}
	}
	u.marksFrom = next
	u.left = zeroed(u.left, next)
	for i := len(p.Left); i < next; i++ {
		u.left[i] = 1
	}
}

// values is one more than the largest value under a constraint.
func (c *Constraint) values() int32 {
	end := int32(0)
	for _, member := range c.Members {
		for _, v := range member.Values.One {
			end = max(end, v+1)
		}
		for _, list := range member.Values.Lists {
			for _, v := range list {
				end = max(end, v+1)
			}
		}
	}
	return end
}

// read finds the uses of each device by the wants of a state.
func (u *uses) read(s *Solver, st *state) {
	u.all, u.amounts, u.marks, u.of = u.all[:0], u.amounts[:0], u.marks[:0], u.of[:0]
	devices := st.problem.Devices
	u.several = zeroed(u.several, devices)
	u.charges = zeroed(u.charges, devices)
	copy(u.left, st.left)
	u.load = zeroed(u.load, len(u.left))
	for d := range devices {
		from := len(u.all)
		u.of = append(u.of, int32(from))
		several := st.problem.Shared.Has(d)
		for w := range s.wants.all {
			if want := &s.wants.all[w]; want.accept.Has(d) {
				s.steps++
				u.add(s, st, w, d)
				several = several || want.slot != int(open) && s.rules.slots[want.slot].Observe
			}
		}
		u.several[d] = several
		u.loads(from, d)
	}
	u.of = append(u.of, int32(len(u.all)))
	u.slack = zeroed(u.slack, len(u.left))
	for i, load := range u.load {
		u.slack[i] = load <= u.left[i]
	}
}

// uses of a device.
func (u *uses) at(device int) []use { return u.all[u.of[device]:u.of[device+1]] }

func (u *uses) amountsOf(use *use) []Amount { return u.amounts[use.from:use.to] }

func (u *uses) marksOf(use *use) []mark { return u.marks[use.marks:use.marksTo] }

func (u *uses) add(s *Solver, st *state, w, d int) {
	want := &s.wants.all[w]
	shared := st.problem.Shared.Has(d)
	one := use{want: int32(w), device: int32(d), most: 1, from: int32(len(u.amounts))}
	observe := false
	var draw []Amount
	if want.slot != int(open) {
		slot := &s.rules.slots[want.slot]
		observe = slot.Observe
		if !observe {
			draw = slot.draw(d)
		}
		for _, rule := range s.rules.of(want.slot) {
			if rule.kind == Distinct && !u.unseated && rule.values.One[d] != Exempt {
				for _, v := range rule.values.list(d) {
					u.take(one.from, Amount{Counter: u.seatsOf[rule.constraint] + v, Value: 1})
				}
			}
		}
	}
	for _, a := range draw {
		u.take(one.from, a)
	}
	switch {
	case shared:
		one.most = int32(want.demand)
		if want.demand != len(want.requests) {
			one.most = 1
		}
		one.pays = !observe
		if one.pays {
			u.charges[d] = st.charge(d)
		}
	case observe:
		one.seats = s.seat(st, want)
	default:
		one.seats = 1 | s.seat(st, want)
		for _, a := range st.charge(d) {
			u.take(one.from, a)
		}
	}
	one.to = int32(len(u.amounts))
	one.marks = int32(len(u.marks))
	if s.pack.active && !observe {
		u.marks = s.pack.appendMarks(u.marks, s, want.slot, d)
	}
	one.marksTo = int32(len(u.marks))
	u.all = append(u.all, one)
}

// take adds an amount to those from a place on.
func (u *uses) take(from int32, a Amount) {
	if a.Value == 0 {
		return
	}
	for i := from; i < int32(len(u.amounts)); i++ {
		if u.amounts[i].Counter == a.Counter {
			u.amounts[i].Value = plus(u.amounts[i].Value, a.Value)
			return
		}
	}
	u.amounts = append(u.amounts, a)
}

// loads adds to each resource the most that a device could take of it.
func (u *uses) loads(from, d int) {
	u.largest = u.largest[:0]
	for i := from; i < len(u.all); i++ {
		for _, a := range u.amountsOf(&u.all[i]) {
			if u.several[d] {
				for range u.all[i].most {
					u.load[a.Counter] = plus(u.load[a.Counter], a.Value)
				}
				continue
			}
			u.largest = larger(u.largest, a)
		}
	}
	for _, a := range u.largest {
		u.load[a.Counter] = plus(u.load[a.Counter], a.Value)
	}
	for _, a := range u.charges[d] {
		u.load[a.Counter] = plus(u.load[a.Counter], a.Value)
	}
}

// larger keeps the larger amount of each counter.
func larger(amounts []Amount, a Amount) []Amount {
	for i := range amounts {
		if amounts[i].Counter == a.Counter {
			amounts[i].Value = max(amounts[i].Value, a.Value)
			return amounts
		}
	}
	return append(amounts, a)
}

// plus is the sum, or the largest number if that is larger. Amounts are not
// negative.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// maxSeats is how many claims can have a seat at a device.
const maxSeats = 62

// seat is the place that a claim has at a device. Only where somebody observes it
// is that more than the device itself: a claim uses it once in any case.
func (s *Solver) seat(st *state, w *want) uint64 {
	if !s.rules.observed {
		return 0
	}
	return 1 << (1 + st.problem.Requests[w.requests[0]].Claim)
}
