// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

func TestQueueingHints(t *testing.T) {
	waiting := pod("p", "data")
	c := newCluster(t, nil, claim("data", csi))
	hints := map[fwk.EventResource]fwk.QueueingHintFn{}
	events, err := c.plugin.EventsToRegister(c.ctx)
	c.must(err)
	for _, event := range events {
		hints[event.Event.Resource] = event.QueueingHintFn
	}

	driver := func(name string, tracks *bool) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{StorageCapacity: tracks}}
	}
	capacity := func(class, size string, change ...func(*storagev1.CSIStorageCapacity)) *storagev1.CSIStorageCapacity {
		c := &storagev1.CSIStorageCapacity{StorageClassName: class, Capacity: ptr.To(resource.MustParse(size))}
		for _, f := range change {
			f(c)
		}
		return c
	}
	atMost := func(size string) func(*storagev1.CSIStorageCapacity) {
		return func(c *storagev1.CSIStorageCapacity) { c.MaximumVolumeSize = ptr.To(resource.MustParse(size)) }
	}
	labelled := volumeOn("pv", csi, "n1")
	labelled.Labels = map[string]string{"x": "1"}
	annotated := volumeOn("pv", csi, "n1")
	annotated.Annotations = map[string]string{"x": "1"}
	named := func(claim string) *v1.PersistentVolume {
		pv := volumeOn("pv", csi, "n1")
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: claim}
		return pv
	}
	otherNamespace := claim("data", csi)
	otherNamespace.Namespace = "elsewhere"
	zoned := class(csi, "csi.example.com")
	zoned.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"a"}}}}}
	otherClass := class("other", "csi.example.com")
	migrated := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{v1.MigratedPluginsAnnotationKey: "x"}}}

	for name, test := range map[string]struct {
		resource fwk.EventResource
		old, new any
		want     fwk.QueueingHint
	}{
		"own claim added":              {resource: fwk.PersistentVolumeClaim, new: claim("data", csi), want: fwk.Queue},
		"own claim changed":            {resource: fwk.PersistentVolumeClaim, old: claim("data", csi), new: claim("data", csi), want: fwk.Queue},
		"other claim":                  {resource: fwk.PersistentVolumeClaim, new: claim("other", csi), want: fwk.QueueSkip},
		"same name, other namespace":   {resource: fwk.PersistentVolumeClaim, new: otherNamespace, want: fwk.QueueSkip},
		"volume added":                 {resource: fwk.PersistentVolume, new: volumeOn("pv", csi, "n1"), want: fwk.Queue},
		"volume labelled":              {resource: fwk.PersistentVolume, old: volumeOn("pv", csi, "n1"), new: labelled, want: fwk.Queue},
		"volume annotated":             {resource: fwk.PersistentVolume, old: volumeOn("pv", csi, "n1"), new: annotated, want: fwk.QueueSkip},
		"volume freed":                 {resource: fwk.PersistentVolume, old: named("other"), new: volumeOn("pv", csi, "n1"), want: fwk.Queue},
		"volume for own claim":         {resource: fwk.PersistentVolume, new: named("data"), want: fwk.Queue},
		"volume for own claim gone":    {resource: fwk.PersistentVolume, old: named("data"), want: fwk.Queue},
		"volume for other claim gone":  {resource: fwk.PersistentVolume, old: named("other"), want: fwk.QueueSkip},
		"free volume gone":             {resource: fwk.PersistentVolume, old: volumeOn("pv", csi, "n1"), want: fwk.QueueSkip},
		"volume taken from own claim":  {resource: fwk.PersistentVolume, old: named("data"), new: named("other"), want: fwk.Queue},
		"volume for other claim":       {resource: fwk.PersistentVolume, new: named("other"), want: fwk.QueueSkip},
		"class added":                  {resource: fwk.StorageClass, new: class(csi, "csi.example.com"), want: fwk.Queue},
		"class for others":             {resource: fwk.StorageClass, new: otherClass, want: fwk.QueueSkip},
		"topologies changed":           {resource: fwk.StorageClass, old: zoned, new: class(csi, "csi.example.com"), want: fwk.Queue},
		"class touched":                {resource: fwk.StorageClass, old: zoned, new: zoned, want: fwk.QueueSkip},
		"CSINode added":                {resource: fwk.CSINode, new: migrated, want: fwk.Queue},
		"CSINode migrated":             {resource: fwk.CSINode, old: &storagev1.CSINode{}, new: migrated, want: fwk.Queue},
		"CSINode touched":              {resource: fwk.CSINode, old: migrated, new: migrated, want: fwk.QueueSkip},
		"capacity no longer checked":   {resource: fwk.CSIDriver, old: driver("csi.example.com", ptr.To(true)), new: driver("csi.example.com", nil), want: fwk.Queue},
		"driver deleted":               {resource: fwk.CSIDriver, old: driver("csi.example.com", ptr.To(true)), want: fwk.Queue},
		"capacity checked from now on": {resource: fwk.CSIDriver, old: driver("csi.example.com", nil), new: driver("csi.example.com", ptr.To(true)), want: fwk.QueueSkip},
		"driver for others":            {resource: fwk.CSIDriver, old: driver("other", ptr.To(true)), want: fwk.QueueSkip},
		"capacity added":               {resource: fwk.CSIStorageCapacity, new: capacity(csi, "1Gi"), want: fwk.Queue},
		"capacity grew":                {resource: fwk.CSIStorageCapacity, old: capacity(csi, "1Gi"), new: capacity(csi, "2Gi"), want: fwk.Queue},
		"capacity shrank":              {resource: fwk.CSIStorageCapacity, old: capacity(csi, "2Gi"), new: capacity(csi, "1Gi"), want: fwk.QueueSkip},
		"largest volume grew":          {resource: fwk.CSIStorageCapacity, old: capacity(csi, "2Gi", atMost("1Gi")), new: capacity(csi, "2Gi", atMost("2Gi")), want: fwk.Queue},
		"largest volume unbounded":     {resource: fwk.CSIStorageCapacity, old: capacity(csi, "2Gi", atMost("1Gi")), new: capacity(csi, "2Gi"), want: fwk.Queue},
		"capacity for others":          {resource: fwk.CSIStorageCapacity, new: capacity("other", "1Gi"), want: fwk.QueueSkip},
		"pod with claims gone":         {resource: fwk.AssignedPod, old: pod("q", "x"), want: fwk.Queue},
		"pod without claims gone":      {resource: fwk.AssignedPod, old: pod("q"), want: fwk.QueueSkip},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := hints[test.resource](klog.Background(), waiting, test.old, test.new)
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}

	t.Run("a claim that is not known yet may be of any class", func(t *testing.T) {
		if got, err := hints[fwk.StorageClass](klog.Background(), pod("q", "unknown"), nil, otherClass); err != nil || got != fwk.Queue {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("an object whose last state is unknown", func(t *testing.T) {
		if got, err := hints[fwk.CSIDriver](klog.Background(), waiting, cache.DeletedFinalStateUnknown{}, nil); err == nil || got != fwk.Queue {
			t.Errorf("got %v, %v; an error has the pod queued", got, err)
		}
	})
}
