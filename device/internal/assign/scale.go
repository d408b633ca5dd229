// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import "slices"

// scale weighs demands against clusters, to see early that clusters cannot hold a
// demand, or only if so many units are broken. Each want has a weight, the part that a
// device takes of the resource that it takes most of. What a fill weighs in total is
// then about the same for all fills that use a cluster up, so the most that one can
// weigh says how much a cluster holds, whichever wants it is used for. The bound is
// right for any weights and tight for these.
type scale struct {
	weights []int64
	// plain is the most that plain devices can weigh. room is, before each cluster, the
	// most that this and the later ones can hold; free is the part of it for which no
	// unit is broken, and gain the most that they can hold more for each that is.
	plain            int64
	room, free, gain []int64
	// weighs is what the fills of a cluster weigh.
	weighs []int64
}

// full is about what a fill weighs that uses a cluster up.
const full = 1 << 20

func (t *scale) begin(wants, clusters int) {
	t.weights = zeroed(t.weights, wants)
	t.room = zeroed(t.room, clusters+1)
	t.free = zeroed(t.free, clusters+1)
	t.gain = zeroed(t.gain, clusters+1)
}

func (t *scale) read(s *Solver, k *combination) {
	clusters := s.clusters.all
	for w := range t.weights {
		t.weights[w] = full
	}
	for i := range clusters {
		for _, l := range s.clusters.lots[clusters[i].from:clusters[i].to] {
			for _, use := range s.uses.at(int(s.clusters.devices[l.from])) {
				t.weights[use.want] = min(t.weights[use.want], t.share(s, &use))
			}
		}
	}
	t.plain = int64(k.plainTotal) * slices.Max(append(t.weights, 0))
	for i := len(clusters) - 1; i >= 0; i-- {
		t.room[i], t.free[i], t.gain[i] = t.room[i+1], t.free[i+1], t.gain[i+1]
		t.add(s, i)
	}
}

// add adds what one cluster can hold to what those after it can.
func (t *scale) add(s *Solver, i int) {
	f := &s.fills.all[s.clusters.all[i].fills]
	rows, wants := s.fills.list[f.list:f.listTo], s.clusters.of(i)
	t.weighs = t.weighs[:0]
	room, free := int64(0), int64(0)
	for _, row := range rows {
		s.steps += int64(1 + len(wants))
		weighs := int64(0)
		dims := s.fills.dims[s.fills.rows[row].dims:]
		for at, w := range wants {
			weighs += dims[at] * t.weights[w]
		}
		t.weighs = append(t.weighs, weighs)
		room = max(room, weighs)
		if s.broken(row) == 0 {
			free = max(free, weighs)
		}
	}
	for j, row := range rows {
		if broken := s.broken(row); broken > 0 {
			t.gain[i] = max(t.gain[i], (t.weighs[j]-free+broken-1)/broken)
		}
	}
	t.room[i] += room
	t.free[i] += free
}

// broken is how many units a fill breaks.
func (s *Solver) broken(row int32) int64 {
	if !s.pack.active {
		return 0
	}
	return s.fills.costs[int(row)*s.pack.width+wholes]
}

// share is the part that a use takes of the resource that it takes most of.
func (t *scale) share(s *Solver, use *use) int64 {
	share := int64(0)
	for _, a := range s.uses.amountsOf(use) {
		s.steps++
		if left := s.uses.left[a.Counter]; left > 0 {
			share = max(share, int64(full*(float64(a.Value)/float64(left))))
		}
	}
	return min(share, full)
}

// missing is what a demand weighs that plain devices cannot meet.
func (t *scale) missing(rest []int32) int64 {
	weighs := -t.plain
	for w, n := range rest {
		weighs += int64(n) * t.weights[w]
	}
	return weighs
}

// broken is how many units are broken at least when the clusters from one on meet the
// rest of a demand, which they can for all that is known.
func (t *scale) broken(i int, rest []int32) int32 {
	more := t.missing(rest) - t.free[i]
	if more <= 0 || t.gain[i] == 0 {
		return 0
	}
	return int32((more + t.gain[i] - 1) / t.gain[i])
}
