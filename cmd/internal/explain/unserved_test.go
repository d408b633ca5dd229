// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Where DeviceClasses may not be listed, nobody knows that there is none.
func TestUnservedIsNotSaidOfClassesThatAreNotSeen(t *testing.T) {
	s, pod := cluster()
	pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		"example.com/gpus": resource.MustParse("1"),
	}}}}
	if notes := unserved(s, pod); len(notes) != 1 {
		t.Errorf("all classes are seen: %q, want one note", notes)
	}
	s.NotAllowed = []string{"deviceclasses.resource.k8s.io"}
	if notes := unserved(s, pod); len(notes) != 0 {
		t.Errorf("no class is seen: %q, want no note", notes)
	}
}
