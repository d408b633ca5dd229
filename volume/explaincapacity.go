// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/reason"
)

// explainCapacity adds the facts of a claim that finds too little capacity: the
// most that the node could still provision for it, where, and who draws the rest;
// if the node reaches none, the most that is reported elsewhere.
func (g *group) explainCapacity(r *reason.Rejection, s *solution) {
	if len(s.budgets) == 0 {
		r.Facts.Had = &resource.Quantity{}
		r.Facts.Detail = g.describeElsewhere(r)
		return
	}
	best := &s.budgets[0]
	for k := range s.budgets {
		if most, b := best.most(), &s.budgets[k]; most.Cmp(b.most()) < 0 {
			best = b
		}
	}
	had := best.most().DeepCopy()
	r.Facts.Had = &had
	r.Facts.Object = best.source.ref()
	r.Facts.Limit = limit(s.budgets, r.Facts.Wanted)
	r.Facts.Detail = best.describe()
}

// describe says where the reported total has gone, and what bounds a volume.
func (b *budget) describe() string {
	if b.left == nil {
		return ""
	}
	total := b.source.object.Capacity
	var own, bound string
	if b.left.Cmp(*b.offered) != 0 {
		own = fmt.Sprintf("%s of %s are left beside the other claims of the pod", b.left.String(), b.offered.String())
	}
	if b.largest != nil && b.largest.Cmp(*b.left) < 0 {
		bound = fmt.Sprintf("%s are free, no volume can be larger than %s", b.left.String(), b.largest.String())
	}
	return join(describeDrawn(b.drawn, total), own, bound)
}

// mostDrawers is how many of the claims that draw from a capacity are named.
const mostDrawers = 3

func describeDrawn(drawn []Draw, total *resource.Quantity) string {
	if len(drawn) == 0 {
		return ""
	}
	var claims []string
	var sum resource.Quantity
	for i := range drawn {
		sum.Add(drawn[i].Size)
		if i < mostDrawers {
			claims = append(claims, fmt.Sprintf("%s by claim %s", drawn[i].Size.String(), drawn[i].Claim))
		}
	}
	if more := len(drawn) - mostDrawers; more > 0 {
		claims = append(claims, fmt.Sprintf("the rest by %d more", more))
	}
	return fmt.Sprintf("%s of the reported %s are drawn already: %s", sum.String(), total.String(), list(claims, "and"))
}

// limit is the largest single volume that any of the budgets allows, if none
// allows one of the wanted size, however much is left of it.
func limit(budgets []budget, wanted *resource.Quantity) *resource.Quantity {
	var most resource.Quantity
	for i := range budgets {
		largest := budgets[i].largest
		if wanted == nil || largest == nil || largest.Cmp(*wanted) >= 0 {
			return nil
		}
		if most.Cmp(*largest) < 0 {
			most = largest.DeepCopy()
		}
	}
	return &most
}

// describeElsewhere names the largest capacity of the class, none of which the
// node reaches, and makes it the object of the rejection.
func (g *group) describeElsewhere(r *reason.Rejection) string {
	var best *Capacity
	for _, c := range g.facts.Capacities(g.class.Name) {
		most := c.most()
		if most == nil || c.nodes == nowhere {
			continue
		}
		if best == nil || best.most().Cmp(*most) < 0 {
			best = c
		}
	}
	if best == nil {
		return "the driver reports no capacity for the class"
	}
	r.Facts.Object = best.ref()
	return fmt.Sprintf("the driver reports no capacity of the class for this node, and at most %s elsewhere", best.most())
}

func (c *Capacity) ref() reason.Ref {
	return reason.Ref{Kind: "CSIStorageCapacity", Namespace: c.object.Namespace, Name: c.object.Name}
}
