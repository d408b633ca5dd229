// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"
)

// scope is the set of nodes that reach a slice or a device: one node by name,
// those that a selector selects, or all. A scope of which nothing is set, which
// is how a kind of node selection unknown to us looks, includes no node.
type scope struct {
	node     string
	all      bool
	selector *nodeaffinity.NodeSelector
	// unparsable: nobody can tell which nodes are meant. fault: what is wrong
	// is only the concern of the nodes that are included.
	unparsable, fault string
}

func compileScope(node string, all *bool, selector *v1.NodeSelector) scope {
	s := scope{node: node, all: ptr.Deref(all, false)}
	if node != "" || s.all || selector == nil {
		return s
	}
	parsed, err := nodeaffinity.NewNodeSelector(selector)
	if err != nil {
		s.unparsable = err.Error()
		return s
	}
	s.selector = parsed
	// ResourceSliceSpec.NodeSelector: "Must use exactly one term". Two could not
	// be joined with those of other devices in the node selector of a result.
	if terms := len(selector.NodeSelectorTerms); terms != 1 {
		s.fault = fmt.Sprintf("has %d terms, must have exactly one", terms)
	}
	return s
}

func (s *scope) includes(node *v1.Node) bool {
	switch {
	case s.node != "":
		return s.node == node.Name
	case s.all:
		return true
	case s.selector != nil:
		return s.selector.Match(node)
	}
	return false
}

// scopesOf are the scopes of a slice and its devices that this package looks at.
func scopesOf(s *resourceapi.ResourceSlice) []scope {
	if !ptr.Deref(s.Spec.PerDeviceNodeSelection, false) {
		return []scope{compileScope(ptr.Deref(s.Spec.NodeName, ""), s.Spec.AllNodes, s.Spec.NodeSelector)}
	}
	var scopes []scope
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		scopes = append(scopes, compileScope(ptr.Deref(d.NodeName, ""), d.AllNodes, d.NodeSelector))
	}
	return scopes
}
