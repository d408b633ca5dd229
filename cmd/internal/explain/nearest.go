// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/cmd/internal/simulate"
	"github.com/berth-scheduler/berth/reason"
)

// nearest returns the node that came nearest to taking the pod: that lacks the
// fewest things, and of the first of them has the largest part, or the most
// devices of the class; then the first by name. Nil when there are no nodes.
func nearest(nodes []simulate.Node) *simulate.Node {
	var best *simulate.Node
	for i := range nodes {
		if best == nil || distanceOf(nodes[i]).less(distanceOf(*best)) {
			best = &nodes[i]
		}
	}
	return best
}

// near says whether it helps to name the node: it has a part of what it lacks,
// or it has all that the claims ask for and others have not.
func near(node *simulate.Node, nodes []simulate.Node) bool {
	lacksClaims := func(n simulate.Node) bool { return !hasClaims(n) }
	return distanceOf(*node).part > 0 || hasClaims(*node) && slices.ContainsFunc(nodes, lacksClaims)
}

// hasClaims says that the node has the devices and volumes that the pod claims.
func hasClaims(node simulate.Node) bool { return node.Devices == nil && node.Volumes == nil }

// distance orders nodes by what they lack.
type distance struct {
	// never: no pod that ends can make room on the node.
	never   bool
	lacking int
	// part is how much of the first thing that it lacks the node has, from 0 to 1.
	part    float64
	inClass int
}

func (d distance) less(other distance) bool {
	if d.never != other.never {
		return other.never
	}
	if d.lacking != other.lacking {
		return d.lacking < other.lacking
	}
	if d.part != other.part {
		return d.part > other.part
	}
	return d.inClass > other.inClass
}

func distanceOf(node simulate.Node) distance {
	d := distance{never: node.NeverFits}
	for _, rejection := range []*reason.Rejection{node.Devices, node.Volumes} {
		if rejection == nil {
			continue
		}
		d.lacking += len(rejection.All())
		if d.part == 0 {
			d.part = partOf(rejection)
		}
		if counts := rejection.Facts.Devices; counts != nil {
			d.inClass += counts.InClass
		}
	}
	if node.Refusal != nil && about(node.Refusal) == "other" {
		d.lacking++
	}
	return d
}

func partOf(r *reason.Rejection) float64 {
	f := r.Facts
	switch r.Code {
	case reason.NotEnoughDevices, reason.DevicesShared, reason.ConstraintUnmet, reason.NotEnoughStorage:
		if f.Wanted != nil && f.Had != nil && f.Limit == nil && !f.Wanted.IsZero() {
			return f.Had.AsApproximateFloat64() / f.Wanted.AsApproximateFloat64()
		}
	}
	return 0
}

// lacks says what the node has and what keeps it from taking the pod.
func (r *Report) lacks(node *simulate.Node) string {
	if node.Refusal.Rejection == nil {
		if hasClaims(*node) && !r.byDevicePlugin(node.Name) {
			return "which has the devices and volumes, but: " + node.Refusal.Message
		}
		return "but: " + node.Refusal.Message
	}
	holders, no := r.holders(node), node.Refusal.Rejection
	f := no.Facts
	if f.Wanted == nil || f.Had == nil {
		return "but: " + describe(no)
	}
	switch no.Code {
	case reason.NotEnoughDevices:
		text := fmt.Sprintf("where %s of %s %s free", f.Had, f.Wanted, be(f.Had.Value()))
		if tooFewExist(no) && f.Attribute != "" {
			return text + fmt.Sprintf(" and no more than %d could share one %s", exist(no), f.Attribute)
		}
		if tooFewExist(no) {
			return text + fmt.Sprintf(" and no more than %d exist", exist(no))
		}
		return text + r.heldBy(holders)
	case reason.ConstraintUnmet:
		text := fmt.Sprintf("where %s of %s share one %s", f.Had, f.Wanted, f.Attribute)
		if value := largest(f.Devices); value != "" {
			text = fmt.Sprintf("where %s of %s share %s %s", f.Had, f.Wanted, f.Attribute, value)
		}
		if tooFewExist(no) {
			return text + fmt.Sprintf(" and no more than %d could", exist(no))
		}
		return text + r.heldBy(holders)
	case reason.NotEnoughStorage:
		return fmt.Sprintf("which has %s of the %s of class %s that claim %s wants", f.Had, f.Wanted, f.Class, no.Claim)
	}
	return "but: " + describe(no)
}

// largest is the attribute value that most free devices share.
func largest(d *reason.Devices) string {
	if d == nil || len(d.Groups) == 0 {
		return ""
	}
	return slices.MaxFunc(d.Groups, func(a, b reason.Group) int { return a.Free - b.Free }).Value
}
