// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Narrow returns the names of the only nodes that could do, in order, and true;
// or false if any node may do. It follows from claims that are tied to few nodes:
// bound to a local volume, or being provisioned for one node. If they are tied to
// different nodes, so that none is left, it returns false: asked one by one, the
// nodes say why not.
//
// Volumes are tied to the label kubernetes.io/hostname, which need not be the name
// of the node; the names are those of the nodes that have the label now.
func (p *Problem) Narrow() (nodes []string, narrowed bool) {
	ties := p.ties()
	if len(ties) == 0 {
		return nil, false
	}
	nodes = slices.Clone(ties[0])
	for _, others := range ties[1:] {
		nodes = slices.DeleteFunc(nodes, func(name string) bool { return !slices.Contains(others, name) })
	}
	return nodes, len(nodes) > 0
}

// ties returns the nodes of each claim that is tied to few.
func (p *Problem) ties() [][]string {
	var all [][]string
	tie := func(volumes ...*Volume) {
		if hostnames, ok := hostnamesOf(volumes); ok {
			all = append(all, p.nodesWith(hostnames))
		}
	}
	for i := range p.bound {
		tie(p.bound[i].volume)
	}
	for _, g := range p.groups {
		for _, c := range g.claims {
			switch {
			case len(c.kept) > 0:
				tie(c.kept...)
			case c.pinned != "":
				all = append(all, []string{c.pinned})
			}
		}
	}
	return all
}

// hostnamesOf returns the hostname labels of the only nodes that reach any of the
// volumes, and false if other nodes may.
func hostnamesOf(volumes []*Volume) ([]string, bool) {
	var hostnames []string
	for _, v := range volumes {
		if v.migration != nil {
			return nil, false
		}
		for _, at := range v.reach.nodes.places() {
			if at.Key != v1.LabelHostname {
				return nil, false
			}
			hostnames = append(hostnames, at.Value)
		}
	}
	return sorted(hostnames), true
}

// nodesWith returns the names of the nodes with one of the hostname labels.
func (p *Problem) nodesWith(hostnames []string) []string {
	var names []string
	for _, hostname := range hostnames {
		names = append(names, p.facts.NodesWith(hostname)...)
	}
	return sorted(names)
}
