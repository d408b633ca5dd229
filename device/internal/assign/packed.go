// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import "slices"

// packed finds the devices that leave the most useful remainder, after the first
// choices that can be made. The root is completed by the witness.
//
// It is the same search as complete, with prices: the best way to meet a state
// without its open constraints is cheaper than any with them, so a branch that is
// not cheaper than the best answer so far is not entered.
func (s *Solver) packed() Verdict {
	for r := range s.problem.Requests {
		if s.decide(r) == ended {
			s.settleFor()
			return Settled
		}
	}
	if s.indifferent() {
		return s.inOrder()
	}
	if !s.bargain() {
		s.settleFor()
		return Settled
	}
	s.tidy()
	s.settleFor()
	return Found
}

// bargain makes the witness the best there is. It fails if the budget for that ends;
// the witness is then the best that was found.
//
// Groups of the topology tie devices together that are easy for themselves. Their price
// counts less than that of units, so where it takes too long with them it is done again
// without them.
func (s *Solver) bargain() bool {
	all := s.problem.Topology
	if s.cheapen(all) {
		return true
	}
	if len(all) > 0 && s.priced() {
		s.fallback.copy(&s.witness)
		s.cheapen(nil)
		s.pack.start(s, &s.root, all)
		s.holds(&s.root, &s.witness)
		s.best = append(s.best[:0], s.priceOf(&s.witness)...)
		s.holds(&s.root, &s.fallback)
		if slices.Compare(s.priceOf(&s.fallback), s.best) < 0 {
			s.witness.copy(&s.fallback)
		}
	}
	return false
}

// packingShare is the part of the budget, one in so many, that the best devices are
// worth each time once it is known that there are some.
const packingShare = 32

// cheapen makes the witness the best there is, with a price for some levels of the
// topology. It fails if its part of the budget ends.
func (s *Solver) cheapen(topology [][]int32) bool {
	budget := s.budget
	defer func() { s.budget = budget }()
	s.budget = min(budget, s.steps+budget/packingShare)
	s.fills.forget()
	s.filled.forget()
	s.pack.start(s, &s.root, topology)
	s.best = s.best[:0]
	s.improve(&s.root, 0)
	return !s.ended()
}

// improve looks for a better witness from a state on.
func (s *Solver) improve(from *state, depth int) {
	f := s.frame(depth)
	f.state.copy(from)
	st := &f.state
	if s.ended() || !s.wants.read(s, st) {
		return
	}
	match, concerned := s.tightest(f)
	if concerned && len(f.options) == 0 {
		return
	}
	price := s.cheapest(st)
	if price == nil || len(s.best) > 0 && slices.Compare(price, s.best) >= 0 {
		return
	}
	if s.holds(st, &s.trial) {
		s.best = append(s.best[:0], price...)
		copy(s.trial.choices, s.witness.choices)
		s.witness.copy(&s.trial)
		return
	}
	s.look(st)
	s.portrait.draw(s, st)
	s.looksOf(f, match)
	child := s.frame(depth + 1)
	for i, v := range f.options {
		if f.repeats(i) {
			continue
		}
		child.state.copy(st)
		child.state.pins[match] = v
		s.improve(&child.state, depth+1)
	}
}

// cheapest looks for the best devices for all wants of a state, without the
// constraints that are open. The price is nil if there are none or the budget
// ends; else the answer is in s.trial.
func (s *Solver) cheapest(st *state) []int64 {
	s.uses.read(s, st)
	if !s.clusters.read(s, st) {
		return nil
	}
	k := &s.combination
	k.begin(s)
	k.width = s.pack.width
	if cap(k.offers) > roomy {
		k.offers, k.prices = nil, nil
	}
	k.offers, k.prices = k.offers[:0], k.prices[:0]
	if !k.soleFit(s) {
		return nil
	}
	// With as few units as could do there is little to try, and mostly it does.
	best := nobody
	k.spare = filled(k.spare, len(k.chosen)+1, 0)
	k.spare[0] = k.scale.broken(0, k.rest[:k.wants])
	for more := int32(1); ; more *= 2 {
		best = s.offer(0)
		if best != nobody || s.ended() || k.spare[0] >= int32(len(s.pack.units)) {
			break
		}
		k.spare[0] += more
	}
	if s.ended() || best == nobody {
		return nil
	}
	s.accept()
	s.hand(st)
	return k.price(best)
}

// offer finds the cheapest fills for the clusters from one on that meet the rest
// of the demand and break no more units than may be. It returns their number, or nobody
// if there are none.
func (s *Solver) offer(i int) int32 {
	k := &s.combination
	rest := k.rest[i*k.wants : (i+1)*k.wants]
	s.steps += int64(4 + k.wants)
	if s.ended() || !k.bounded(i, rest) || k.scale.broken(i, rest) > k.spare[i] {
		return nobody
	}
	if number, known := k.hopeless.recall(k.describe(i, rest)); known {
		switch {
		case number < 0 && k.spare[i] <= nobody-1-number:
			return nobody
		case number >= 0 && k.price(number)[wholes] > int64(k.spare[i]):
			return nobody
		case number >= 0:
			return number
		}
	}
	best := nobody
	if i == len(k.chosen) {
		if s.matchPlain(rest) {
			best = k.add(nobody)
		}
	} else {
		best = s.offers(i)
	}
	if !s.ended() {
		// What is not to be had with so many units may be with more.
		number := best
		if best == nobody {
			number = nobody - 1 - k.spare[i]
		}
		k.hopeless.remember(k.describe(i, rest), number)
	}
	return best
}

// offers tries the fills of one cluster. Of those that are equally cheap the first
// that uses most of the cluster is the best: earlier devices are used first.
func (s *Solver) offers(i int) int32 {
	k := &s.combination
	rest, next := k.rest[i*k.wants:(i+1)*k.wants], k.rest[(i+1)*k.wants:(i+2)*k.wants]
	f := &s.fills.all[s.clusters.all[i].fills]
	wants := s.clusters.of(i)
	best, most := nobody, int32(0)
	for _, row := range s.fills.list[f.list:f.listTo] {
		own := s.fills.costs[int(row)*k.width : int(row+1)*k.width]
		s.steps += int64(4 + len(wants))
		copy(next, rest)
		dims := s.fills.dims[s.fills.rows[row].dims:]
		used := int32(0)
		for at, w := range wants {
			n := min(next[w], int32(dims[at]))
			next[w] -= n
			used += n
		}
		k.spare[i+1] = k.spare[i] - int32(own[wholes])
		if k.spare[i+1] < 0 || best != nobody && k.dearer(own, k.scale.broken(i+1, next), k.price(best)) {
			continue
		}
		later := s.offer(i + 1)
		if later == nobody {
			continue
		}
		made := k.add(row)
		price := k.price(made)
		for column, x := range k.price(later) {
			price[column] = own[column] + x
		}
		order := -1
		if best != nobody {
			order = slices.Compare(price, k.price(best))
		}
		if order < 0 || order == 0 && used > most {
			best, most = made, used
		}
	}
	return best
}

// dearer says whether a fill costs more than a price when at least so many more units
// are broken.
func (k *combination) dearer(fill []int64, broken int32, than []int64) bool {
	if all := fill[wholes] + int64(broken); all != than[wholes] {
		return all > than[wholes]
	}
	return slices.Compare(fill[wholes+1:], than[wholes+1:]) > 0
}

// add makes an offer that costs nothing yet.
func (k *combination) add(row int32) int32 {
	k.offers = append(k.offers, row)
	k.prices = append(k.prices, make([]int64, k.width)...)
	return int32(len(k.offers) - 1)
}

func (k *combination) price(offer int32) []int64 {
	return k.prices[int(offer)*k.width : int(offer+1)*k.width]
}

// accept chooses the fills of the best offer.
func (s *Solver) accept() {
	k := &s.combination
	for i := range k.chosen {
		rest, next := k.rest[i*k.wants:(i+1)*k.wants], k.rest[(i+1)*k.wants:(i+2)*k.wants]
		number, _ := k.hopeless.recall(k.describe(i, rest))
		row := k.offers[number]
		copy(next, rest)
		dims := s.fills.dims[s.fills.rows[row].dims:]
		for at, w := range s.clusters.of(i) {
			next[w] -= min(next[w], int32(dims[at]))
		}
		k.chosen[i] = row
	}
	s.matchPlain(k.rest[len(k.chosen)*k.wants:])
}
