// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// combination chooses a fill for each cluster, so that the wants have what they
// demand, and plain devices for the rest: cluster by cluster, with the rest of the
// demand as the only thing that a later cluster needs to know.
type combination struct {
	wants int
	// rest is the demand that is left before each cluster, and after the last.
	rest []int32
	// chosen is the fill of each cluster, by its row.
	chosen []int32
	// most is, before each cluster, how many devices this and the later ones have
	// at most for each want, and total for all of them.
	most  []int32
	total []int32
	// plain is how many plain devices each want accepts.
	plain      []int32
	plainTotal int32
	// sole is the only cluster that has devices for each want, nobody if none has, and
	// various if there are other devices, too.
	sole []int32

	hopeless memory
	key      []byte

	scale scale

	// offers are the rows that were found best, prices what each costs together
	// with what comes after, width numbers each.
	offers []int32
	prices []int64
	width  int
	// spare is how many units may be broken from each cluster on.
	spare []int32
}

// relax looks for devices for all wants of a state, without the constraints that
// are open and with the least that open requests want. If it finds them, the
// answer for the requests that have chosen is in s.trial. Values under Distinct
// constraints tie clusters together that are easy for themselves, so first it looks
// without those, too.
func (s *Solver) relax(st *state) answer {
	if len(s.uses.left) > len(s.problem.Left) {
		s.uses.unseated = true
		found := s.meet(st)
		s.uses.unseated = false
		if found != yes || s.completes(st) {
			return found
		}
	}
	return s.meet(st)
}

// completes says whether the trial completes the state as it is.
func (s *Solver) completes(st *state) bool {
	return !slices.Contains(st.chosen, open) && s.holds(st, &s.trial)
}

func (s *Solver) meet(st *state) answer {
	if s.plain {
		s.clusters.all = s.clusters.all[:0]
		s.clusters.plain = append(s.clusters.plain[:0], s.everything...)
	} else {
		s.uses.read(s, st)
		if !s.clusters.read(s, st) {
			return ended
		}
	}
	s.combination.begin(s)
	switch {
	case !s.combination.soleFit(s):
	case s.combine(0):
		s.hand(st)
		return yes
	case s.ended():
		return ended
	}
	return never
}

func (k *combination) begin(s *Solver) {
	k.wants = len(s.wants.all)
	clusters := s.clusters.all
	k.rest = filled(k.rest, k.wants*(len(clusters)+1), 0)
	k.most = filled(k.most, k.wants*(len(clusters)+1), 0)
	k.total = filled(k.total, len(clusters)+1, 0)
	k.chosen = filled(k.chosen, len(clusters), nobody)
	k.plain = filled(k.plain, k.wants, 0)
	k.sole = filled(k.sole, k.wants, nobody)
	k.plainTotal = int32(s.clusters.plain.Count())
	k.hopeless.forget()
	k.scale.begin(k.wants, len(clusters))
	for w := range s.wants.all {
		k.rest[w] = int32(s.wants.all[w].demand)
		for i, word := range s.wants.all[w].accept {
			k.plain[w] += int32(bits.OnesCount64(word & s.clusters.plain[i]))
		}
	}
	for i := len(clusters) - 1; i >= 0; i-- {
		f := &s.fills.all[clusters[i].fills]
		most := k.most[i*k.wants : (i+1)*k.wants]
		copy(most, k.most[(i+1)*k.wants:])
		best := int32(0)
		wants := s.clusters.of(i)
		for at, w := range wants {
			top := int64(0)
			for _, row := range s.fills.list[f.list:f.listTo] {
				top = max(top, s.fills.dims[int(s.fills.rows[row].dims)+at])
			}
			most[w] += int32(top)
			switch {
			case top == 0:
			case k.sole[w] == nobody && k.plain[w] == 0:
				k.sole[w] = int32(i)
			default:
				k.sole[w] = various
			}
		}
		for _, row := range s.fills.list[f.list:f.listTo] {
			sum := int64(0)
			for at := range wants {
				sum += s.fills.dims[int(s.fills.rows[row].dims)+at]
			}
			best = max(best, int32(sum))
		}
		k.total[i] = k.total[i+1] + best
		s.steps += int64(f.listTo - f.list)
	}
	k.scale.read(s, k)
}

const various int32 = -2

// soleFit says whether each cluster can meet at once all that only it can. Values that
// are pinned make many wants of this kind, and the clusters that come before need not
// be looked at to find out.
func (k *combination) soleFit(s *Solver) bool {
	for i := range k.chosen {
		if slices.Contains(k.sole, int32(i)) && !k.holdsSole(s, int32(i)) {
			return false
		}
	}
	return true
}

func (k *combination) holdsSole(s *Solver, i int32) bool {
	f := &s.fills.all[s.clusters.all[i].fills]
	wants := s.clusters.of(int(i))
	return slices.ContainsFunc(s.fills.list[f.list:f.listTo], func(row int32) bool {
		s.steps += int64(1 + len(wants))
		dims := s.fills.dims[s.fills.rows[row].dims:]
		for at, w := range wants {
			if k.sole[w] == i && dims[at] < int64(k.rest[w]) {
				return false
			}
		}
		return true
	})
}

// combine says whether the clusters from one on can meet the rest of the demand.
func (s *Solver) combine(i int) bool {
	k := &s.combination
	rest := k.rest[i*k.wants : (i+1)*k.wants]
	s.steps += int64(4 + k.wants)
	if s.ended() || !k.bounded(i, rest) {
		return false
	}
	if i == len(k.chosen) {
		return s.matchPlain(rest)
	}
	if k.knows(i, rest) {
		return false
	}
	f := &s.fills.all[s.clusters.all[i].fills]
	wants := s.clusters.of(i)
	next := k.rest[(i+1)*k.wants : (i+2)*k.wants]
	for _, row := range s.fills.list[f.list:f.listTo] {
		s.steps += int64(4 + len(wants))
		copy(next, rest)
		dims := s.fills.dims[s.fills.rows[row].dims:]
		for at, w := range wants {
			next[w] -= min(next[w], int32(dims[at]))
		}
		k.chosen[i] = row
		if s.combine(i + 1) {
			return true
		}
	}
	if !s.ended() {
		k.hopeless.remember(k.describe(i, rest), 0)
	}
	return false
}

// bounded says whether each want, and all together, could have what they demand.
func (k *combination) bounded(i int, rest []int32) bool {
	sum := int32(0)
	for w, most := range k.most[i*k.wants : (i+1)*k.wants] {
		if rest[w] > most+k.plain[w] {
			return false
		}
		sum += rest[w]
	}
	return sum <= k.total[i]+k.plainTotal && k.scale.missing(rest) <= k.scale.room[i]
}

func (k *combination) knows(i int, rest []int32) bool {
	_, known := k.hopeless.recall(k.describe(i, rest))
	return known
}

func (k *combination) describe(i int, rest []int32) []byte {
	k.key = binary.AppendUvarint(k.key[:0], uint64(i))
	for _, n := range rest {
		k.key = binary.AppendUvarint(k.key, uint64(n))
	}
	return k.key
}

// matchPlain gives the wants the rest of their demand from the plain devices.
func (s *Solver) matchPlain(rest []int32) bool {
	s.matching.reset(s.clusters.plain, len(s.wants.all))
	for w, n := range rest {
		for ; n > 0; n-- {
			if !s.matching.augment(w, s.wants.all) {
				return false
			}
		}
	}
	return true
}

// hand turns fills and matching into devices for each request that has chosen.
func (s *Solver) hand(st *state) {
	k := &s.combination
	s.got = slices.Grow(s.got[:0], k.wants)[:k.wants]
	for w := range s.got {
		s.got[w] = s.got[w][:0]
	}
	for i, row := range k.chosen {
		before, after := k.rest[i*k.wants:(i+1)*k.wants], k.rest[(i+1)*k.wants:(i+2)*k.wants]
		s.quota = s.quota[:0]
		for w := range before {
			s.quota = append(s.quota, before[w]-after[w])
		}
		s.unfold(&s.clusters.all[i], row)
	}
	for d, w := range s.matching.owner {
		if w != nobody {
			s.got[w] = append(s.got[w], int32(d))
		}
	}
	s.trial.reset(len(st.chosen))
	for w := range s.wants.all {
		want := &s.wants.all[w]
		if want.slot == int(open) {
			continue
		}
		got := s.got[w]
		slices.Sort(got)
		for _, r := range want.requests {
			need := int(st.need[r])
			s.trial.devices[r] = append(s.trial.devices[r], got[:need]...)
			got = got[need:]
		}
	}
}

// unfold gives the wants the devices of a fill, as far as they need them.
func (s *Solver) unfold(cluster *cluster, row int32) {
	s.given = filled(s.given, int(cluster.to-cluster.from), 0)
	for ; s.fills.rows[row].parent != nobody; row = s.fills.rows[row].parent {
		r := &s.fills.rows[row]
		lot := &s.clusters.lots[cluster.from+r.lot]
		use := &s.uses.at(int(s.clusters.devices[lot.from]))[r.use]
		if s.quota[use.want] == 0 {
			continue
		}
		s.quota[use.want]--
		at := lot.from + s.given[r.lot]
		if !s.uses.several[use.device] {
			s.given[r.lot]++
		}
		s.got[use.want] = append(s.got[use.want], s.clusters.devices[at])
	}
}
