// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Place is a label of nodes. What can be reached from nodes with that label only
// is kept under it, so that one node's volumes are found without looking at those
// of all others. The zero Place is anywhere: what has no such label.
type Place struct{ Key, Value string }

// places returns the places under which the topology is found: every node that
// belongs to it has one of these labels, or the only place is anywhere. A
// topology without nodes is found nowhere.
func (t *topology) places() []Place {
	if t == nil {
		return []Place{{}}
	}
	var all []Place
	for _, term := range t.terms {
		if len(term) == 0 {
			continue
		}
		tie := tightest(term)
		if tie == nil {
			return []Place{{}}
		}
		for _, value := range tie.ValuesUnsorted() {
			all = append(all, Place{tie.Key(), value})
		}
	}
	return distinct(all)
}

func distinct(all []Place) []Place {
	slices.SortFunc(all, func(a, b Place) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value)) })
	return slices.Compact(all)
}

// tightest returns the requirement of the term that the fewest nodes can be
// expected to meet, nil if none lists the values of a label.
func tightest(term []labels.Requirement) *labels.Requirement {
	var best *labels.Requirement
	for i := range term {
		r := &term[i]
		if lists(r) && (best == nil || compareTightness(r, best) < 0) {
			best = r
		}
	}
	return best
}

func lists(r *labels.Requirement) bool {
	return r.Operator() == selection.In || r.Operator() == selection.Equals
}

func compareTightness(a, b *labels.Requirement) int {
	return cmp.Or(
		cmp.Compare(breadth[a.Key()], breadth[b.Key()]),
		cmp.Compare(len(a.ValuesUnsorted()), len(b.ValuesUnsorted())),
		cmp.Compare(a.Key(), b.Key()))
}

// breadth of the well-known labels: hostnames are the tightest, then labels that
// nothing is known of, then those that many nodes share.
var breadth = map[string]int{
	v1.LabelHostname:                -1,
	v1.LabelTopologyZone:            1,
	v1.LabelFailureDomainBetaZone:   1,
	v1.LabelTopologyRegion:          2,
	v1.LabelFailureDomainBetaRegion: 2,
	v1.LabelInstanceTypeStable:      2,
	v1.LabelInstanceType:            2,
	v1.LabelArchStable:              3,
	v1.LabelOSStable:                3,
	"beta.kubernetes.io/arch":       3,
	"beta.kubernetes.io/os":         3,
}

// placesOf yields the places to look under for a node: anywhere, and its labels
// that have one of the keys.
func placesOf(node labels.Set, keys []string) iter.Seq[Place] {
	return func(yield func(Place) bool) {
		if !yield(Place{}) {
			return
		}
		for _, key := range keys {
			if value, ok := node[key]; ok && !yield(Place{key, value}) {
				return
			}
		}
	}
}
