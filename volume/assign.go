// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"slices"
)

// An assignment of claims to volumes is a matching in a graph whose edges say
// which volume a claim may have. What makes a good one easy to find is that the
// waste of an assignment, the sum of the sizes of its volumes less the sum of
// the sizes of its claims, does not depend on who got which. So the two sides
// can be chosen apart:
//
//   - The claims: take them in order of precedence, keep each that still finds a
//     place when the ones kept before may move. The sets of claims that can be
//     placed together form a matroid, therefore this greedy choice places the
//     most claims, and among all choices that do, those of highest precedence.
//   - The volumes: the same from the other side, smallest first.
//   - Together: whatever claims and whatever volumes can each be matched can be
//     matched with one another (theorem of Mendelsohn and Dulmage).
//
// Only comparisons of sizes are needed, never sums, so sizes stay exact.

// assignment is a choice of volumes for claims.
type assignment struct {
	// volumes are those that came into question, in the order of compareVolumes.
	volumes []*Volume
	// reach[i] are the volumes that claim i may have, as ascending indexes.
	reach [][]int
	// of[i] is the index of the volume of claim i, or none.
	of []int
}

const (
	// none is the seat of a guest, or the guest of a seat, that has none.
	none = -1
	// closed is the guest of a seat that is not to be had.
	closed = -2
)

// assign puts as many claims as it can on volumes, the claims of lower index
// first. reach[i] are the volumes that claim i may have, in the order of
// compareVolumes. No claim needs to name more volumes than there are claims:
// when all others have theirs, one of its first ones is still free.
//
// Of all assignments that place these claims it returns the one of least waste;
// if volumes are equally large, the one with the first volumes by name. Among
// themselves the claims take the chosen volumes in the order given by rank.
func assign(reach [][]*Volume, rank []int) assignment {
	a := assignment{reach: make([][]int, len(reach))}
	for _, volumes := range reach {
		a.volumes = append(a.volumes, volumes...)
	}
	slices.SortFunc(a.volumes, compareVolumes)
	a.volumes = slices.Compact(a.volumes)
	for i, volumes := range reach {
		for _, v := range volumes {
			j, _ := slices.BinarySearchFunc(a.volumes, v, compareVolumes)
			a.reach[i] = append(a.reach[i], j)
		}
	}
	a.choose()
	a.settle(rank)
	return a
}

// choose selects the claims and the volumes and matches them.
func (a *assignment) choose() {
	claims := newSeating(a.reach, len(a.volumes))
	wanted := make([][]int, len(a.volumes))
	for i := range a.reach {
		if !claims.seat(i) {
			continue
		}
		for _, j := range a.reach[i] {
			wanted[j] = append(wanted[j], i)
		}
	}
	volumes := newSeating(wanted, len(a.reach))
	for j := range a.volumes {
		volumes.seat(j)
	}
	a.of = volumes.holder
}

// settle lets the claims, in the order of rank, exchange their volume for an
// earlier chosen one, as long as all others keep a place.
func (a *assignment) settle(rank []int) {
	for n, i := range rank {
		if a.of[i] == none {
			continue
		}
		for _, j := range a.reach[i] {
			if j == a.of[i] {
				break
			}
			other := slices.Index(a.of, j)
			if other != none && !slices.Contains(rank[:n], other) && a.exchange(i, other, rank[:n]) {
				break
			}
		}
	}
}

// exchange gives the volume of the other claim to claim i, if the other and
// those it drives out find new places up to the volume that i gives up. Settled
// claims do not move.
func (a *assignment) exchange(i, other int, settled []int) bool {
	chosen := newSeating(a.reach, len(a.volumes))
	for j := range chosen.holder {
		chosen.holder[j] = closed
	}
	for k, j := range a.of {
		if j != none && k != i && k != other && !slices.Contains(settled, k) {
			chosen.holder[j] = k
		}
	}
	chosen.holder[a.of[i]] = none
	if !chosen.seat(other) {
		return false
	}
	a.of[i] = a.of[other]
	for j, k := range chosen.holder {
		if k >= 0 {
			a.of[k] = j
		}
	}
	return true
}

// rivals returns a set of claims, claim i among them, that has fewer volumes
// within its reach than members, and these volumes. Claim i must have no volume.
func (a *assignment) rivals(i int) (claims, volumes []int) {
	claims = []int{i}
	for n := 0; n < len(claims); n++ {
		for _, j := range a.reach[claims[n]] {
			if slices.Contains(volumes, j) {
				continue
			}
			volumes = append(volumes, j)
			if holder := slices.Index(a.of, j); holder != none && !slices.Contains(claims, holder) {
				claims = append(claims, holder)
			}
		}
	}
	slices.SortFunc(claims, cmp.Compare[int])
	slices.SortFunc(volumes, cmp.Compare[int])
	return claims, volumes
}

// seating gives guests a seat each (the augmenting paths of bipartite matching).
type seating struct {
	// likes[g] are the seats that guest g would take.
	likes [][]int
	// holder is the guest on each seat, none or closed.
	holder []int
	tried  []bool
}

func newSeating(likes [][]int, seats int) *seating {
	s := &seating{likes: likes, holder: make([]int, seats), tried: make([]bool, seats)}
	for i := range s.holder {
		s.holder[i] = none
	}
	return s
}

// seat finds a seat for the guest, moving others as needed. A guest who has a
// seat keeps one. It changes nothing if there is no way.
func (s *seating) seat(guest int) bool {
	clear(s.tried)
	return s.try(guest)
}

func (s *seating) try(guest int) bool {
	for _, seat := range s.likes[guest] {
		if s.tried[seat] || s.holder[seat] == closed {
			continue
		}
		s.tried[seat] = true
		if s.holder[seat] == none || s.try(s.holder[seat]) {
			s.holder[seat] = guest
			return true
		}
	}
	return false
}
