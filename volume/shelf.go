// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"slices"
	"sync"
)

// shelf is what is found under one place: for each claim of a group, by index,
// the volumes that fit it, in the order of compareVolumes.
type shelf [][]*Volume

// worthKeeping is the number of volumes under a place from which on the shelf is
// kept for the next node. Those of a single node are few and asked for once; those
// of a zone are many, and asked for by every node of the zone.
const worthKeeping = 16

// shelves are those that are kept. The first node that needs one fills it.
type shelves struct {
	byPlace sync.Map // of Place to shelf
}

func (g *group) shelf(at Place) shelf {
	if known, ok := g.shelves.byPlace.Load(at); ok {
		return known.(shelf)
	}
	volumes := g.facts.VolumesAt(g.class.Name, at)
	if len(volumes) == 0 {
		return nil
	}
	s := make(shelf, len(g.claims))
	for i, c := range g.claims {
		if c.pinned != "" || len(c.kept) > 0 {
			continue
		}
		for _, v := range volumes {
			if c.obstacle(v) == fits {
				s[i] = append(s[i], v)
			}
		}
		slices.SortFunc(s[i], compareVolumes)
	}
	if len(volumes) >= worthKeeping {
		g.shelves.byPlace.Store(at, s)
	}
	return s
}

// within returns for each claim the volumes that fit it and that the node reaches,
// in the order of compareVolumes, the smallest ones only: as many as there are
// claims. When all others have theirs, one of them is still free.
func (g *group) within(n *node) [][]*Volume {
	found := make([][]*Volume, len(g.claims))
	for i, c := range g.claims {
		found[i] = g.reachable(nil, c.kept, n)
	}
	for at := range placesOf(n.labels, g.keys) {
		for i, volumes := range g.shelf(at) {
			found[i] = g.reachable(found[i], volumes, n)
		}
	}
	for i := range found {
		// A volume may be found under two labels of the node.
		slices.SortFunc(found[i], compareVolumes)
		found[i] = slices.Compact(found[i])
		found[i] = found[i][:min(len(g.claims), len(found[i]))]
	}
	return found
}

// reachable adds the first of the volumes that the node reaches, as many as there
// are claims.
func (g *group) reachable(found, volumes []*Volume, n *node) []*Volume {
	left := len(g.claims)
	for _, v := range volumes {
		if left == 0 {
			break
		}
		if v.reachedFrom(n) {
			found = append(found, v)
			left--
		}
	}
	return found
}
