// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// topology is a set of nodes described by their labels: the node affinity of a
// PersistentVolume, the allowed topologies of a StorageClass or the node
// topology of a CSIStorageCapacity, parsed once. A node belongs to it when it
// meets every requirement of at least one term. A term without requirements has
// no node, and a topology without terms neither; a nil topology has all nodes.
type topology struct {
	terms [][]labels.Requirement
}

// nowhere is the topology of no node.
var nowhere = &topology{}

// has says whether a node with these labels belongs to the topology.
func (t *topology) has(node labels.Set) bool {
	if t == nil {
		return true
	}
	for _, term := range t.terms {
		if len(term) > 0 && firstUnmet(term, node) == len(term) {
			return true
		}
	}
	return false
}

// firstUnmet returns the index of the first requirement that the labels do not
// meet, or the number of requirements.
func firstUnmet(term []labels.Requirement, node labels.Set) int {
	for i := range term {
		if !term[i].Matches(node) {
			return i
		}
	}
	return len(term)
}

// miss is the label that keeps a node out of a topology.
type miss struct {
	key string
	// values are those that would do, empty if the key is to be there or absent
	// or if it is compared with a number.
	values []string
	// detail names the requirement and what the node has instead.
	detail string
}

// missing says why a node is not in the topology. Of several terms it looks at
// the one that comes nearest, and adds the values of terms that ask for others
// of the same key. It returns the zero miss if there is no requirement to name.
func (t *topology) missing(node labels.Set) miss {
	var nearest *labels.Requirement
	met := -1
	for _, term := range t.terms {
		if i := firstUnmet(term, node); i < len(term) && i > met {
			nearest, met = &term[i], i
		}
	}
	if nearest == nil {
		return miss{}
	}
	m := miss{key: nearest.Key()}
	want := nearest.String()
	if lists(nearest) {
		m.values = t.alternatives(nearest.Key(), node)
		want = fmt.Sprintf("%s in %s", nearest.Key(), list(m.values, "or"))
	}
	has := "the node has no such label"
	if value, ok := node[m.key]; ok {
		has = fmt.Sprintf("the node has %q", value)
	}
	m.detail = fmt.Sprintf("needs %s, %s", want, has)
	return m
}

// alternatives returns the values that the terms stopped by the key ask for.
func (t *topology) alternatives(key string, node labels.Set) []string {
	var values []string
	for _, term := range t.terms {
		i := firstUnmet(term, node)
		if i < len(term) && term[i].Key() == key && lists(&term[i]) {
			values = append(values, term[i].ValuesUnsorted()...)
		}
	}
	return sorted(values)
}

// invalidField is a field of an object that cannot be followed.
type invalidField struct {
	path   string
	detail string
}

var nodeOperators = map[v1.NodeSelectorOperator]selection.Operator{
	v1.NodeSelectorOpIn:           selection.In,
	v1.NodeSelectorOpNotIn:        selection.NotIn,
	v1.NodeSelectorOpExists:       selection.Exists,
	v1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	v1.NodeSelectorOpGt:           selection.GreaterThan,
	v1.NodeSelectorOpLt:           selection.LessThan,
}

// affinityTopology parses the required node affinity of a PersistentVolume.
func affinityTopology(affinity *v1.VolumeNodeAffinity) (*topology, *invalidField) {
	if affinity == nil || affinity.Required == nil {
		return nil, nil
	}
	path := field.NewPath("spec", "nodeAffinity", "required", "nodeSelectorTerms")
	t := &topology{}
	for i, term := range affinity.Required.NodeSelectorTerms {
		at := path.Index(i)
		if len(term.MatchFields) > 0 {
			return nowhere, &invalidField{
				path:   at.Child("matchFields").String(),
				detail: "kubelets honour the labels of a node only, not its fields",
			}
		}
		var requirements []labels.Requirement
		for j, expression := range term.MatchExpressions {
			at := at.Child("matchExpressions").Index(j)
			operator, ok := nodeOperators[expression.Operator]
			if !ok {
				return nowhere, &invalidField{
					path:   at.Child("operator").String(),
					detail: fmt.Sprintf("operator %q is not known", expression.Operator),
				}
			}
			requirement, err := labels.NewRequirement(expression.Key, operator, expression.Values)
			if err != nil {
				return nowhere, &invalidField{path: at.String(), detail: err.Error()}
			}
			requirements = append(requirements, *requirement)
		}
		t.terms = append(t.terms, requirements)
	}
	return t, nil
}

// allowedTopology parses the allowed topologies of a StorageClass. None means
// that all nodes are allowed.
func allowedTopology(allowed []v1.TopologySelectorTerm) (*topology, *invalidField) {
	if len(allowed) == 0 {
		return nil, nil
	}
	path := field.NewPath("allowedTopologies")
	t := &topology{}
	for i, term := range allowed {
		var requirements []labels.Requirement
		for j, expression := range term.MatchLabelExpressions {
			requirement, err := labels.NewRequirement(expression.Key, selection.In, expression.Values)
			if err != nil {
				at := path.Index(i).Child("matchLabelExpressions").Index(j)
				return nowhere, &invalidField{path: at.String(), detail: err.Error()}
			}
			requirements = append(requirements, *requirement)
		}
		t.terms = append(t.terms, requirements)
	}
	return t, nil
}
