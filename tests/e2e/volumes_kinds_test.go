// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// An in-tree volume names its zone by the label that the plugin knew, and the node
// has the label of the CSI driver that has taken over, as its CSINode says. That
// comes after the node.
func inTreeVolumeOfAMigratedPlugin(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	const name = "migrated"
	volume := newVolume("ebs", "local", "1Gi", "")
	volume.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://zone-x/vol-1"}}
	volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions = []v1.NodeSelectorRequirement{
		{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{"zone-x"}},
	}
	node := newNode(ctx, t, client, name)
	node.Labels["topology.ebs.csi.aws.com/zone"] = "zone-x"
	create(ctx, t, client, node, volume, newVolumeClaim("data", "local", "1Gi"), newPod("pod", mounting("data")))
	eventually(ctx, t, "the pod runs", podRuns(client, "pod"))
	create(ctx, t, client, newPod("next", mounting("data")))
	eventually(ctx, t, "the bound volume is reached too", podRuns(client, "next"))
	for _, pod := range []string{"pod", "next"} {
		if got := getPod(ctx, t, client, pod).Spec.NodeName; got != name {
			t.Errorf("pod %s runs on %s, want %s", pod, got, name)
		}
	}
	deleteNode(ctx, t, client, name)
}

// A claim is given a volume of its VolumeAttributesClass, or one is made.
func volumeAttributesClasses(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	const driver = "node.csi.berth.dev"
	onDriver := func(name, class string) *v1.PersistentVolume {
		volume := newVolume(name, "local", "1Gi", "node-1")
		volume.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}}
		if class != "" {
			volume.Spec.VolumeAttributesClassName = &class
		}
		return volume
	}
	wanting := func(name, storage, class string) *v1.PersistentVolumeClaim {
		claim := newVolumeClaim(name, storage, "1Gi")
		claim.Spec.VolumeAttributesClassName = &class
		return claim
	}
	create(ctx, t, client, newAttributesClass("gold", driver), newAttributesClass("silver", driver),
		onDriver("a-plain", ""), onDriver("b-gold", "gold"),
		wanting("static", "local", "gold"), wanting("missing", "local", "silver"), wanting("made", "node", "silver"),
		newPod("pod", mounting("static"), mounting("made")), newPod("waits", mounting("missing")))
	eventually(ctx, t, "the pod runs", podRuns(client, "pod"))
	if got := getVolumeClaim(ctx, t, client, "static").Spec.VolumeName; got != "b-gold" {
		t.Errorf("the claim is bound to %s, want b-gold", got)
	}
	eventually(ctx, t, "the other finds no volume of its class", podWaits(client, "waits", "no PersistentVolume fits the claim"))
	create(ctx, t, client, onDriver("c-silver", "silver"))
	eventually(ctx, t, "the volume wakes the pod", podRuns(client, "waits"))
}
