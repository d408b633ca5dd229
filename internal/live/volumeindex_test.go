// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/volume"
)

func onHost(pv *v1.PersistentVolume, host string) *v1.PersistentVolume {
	pv.Status.Phase = v1.VolumeAvailable
	pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{host}}},
	}}}}
	return pv
}

// TestIndexesShowAChangeAtOnce: nothing of ours stands between a store and a View,
// so what woke a pod is seen by its next cycle.
func TestIndexesShowAChangeAtOnce(t *testing.T) {
	v := offline(t)
	at := func(host string) string {
		var names []string
		for _, one := range v.View().VolumesAt("local", volume.Place{Key: v1.LabelHostname, Value: host}) {
			names = append(names, one.PV().Name)
		}
		return fmt.Sprint(names, v.View().NodesWith(host))
	}
	node := func(host string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{v1.LabelHostname: host}}}
	}
	for _, step := range []struct {
		what       string
		do         func()
		old, renew string
	}{
		{"nothing", func() {}, "[] []", "[] []"},
		{"volume added", func() { add(t, v.volumes, onHost(testVolume("pv", "local", 1), "old")) }, "[pv] []", "[] []"},
		{"node added", func() { add(t, v.nodes, node("old")) }, "[pv] [n1]", "[] []"},
		{"node renamed", func() { add(t, v.nodes, node("new")) }, "[pv] []", "[] [n1]"},
		{"volume replaced", func() { add(t, v.volumes, onHost(testVolume("pv", "local", 2), "new")) }, "[] []", "[pv] [n1]"},
		{"volume bound", func() {
			add(t, v.volumes, bound(onHost(testVolume("pv", "local", 3), "new"), testClaim("data", 1)))
		}, "[] []", "[] [n1]"},
	} {
		step.do()
		if old, renew := at("old"), at("new"); old != step.old || renew != step.renew {
			t.Errorf("%s: at the old place %s and at the new one %s, want %s and %s", step.what, old, renew, step.old, step.renew)
		}
	}
	if kept := v.View().VolumesFor("default", "data"); len(kept) != 1 {
		t.Errorf("%d volumes name the claim, want 1", len(kept))
	}
	if keys := fmt.Sprint(v.View().PlaceKeys()); keys != "[kubernetes.io/hostname]" {
		t.Errorf("keys of places: %s", keys)
	}
}
