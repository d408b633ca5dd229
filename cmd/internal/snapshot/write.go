// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
)

// Write writes all objects as YAML, such that [Read] reads the same snapshot. It
// leaves out what no decision depends on and what may be nobody else's business:
// what the containers of pods run and their environment, managed fields, and the
// manifest that kubectl notes in an annotation.
func (s *Snapshot) Write(w io.Writer) error {
	printer := printers.NewTypeSetter(scheme).ToPrinter(&printers.OmitManagedFieldsPrinter{Delegate: &printers.YAMLPrinter{}})
	for _, object := range s.Objects() {
		object = object.DeepCopyObject()
		discreet(object)
		if err := printer.PrintObj(object, w); err != nil {
			return fmt.Errorf("write %s: %w", kindOf(object), err)
		}
	}
	return nil
}

// discreet takes from an object what Write leaves out.
func discreet(object runtime.Object) {
	if accessor, err := meta.Accessor(object); err == nil {
		delete(accessor.GetAnnotations(), v1.LastAppliedConfigAnnotation)
	}
	var spec *v1.PodSpec
	switch object := object.(type) {
	case *v1.Pod:
		spec = &object.Spec
	case *appsv1.ReplicaSet:
		spec = &object.Spec.Template.Spec
	case *appsv1.StatefulSet:
		spec = &object.Spec.Template.Spec
	case *v1.ReplicationController:
		if object.Spec.Template == nil {
			return
		}
		spec = &object.Spec.Template.Spec
	default:
		return
	}
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Command, c.Args, c.Env, c.EnvFrom = nil, nil, nil, nil
			c.Lifecycle, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil, nil
		}
	}
}
