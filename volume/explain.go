// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-scheduler/berth/reason"
)

// Explain returns the rejection of Solve with every fact: for each claim that
// stands in the way its class, the size wanted, the most that could be had, the
// object that came nearest and the label that failed. It is nil when the pod
// fits. It is slower than Solve.
func (p *Problem) Explain(node *v1.Node) *reason.Rejection {
	var refused []*reason.Rejection
	n := p.on(node)
	for i := range p.bound {
		b := &p.bound[i]
		if b.volume.reachedFrom(n) {
			continue
		}
		r := b.reject(reason.VolumeElsewhere)
		explainElsewhere(r, b.volume, n)
		refused = append(refused, r)
	}
	for _, g := range p.groups {
		s := g.solve(n)
		for i, code := range s.refused {
			if code != "" {
				r := g.claims[i].reject(code)
				g.explain(r, &s, i, n)
				refused = append(refused, r)
			}
		}
	}
	for _, r := range refused {
		r.Node = node.Name
	}
	return combine(refused)
}

// explain adds the facts to the rejection of claim i.
func (g *group) explain(r *reason.Rejection, s *solution, i int, n *node) {
	c := g.claims[i]
	switch r.Code {
	case reason.VolumeElsewhere:
		explainElsewhere(r, c.kept[0], n)
	case reason.SelectedNodeElsewhere:
		r.Facts.Object = reason.Ref{Kind: "Node", Name: c.pinned}
	case reason.NoVolume:
		g.explainNoVolume(r, c, n)
	case reason.VolumesShared:
		r.Facts.Detail = g.describeRivals(s, i)
	case reason.TopologyNotAllowed:
		r.Facts.Object = reason.Ref{Kind: "StorageClass", Name: g.class.Name}
		if g.invalid != nil {
			r.Facts.Field, r.Facts.Detail = g.invalid.path, g.invalid.detail
			return
		}
		g.allowed.missing(n.labels).explain(r)
	case reason.NotEnoughStorage:
		g.explainCapacity(r, s)
	}
}

// explainElsewhere adds why the node does not reach the claim's volume.
func explainElsewhere(r *reason.Rejection, v *Volume, n *node) {
	r.Facts.Object = volumeRef(v.pv.Name)
	reach := v.on(n)
	if reach.invalid != nil {
		r.Facts.Field, r.Facts.Detail = reach.invalid.path, reach.invalid.detail
		return
	}
	reach.nodes.missing(n.labels).explain(r)
}

func (m miss) explain(r *reason.Rejection) {
	r.Facts.Attribute, r.Facts.Values, r.Facts.Detail = m.key, m.values, m.detail
}

var obstacleText = map[obstacle]string{
	heldByOther:      "held by another claim",
	beingDeleted:     "being deleted",
	notAvailable:     "not in phase Available",
	withoutData:      "without the content of the claim's data source",
	otherVolumeMode:  "of another volume mode",
	otherAccessModes: "without an access mode that the claim asks for",
	otherAttributes:  "of another VolumeAttributesClass",
	otherLabels:      "not selected by the claim's selector",
	invalidAffinity:  "with a node affinity that cannot be followed",
	unreachable:      "out of reach of the node",
	tooSmall:         "too small",
}

// finding is what became of a volume that a claim could not have.
type finding struct {
	volume   *Volume
	obstacle obstacle
}

// explainNoVolume adds the facts of a claim for which no volume fits. It finds
// the volume that came nearest, the largest of several.
func (g *group) explainNoVolume(r *reason.Rejection, c *openClaim, n *node) {
	var findings []finding
	for _, v := range g.facts.Volumes(g.class.Name) {
		findings = append(findings, c.examine(v, n))
	}
	if len(findings) > 0 {
		nearest := slices.MaxFunc(findings, compareFindings)
		v := nearest.volume
		r.Facts.Object = volumeRef(v.pv.Name)
		switch nearest.obstacle {
		case tooSmall:
			had := v.size.DeepCopy()
			r.Facts.Had = &had
		case unreachable:
			explainElsewhere(r, v, n)
		case invalidAffinity:
			r.Facts.Field, r.Facts.Detail = v.reach.invalid.path, v.reach.invalid.detail
		}
	}
	r.Facts.Detail = join(r.Facts.Detail, summarize(findings), holders(findings, n), whyNotProvisioned(g.class))
}

// examine finds what keeps the volume from the claim.
func (o *openClaim) examine(v *Volume, n *node) finding {
	found := o.obstacle(v)
	if found >= tooSmall && !v.reachedFrom(n) {
		found = unreachable
	}
	return finding{volume: v, obstacle: found}
}

// compareFindings puts the volume that came nearest last, the largest of several
// and of equal ones the first by name.
func compareFindings(a, b finding) int {
	return cmp.Or(cmp.Compare(a.obstacle, b.obstacle), a.volume.size.Cmp(b.volume.size), cmp.Compare(b.volume.pv.Name, a.volume.pv.Name))
}

// summarize counts the volumes by what stopped them, the nearest first.
func summarize(findings []finding) string {
	if len(findings) == 0 {
		return "the class has no volumes"
	}
	slices.SortStableFunc(findings, func(a, b finding) int { return cmp.Compare(b.obstacle, a.obstacle) })
	var parts []string
	for len(findings) > 0 {
		n := slices.IndexFunc(findings, func(f finding) bool { return f.obstacle != findings[0].obstacle })
		if n < 0 {
			n = len(findings)
		}
		parts = append(parts, fmt.Sprintf("%d %s", n, obstacleText[findings[0].obstacle]))
		findings = findings[n:]
	}
	return "volumes of the class: " + strings.Join(parts, ", ")
}

// mostHolders is how many of the volumes that others hold are named.
const mostHolders = 3

// holders names the claims that hold volumes which the node reaches.
func holders(findings []finding, n *node) string {
	var parts []string
	more := 0
	for _, f := range findings {
		if f.obstacle != heldByOther || !f.volume.reachedFrom(n) {
			continue
		}
		if len(parts) == mostHolders {
			more++
			continue
		}
		ref := f.volume.pv.Spec.ClaimRef
		parts = append(parts, fmt.Sprintf("%s by claim %s/%s", f.volume.pv.Name, ref.Namespace, ref.Name))
	}
	if len(parts) == 0 {
		return ""
	}
	text := "held on the node: " + strings.Join(parts, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func whyNotProvisioned(class *storagev1.StorageClass) string {
	if provisions(class) {
		return "a claim with a selector is not provisioned"
	}
	return "the class does not provision"
}

// describeRivals names the claims that want more volumes than there are.
func (g *group) describeRivals(s *solution, i int) string {
	rivals, wanted := s.assigned.rivals(i)
	var claims, volumes []string
	for _, k := range rivals {
		claims = append(claims, g.claims[k].pvc.Name)
	}
	for _, j := range wanted {
		volumes = append(volumes, s.assigned.volumes[j].pv.Name)
	}
	return fmt.Sprintf("claims %s together find only %s", list(sorted(claims), "and"), list(sorted(volumes), "and"))
}

// sorted returns the strings in order, each once.
func sorted(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// list writes "a", "a and b", "a, b and c", with the given last word.
func list(all []string, last string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " " + last + " " + all[len(all)-1]
}

// join puts the parts that are not empty together.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}
