// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drivers_test asks the engine about objects that real drivers publish and
// their demos use.
package drivers_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// objects is one file, in its order. What replicas a controller would make and what
// claims a template would give are made here.
type objects struct {
	nodes     []*v1.Node
	slices    []*resourceapi.ResourceSlice
	classes   map[string]*resourceapi.DeviceClass
	rules     []*resourceapi.DeviceTaintRule
	templates map[types.NamespacedName]*resourceapi.ResourceClaimTemplate
	claims    map[types.NamespacedName]*resourceapi.ResourceClaim
	groups    map[types.NamespacedName]*schedulingapi.PodGroup
	// namespaces are those that have pods or claims, in the order of the file.
	namespaces []string
	pods       map[string][]*v1.Pod
	// loose are the claims of a namespace, in the order of the file.
	loose map[string][]*resourceapi.ResourceClaim
}

func load(t *testing.T, path string) *objects {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o := &objects{
		classes:   map[string]*resourceapi.DeviceClass{},
		templates: map[types.NamespacedName]*resourceapi.ResourceClaimTemplate{},
		claims:    map[types.NamespacedName]*resourceapi.ResourceClaim{},
		groups:    map[types.NamespacedName]*schedulingapi.PodGroup{},
		pods:      map[string][]*v1.Pod{},
		loose:     map[string][]*resourceapi.ResourceClaim{},
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for i := 1; ; i++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = o.add(document)
		}
		if err != nil {
			t.Fatalf("%s, document %d: %v", path, i, err)
		}
	}
	o.taint()
	return o
}

func (o *objects) add(document []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "Node":
		return read(document, func(n *v1.Node) { o.nodes = append(o.nodes, n) })
	case "ResourceSlice":
		return read(document, func(s *resourceapi.ResourceSlice) { o.slices = append(o.slices, s) })
	case "DeviceClass":
		return read(document, func(c *resourceapi.DeviceClass) { o.classes[c.Name] = c })
	case "DeviceTaintRule":
		return read(document, func(r *resourceapi.DeviceTaintRule) { o.rules = append(o.rules, r) })
	case "ResourceClaimTemplate":
		return read(document, func(c *resourceapi.ResourceClaimTemplate) { o.templates[key(c)] = c })
	case "PodGroup":
		return read(document, func(g *schedulingapi.PodGroup) { o.groups[key(g)] = g })
	case "ResourceClaim":
		return read(document, func(c *resourceapi.ResourceClaim) {
			o.namespace(c.Namespace)
			o.claims[key(c)] = c
			o.loose[c.Namespace] = append(o.loose[c.Namespace], c)
		})
	case "Pod":
		return read(document, func(p *v1.Pod) { o.pod(p) })
	case "Deployment":
		return read(document, func(d *appsv1.Deployment) { o.replicas(&d.ObjectMeta, ptr.Deref(d.Spec.Replicas, 1), &d.Spec.Template) })
	case "StatefulSet":
		return read(document, func(s *appsv1.StatefulSet) {
			o.replicas(&s.ObjectMeta, ptr.Deref(s.Spec.Replicas, 1), &s.Spec.Template)
		})
	case "Job":
		return read(document, func(j *batchv1.Job) { o.replicas(&j.ObjectMeta, ptr.Deref(j.Spec.Parallelism, 1), &j.Spec.Template) })
	}
	return nil
}

func read[T any](document []byte, use func(*T)) error {
	object := new(T)
	if err := yaml.UnmarshalStrict(document, object); err != nil {
		return fmt.Errorf("read a %T: %w", object, err)
	}
	use(object)
	return nil
}

func key(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func (o *objects) namespace(name string) {
	for _, known := range o.namespaces {
		if known == name {
			return
		}
	}
	o.namespaces = append(o.namespaces, name)
}

func (o *objects) pod(p *v1.Pod) {
	o.namespace(p.Namespace)
	o.pods[p.Namespace] = append(o.pods[p.Namespace], p)
}

func (o *objects) replicas(owner *metav1.ObjectMeta, count int32, template *v1.PodTemplateSpec) {
	for i := range count {
		p := &v1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		p.Namespace, p.Name = owner.Namespace, fmt.Sprintf("%s-%d", owner.Name, i)
		o.pod(p)
	}
}

// taint does what the tracker of ResourceSlices does in a scheduler: the taints of
// rules become taints of the devices that they select (DeviceTaintRuleSpec).
func (o *objects) taint() {
	for _, rule := range o.rules {
		selector := rule.Spec.DeviceSelector
		if selector == nil {
			continue
		}
		for _, s := range o.slices {
			if selector.Driver != nil && *selector.Driver != s.Spec.Driver || selector.Pool != nil && *selector.Pool != s.Spec.Pool.Name {
				continue
			}
			for i := range s.Spec.Devices {
				if d := &s.Spec.Devices[i]; selector.Device == nil || *selector.Device == d.Name {
					d.Taints = append(d.Taints, rule.Spec.Taint)
				}
			}
		}
	}
}
