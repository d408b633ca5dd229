// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// node is the node that is asked.
type node struct {
	name   string
	labels labels.Set
	facts  Facts
}

func (p *Problem) on(n *v1.Node) *node { return &node{name: n.Name, labels: n.Labels, facts: p.facts} }

// migrated says whether a CSI driver serves the volumes of the in-tree plugin.
func (n *node) migrated(plugin string) bool { return migrates(n.facts.CSINode(n.name), plugin) }
