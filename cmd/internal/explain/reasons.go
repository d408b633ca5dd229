// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/cmd/internal/simulate"
	"github.com/berth-scheduler/berth/plugin/deviceclaims"
	"github.com/berth-scheduler/berth/plugin/volumeclaims"
	"github.com/berth-scheduler/berth/reason"
)

// about says which part of the scheduler refused.
func about(r *simulate.Refusal) string {
	switch r.Plugin {
	case deviceclaims.Name:
		return "devices"
	case volumeclaims.Name:
		return "volumes"
	}
	return "other"
}

// group collects the nodes with the same answer.
type group struct {
	about string
	parts []part
	nodes []string
}

// part is one rejection of a group's answer, and how much the nodes had.
type part struct {
	text      string
	rejection *reason.Rejection
	had       []resource.Quantity
}

// reasons groups the nodes by their answer: those that fit first, then the most
// frequent, then by text.
func reasons(nodes []simulate.Node) []Reason {
	groups := map[string]*group{}
	for _, node := range nodes {
		about, parts := answer(node)
		key := about
		for _, p := range parts {
			key += "\x00" + p.text
		}
		g, ok := groups[key]
		if !ok {
			g = &group{about: about, parts: parts}
			groups[key] = g
		} else {
			for i := range parts {
				g.parts[i].had = append(g.parts[i].had, parts[i].had...)
			}
		}
		g.nodes = append(g.nodes, node.Name)
	}

	var all []Reason
	for _, g := range groups {
		all = append(all, Reason{About: g.about, Text: g.text(), Nodes: g.nodes})
	}
	slices.SortFunc(all, func(a, b Reason) int {
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)),
			cmp.Compare(len(b.Nodes), len(a.Nodes)),
			cmp.Compare(a.About, b.About),
			cmp.Compare(a.Text, b.Text),
		)
	})
	return all
}

func rank(r Reason) int {
	if r.About == "fits" {
		return 0
	}
	return 1
}

func answer(node simulate.Node) (string, []part) {
	refusal := node.Refusal
	switch {
	case refusal == nil:
		return "fits", nil
	case refusal.Rejection == nil:
		return about(refusal), []part{{text: refusal.Message}}
	}
	var parts []part
	for _, r := range refusal.Rejection.All() {
		p := part{text: describe(r), rejection: r}
		if r.Facts.Had != nil {
			p.had = []resource.Quantity{*r.Facts.Had}
		}
		parts = append(parts, p)
	}
	return about(refusal), parts
}

func (g *group) text() string {
	var texts []string
	for _, p := range g.parts {
		text := p.text
		if p.rejection != nil {
			text += had(p.rejection, p.had)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}
