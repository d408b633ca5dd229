// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/reason"
)

// Solve returns the plan for the pod on the node. The rejection has the code
// and the claim of everything that stands in the way, without facts; Explain
// adds them. The node is only read, and only during the call.
func (p *Problem) Solve(node *v1.Node) (Plan, *reason.Rejection) {
	var plan Plan
	var refused []*reason.Rejection
	n := p.on(node)
	for i := range p.bound {
		if b := &p.bound[i]; !b.volume.reachedFrom(n) {
			refused = append(refused, b.refuse(reason.VolumeElsewhere, n.name))
		}
	}
	for _, g := range p.groups {
		s := g.solve(n)
		for i, code := range s.refused {
			if code != "" {
				refused = append(refused, g.claims[i].refuse(code, n.name))
			}
		}
		plan.add(g, &s, n.name)
	}
	if r := combine(refused); r != nil {
		return Plan{}, r
	}
	plan.order()
	return plan, nil
}

// solution is what became of the claims of a group on a node, by their index.
type solution struct {
	// refused is why a claim finds no place, empty if it does.
	refused []reason.Code
	// volumes are the existing volumes of the claims, nil if they have none.
	volumes []*Volume
	// sources are what the claims draw from, nil if nothing is counted.
	sources []*budget
	// budgets are what the node can reach, after the draws.
	budgets []budget
	// assigned is how the volumes were given to several claims.
	assigned *assignment
}

// solve places the claims of the group on the node.
func (g *group) solve(n *node) solution {
	s := solution{refused: make([]reason.Code, len(g.claims)), volumes: make([]*Volume, len(g.claims))}
	s.assign(g, g.within(n))
	var provisioned []int
	for i, c := range g.claims {
		switch {
		case s.volumes[i] != nil:
		case len(c.kept) > 0:
			s.refused[i] = reason.VolumeElsewhere
		case c.pinned != "" && c.pinned != n.name:
			s.refused[i] = reason.SelectedNodeElsewhere
		case c.pinned == "" && !c.provisionable:
			s.refused[i] = s.withoutVolume(i)
		case !g.allowed.has(n.labels):
			s.refused[i] = reason.TopologyNotAllowed
		default:
			provisioned = append(provisioned, i)
		}
	}
	if g.reported && len(provisioned) > 0 {
		s.draw(g, provisioned, n)
	}
	return s
}

// assign gives the claims of the group existing volumes that are within reach.
func (s *solution) assign(g *group, reach [][]*Volume) {
	if !slices.ContainsFunc(reach, func(volumes []*Volume) bool { return len(volumes) > 0 }) {
		return
	}
	if len(reach) == 1 {
		s.volumes[0] = reach[0][0]
		return
	}
	a := assign(reach, g.rank)
	for i, j := range a.of {
		if j != none {
			s.volumes[i] = a.volumes[j]
		}
	}
	s.assigned = &a
}

// withoutVolume tells a claim that would find a volume alone from one that
// would not.
func (s *solution) withoutVolume(i int) reason.Code {
	if s.assigned != nil && len(s.assigned.reach[i]) > 0 {
		return reason.VolumesShared
	}
	return reason.NoVolume
}

// add takes over what was found for the claims of the group.
func (p *Plan) add(g *group, s *solution, node string) {
	for i, c := range g.claims {
		switch {
		case s.refused[i] != "":
		case s.volumes[i] != nil:
			p.bindings = append(p.bindings, Binding{Claim: c.pvc, Volume: s.volumes[i].pv})
		default:
			one := Provision{Claim: c.pvc, Node: node}
			if s.sources != nil && s.sources[i] != nil {
				one.Capacity, one.Offered = s.sources[i].source.object, s.sources[i].offered
			}
			p.provisions = append(p.provisions, one)
		}
	}
}

// order sorts the plan by name of the claims.
func (p *Plan) order() {
	slices.SortFunc(p.bindings, func(a, b Binding) int { return cmp.Compare(a.Claim.Name, b.Claim.Name) })
	slices.SortFunc(p.provisions, func(a, b Provision) int { return cmp.Compare(a.Claim.Name, b.Claim.Name) })
}
