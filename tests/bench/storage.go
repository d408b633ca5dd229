// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	// localClass has local volumes and no provisioner.
	localClass = "local"
	// provisionedClass is of a driver that reports its capacity.
	provisionedClass  = "provisioned"
	storageDriverName = "csi.example.com"
)

func storageClasses() []*storagev1.StorageClass {
	class := func(name, provisioner string) *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta:        metav1.ObjectMeta{Name: name},
			Provisioner:       provisioner,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		}
	}
	return []*storagev1.StorageClass{class(localClass, "kubernetes.io/no-provisioner"), class(provisionedClass, storageDriverName)}
}

func storageDriver() *storagev1.CSIDriver {
	return &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: storageDriverName},
		Spec:       storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)},
	}
}

// storageNode has the labels that a node of a cloud has.
func storageNode(i int) *v1.Node {
	n := node(nodeName(i))
	n.Labels[v1.LabelTopologyZone] = fmt.Sprintf("zone-%d", i%3)
	n.Labels[v1.LabelTopologyRegion] = "region-1"
	n.Labels[v1.LabelOSStable] = "linux"
	n.Labels[v1.LabelArchStable] = "amd64"
	n.Labels[v1.LabelInstanceTypeStable] = "large"
	return n
}

func localVolume(node, i int) *v1.PersistentVolume {
	name := fmt.Sprintf("pv-%05d-%d", node, i)
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec: v1.PersistentVolumeSpec{
			Capacity:               v1.ResourceList{v1.ResourceStorage: resource.MustParse("100Gi")},
			AccessModes:            []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			StorageClassName:       localClass,
			VolumeMode:             ptr.To(v1.PersistentVolumeFilesystem),
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/mnt/" + name}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{
					Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{nodeName(node)},
				}},
			}}}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
}

func storageClaim(i int, class, size string) *v1.PersistentVolumeClaim {
	name := fmt.Sprintf("claim-%d", i)
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			StorageClassName: &class,
			VolumeMode:       ptr.To(v1.PersistentVolumeFilesystem),
			Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
}

// storagePod uses so many claims.
func storagePod(claims int) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "pod"}}
	for i := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprintf("volume-%d", i), VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("claim-%d", i)},
		}})
	}
	return p
}

func storageCapacity(node int, size string) *storagev1.CSIStorageCapacity {
	name := fmt.Sprintf("capacity-%05d", node)
	return &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "1"},
		StorageClassName: provisionedClass,
		Capacity:         ptr.To(resource.MustParse(size)),
		NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelHostname: nodeName(node)}},
	}
}
