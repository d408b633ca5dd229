// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import "github.com/berth-scheduler/berth/reason"

// draw takes the claims of these indexes, the largest first, from the reported
// capacity that the node reaches. A node reaches one object of a class as a
// rule; if there are more, each claim draws from the first that still has room.
//
// A claim that is being provisioned already is not refused and draws nothing
// here: its driver knows best, and what it takes is among the draws of Facts.
func (s *solution) draw(g *group, claims []int, n *node) {
	s.sources = make([]*budget, len(g.claims))
	s.budgets = g.budgets(n)
	for _, i := range claims {
		if c := g.claims[i]; c.pinned != "" || c.wanted.IsZero() {
			continue
		}
		if s.sources[i] = s.take(g, i); s.sources[i] == nil {
			s.refused[i] = reason.NotEnoughStorage
		}
	}
}

// take draws a claim from the first budget that has room for it and returns that
// budget, nil if none has.
func (s *solution) take(g *group, i int) *budget {
	wanted := g.claims[i].wanted
	for k := range s.budgets {
		b := &s.budgets[k]
		if most := b.most(); most.Cmp(wanted) >= 0 {
			b.draw(wanted)
			return b
		}
	}
	return nil
}
