// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// ReachedFrom says whether pods on the node reach the volume. csiNode is the
// CSINode of the node, nil if it has none; it tells which in-tree volumes CSI
// drivers serve there.
func (v *Volume) ReachedFrom(node *v1.Node, csiNode *storagev1.CSINode) bool {
	by := &v.reach
	if v.migration != nil && migrates(csiNode, v.migration.plugin) {
		by = &v.migration.reach
	}
	return by.nodes.has(labels.Set(node.Labels))
}
