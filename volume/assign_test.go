// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// TestAssignIsTheBestOfAll: on an arbitrary graph, the assignment is the one
// that comes first among all when they are compared by the claims placed (lower
// indexes first), the volumes used (smallest first) and the volumes that the
// claims get in the order of rank.
func TestAssignIsTheBestOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "claims")
		var volumes []*Volume
		for j := range rapid.IntRange(0, 6).Draw(t, "volumes") {
			size := resource.NewQuantity(rapid.Int64Range(1, 3).Draw(t, "size"), resource.BinarySI)
			volumes = append(volumes, CompileVolume(&v1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("v%d", j)},
				Spec:       v1.PersistentVolumeSpec{Capacity: v1.ResourceList{v1.ResourceStorage: *size}},
			}))
		}
		slices.SortFunc(volumes, compareVolumes)
		rank := rapid.Permutation(upTo(n)).Draw(t, "rank")
		edges := make([][]bool, n)
		reach := make([][]*Volume, n)
		for i := range edges {
			edges[i] = rapid.SliceOfN(rapid.Bool(), len(volumes), len(volumes)).Draw(t, "edges")
			for j, v := range volumes {
				if edges[i][j] && len(reach[i]) < n {
					reach[i] = append(reach[i], v)
				}
			}
		}
		a := assign(reach, rank)
		got := make([]int, n)
		for i, j := range a.of {
			got[i] = none
			if j != none {
				got[i] = slices.Index(volumes, a.volumes[j])
			}
		}
		if want := bestAssignment(edges, rank, len(volumes)); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for i, j := range a.of {
			if j != none {
				continue
			}
			if claims, seen := a.rivals(i); len(claims) <= len(seen) || !slices.Contains(claims, i) {
				t.Fatalf("claim %d is left out, but claims %v have volumes %v", i, claims, seen)
			}
		}
	})
}

// bestAssignment tries all assignments.
func bestAssignment(edges [][]bool, rank []int, volumes int) []int {
	var best, bestKey []int
	of := make([]int, len(edges))
	var try func(i int)
	try = func(i int) {
		if i < len(of) {
			of[i] = none
			try(i + 1)
			for j := range volumes {
				if edges[i][j] && !slices.Contains(of[:i], j) {
					of[i] = j
					try(i + 1)
				}
			}
			return
		}
		if key := assignmentKey(of, rank); best == nil || slices.Compare(key, bestKey) < 0 {
			best, bestKey = slices.Clone(of), key
		}
	}
	try(0)
	return best
}

func assignmentKey(of, rank []int) []int {
	var key, chosen []int
	for _, j := range of {
		if j == none {
			key = append(key, 1)
			continue
		}
		key = append(key, 0)
		chosen = append(chosen, j)
	}
	slices.Sort(chosen)
	key = append(key, chosen...)
	for _, i := range rank {
		key = append(key, of[i])
	}
	return key
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
