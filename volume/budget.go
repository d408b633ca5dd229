// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"k8s.io/apimachinery/pkg/api/resource"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// budget is what one CSIStorageCapacity still offers to the claims of a pod.
type budget struct {
	source *Capacity
	// drawn is what other claims take from it that it does not show.
	drawn []Draw
	// offered is the reported total less what is drawn, left is what the pod's
	// claims have left of it. Both are nil when there is no total to hold them
	// against.
	offered, left *resource.Quantity
	// largest is the largest single volume, nil when the driver does not say.
	largest *resource.Quantity
}

// budgets returns what the node reaches, ordered by namespace and name.
func (g *group) budgets(n *node) []budget {
	var all []budget
	for _, c := range capacitiesOn(g.facts, g.class.Name, n.labels, g.keys) {
		if c.most() != nil {
			all = append(all, g.budget(c))
		}
	}
	return all
}

func (g *group) budget(c *Capacity) budget {
	b := budget{source: c, largest: c.object.MaximumVolumeSize}
	switch {
	case c.object.Capacity == nil:
	case g.options.Capacity == CheckEach:
		if b.largest == nil {
			b.largest = c.object.Capacity
		}
	default:
		b.drawn = g.others(g.facts.Drawn(c))
		b.offered = c.object.Capacity
		if len(b.drawn) > 0 {
			b.offered = less(b.offered, b.drawn)
		}
		b.left = b.offered
	}
	return b
}

// others returns the draws without those of the group's claims that no provisioner
// is at work for: what such a claim drew in an earlier attempt is about to end.
func (g *group) others(drawn []Draw) []Draw {
	for _, c := range g.claims {
		if c.pvc.Annotations[storagehelpers.AnnSelectedNode] == "" {
			drawn = without(drawn, c.pvc)
		}
	}
	return drawn
}

// most is the size of the largest claim that the budget can still take.
func (b *budget) most() resource.Quantity {
	switch {
	case b.left == nil:
		return *b.largest
	case b.largest == nil || b.left.Cmp(*b.largest) < 0:
		return *b.left
	default:
		return *b.largest
	}
}

// draw takes size from the budget.
func (b *budget) draw(size resource.Quantity) {
	if b.left == nil {
		return
	}
	left := b.left.DeepCopy()
	left.Sub(size)
	b.left = &left
}
