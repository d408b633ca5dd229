// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"cmp"
	"slices"
)

// fills are the ways to use the devices of clusters: for each cluster, how many
// devices each want could get at once. Of those, only what is best is kept: another
// fill that gives no want more, leaves no resource more and costs no less is of no
// use. What a cluster can hold goes down with what is asked of it, so whatever is
// not more than such a fill is possible too.
//
// The fills are found lot by lot. A row is what the lots so far were used for, and
// what this leaves; a resource that no later lot takes is not looked at any more.
type fills struct {
	all   []filling
	rows  []row
	dims  []int64
	costs []int64
	// list are the rows that were kept.
	list []int32

	units           []retiring
	last            []int32
	front, survivor []int32
}

// filling is all that is known about clusters that look the same.
type filling struct {
	list, listTo int32
}

// row says how many devices each want has, how much of each resource is left, and
// what has been touched: the more, the better, in each of its dimensions.
type row struct {
	// parent is the row before the last device was given: one of the lot for the
	// use.
	parent, lot, use int32
	dims             int32
	sum              float64
	// What counts within a lot: the devices taken, how often the present use was
	// made, the seats that are taken, and whether the charge is paid.
	taken, times int32
	seats        uint64
	paid         bool
}

func (f *fills) forget() {
	if cap(f.rows) > roomy {
		*f = fills{}
	}
	f.all, f.rows, f.dims, f.costs = f.all[:0], f.rows[:0], f.dims[:0], f.costs[:0]
	f.list = f.list[:0]
}

// retiring is a unit whose price is known after the last lot that takes from it.
type retiring struct{ unit, last int32 }

// stage is the cluster for which fills are being found.
type stage struct {
	*Solver
	lots  []lot
	wants []int32
	// resources and stride say where the dimensions of a row are: first the wants,
	// then the resources, then what the price of the devices depends on.
	resources []int32
	stride    int
}

// compute finds the fills of a cluster. It fails if the budget ends.
func (f *fills) compute(s *Solver, c *clusters, cluster *cluster) (number int32, ok bool) {
	at := stage{
		Solver: s, lots: c.lots[cluster.from:cluster.to],
		wants: c.wants[cluster.wants:cluster.wantsTo], resources: c.resources,
	}
	f.last = filled(f.last, len(c.resources), 0)
	for l := range at.lots {
		for _, use := range at.uses.at(int(c.devices[at.lots[l].from])) {
			for _, a := range at.uses.amountsOf(&use) {
				f.lasts(c, a.Counter, l)
			}
			for _, m := range at.uses.marksOf(&use) {
				if m.resource != nobody {
					f.lasts(c, m.resource, l)
				}
			}
		}
		for _, a := range at.uses.charges[c.devices[at.lots[l].from]] {
			f.lasts(c, a.Counter, l)
		}
	}
	at.stride = len(at.wants) + len(at.resources)
	f.wait(&at, c)
	f.front = append(f.front[:0], f.root(&at))
	for l := range at.lots {
		f.use(&at, c, l)
		f.retire(&at, c, l)
		f.prune(&at)
		if s.ended() {
			return 0, false
		}
	}
	listFrom := len(f.list)
	f.list = append(f.list, f.front...)
	f.all = append(f.all, filling{list: int32(listFrom), listTo: int32(len(f.list))})
	return int32(len(f.all) - 1), true
}

// lasts notes that a lot takes from a resource.
func (f *fills) lasts(c *clusters, resource int32, lot int) {
	if c.stamp[resource] == int32(len(c.all)) {
		f.last[c.local[resource]] = int32(lot)
	}
}

// wait makes the counters of a unit be retired together.
func (f *fills) wait(at *stage, c *clusters) {
	f.units = f.units[:0]
	for i := range at.resources {
		number, first := at.pack.unitAt(c, i)
		if !first {
			continue
		}
		one := retiring{unit: number}
		for j, r := range at.resources {
			if at.pack.watches(r) && at.pack.unitOf[r] == number {
				one.last = max(one.last, f.last[j])
			}
		}
		for j, r := range at.resources {
			if at.pack.watches(r) && at.pack.unitOf[r] == number {
				f.last[j] = one.last
			}
		}
		f.units = append(f.units, one)
	}
}

func (f *fills) root(at *stage) int32 {
	f.rows = append(f.rows, row{parent: nobody, dims: int32(len(f.dims))})
	from := len(f.dims)
	f.dims = append(f.dims, make([]int64, at.stride)...)
	for i, r := range at.resources {
		f.dims[from+len(at.wants)+i] = at.uses.left[r]
	}
	f.costs = append(f.costs, make([]int64, at.pack.width)...)
	return int32(len(f.rows) - 1)
}

// use gives devices of a lot to the wants, in all numbers that are possible.
func (f *fills) use(at *stage, c *clusters, l int) {
	device := c.devices[at.lots[l].from]
	uses := at.uses.at(int(device))
	for u := range uses {
		for _, i := range f.front {
			f.rows[i].times = 0
		}
		for i := 0; i < len(f.front) && !at.ended(); i++ {
			if f.extend(at, c, f.front[i], l, u, &uses[u]) {
				f.front = append(f.front, int32(len(f.rows)-1))
			}
		}
	}
	for _, i := range f.front {
		r := &f.rows[i]
		r.taken, r.seats, r.paid = 0, 0, false
	}
}

// extend appends the row that one more use makes of a row, if it can be made.
func (f *fills) extend(at *stage, c *clusters, i int32, l, u int, use *use) bool {
	at.steps += 4
	old := f.rows[i]
	dims := f.dims[old.dims : int(old.dims)+at.stride]
	want := c.place[use.want]
	switch {
	case dims[want] >= int64(at.Solver.wants.all[use.want].demand):
		return false
	case !at.uses.several[use.device] && old.taken >= at.lots[l].most:
		return false
	case at.uses.several[use.device] && (old.times >= use.most || old.seats&use.seats != 0):
		return false
	}
	made := old
	made.parent, made.lot, made.use, made.dims = i, int32(l), int32(u), int32(len(f.dims))
	made.taken++
	made.times++
	made.seats |= use.seats
	f.dims = append(f.dims, dims...)
	dims = f.dims[made.dims:]
	enough := f.spend(at, c, dims, at.uses.amountsOf(use))
	if enough && use.pays && !old.paid {
		made.paid = true
		enough = f.spend(at, c, dims, at.uses.charges[use.device])
	}
	if !enough {
		f.dims = f.dims[:made.dims]
		return false
	}
	at.steps += int64(24 + 2*at.stride)
	dims[want]++
	f.rows = append(f.rows, made)
	f.costs = append(f.costs, f.costs[int(i)*at.pack.width:int(i+1)*at.pack.width]...)
	at.pack.touch(c, at.uses.marksOf(use), dims[len(at.wants):], f.cost(at, int32(len(f.rows)-1)))
	return true
}

func (f *fills) cost(at *stage, i int32) []int64 {
	return f.costs[int(i)*at.pack.width : int(i+1)*at.pack.width]
}

// spend takes amounts from the resources of a row.
func (f *fills) spend(at *stage, c *clusters, dims []int64, amounts []Amount) bool {
	left := dims[len(at.wants):]
	for _, a := range amounts {
		if c.stamp[a.Counter] != int32(len(c.all)) {
			continue
		}
		if left[c.local[a.Counter]] < a.Value {
			return false
		}
		left[c.local[a.Counter]] -= a.Value
	}
	return true
}

// retire forgets what is left of the resources that no later lot takes from.
func (f *fills) retire(at *stage, c *clusters, l int) {
	for _, i := range f.front {
		dims := f.dims[f.rows[i].dims : int(f.rows[i].dims)+at.stride]
		for _, u := range f.units {
			if int(u.last) == l {
				at.pack.settle(at.Solver, c, u.unit, dims[len(at.wants):], f.cost(at, i))
			}
		}
		for r, last := range f.last {
			if int(last) == l {
				dims[len(at.wants)+r] = 0
			}
		}
	}
}

// prune keeps the rows that are not dominated by another.
func (f *fills) prune(at *stage) {
	for _, i := range f.front {
		r := &f.rows[i]
		r.sum = 0
		for _, x := range f.dims[r.dims : int(r.dims)+at.stride] {
			r.sum += float64(x)
		}
	}
	// What dominates a row has no smaller sum.
	slices.SortStableFunc(f.front, func(a, b int32) int { return cmp.Compare(f.rows[b].sum, f.rows[a].sum) })
	f.survivor = f.survivor[:0]
	for _, i := range f.front {
		dominated := false
		for _, j := range f.survivor {
			at.steps += 3
			if dominated = f.dominates(at, j, i); dominated {
				break
			}
		}
		if at.ended() {
			return
		}
		if !dominated {
			f.survivor = append(f.survivor, i)
		}
	}
	f.front, f.survivor = f.survivor, f.front
}

func (f *fills) dominates(at *stage, a, b int32) bool {
	as := f.dims[f.rows[a].dims : int(f.rows[a].dims)+at.stride]
	bs := f.dims[f.rows[b].dims : int(f.rows[b].dims)+at.stride]
	for i, x := range as {
		if x < bs[i] {
			return false
		}
	}
	return slices.Compare(f.cost(at, a), f.cost(at, b)) <= 0
}
