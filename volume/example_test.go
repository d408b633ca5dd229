// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume_test

import (
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/reason"
	"github.com/berth-scheduler/berth/volume"
)

// A pod wants a local volume of 5Gi. Node a has one; that of node b is too small.
func Example() {
	nodeA, nodeB := node("a"), node("b")
	class := &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: "local"},
		Provisioner:       "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "data"},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("local"),
			Resources:        v1.VolumeResourceRequirements{Requests: storage("5Gi")},
		},
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "trainer"}, Spec: v1.PodSpec{
		Volumes: []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}},
	}}

	facts := volume.NewFacts(nodeA, nodeB, class, claim, local("disk-a", "8Gi", "a"), local("disk-b", "4Gi", "b"))
	problem, rejection := volume.Compile(pod, facts, volume.Options{})
	if rejection != nil {
		fmt.Println(rejection)
		return
	}

	plan, _ := problem.Solve(nodeA)
	fmt.Print("a: ", plan)
	fmt.Println("verified:", volume.Verify(problem, nodeA, plan) == nil)

	_, rejection = problem.Solve(nodeB)
	fmt.Println("b:", rejection)
	_ = reason.Write(os.Stdout, problem.Explain(nodeB))
	// Output:
	// a: claim ml/data: bind volume disk-a
	// verified: true
	// b: no PersistentVolume fits the claim
	// NoVolume: no PersistentVolume of class local that node b can reach fits PersistentVolumeClaim ml/data, which wants 5Gi (the largest free one has 4Gi)
	//   node b · claim ml/data · volume scratch · class local
	//   wanted 5Gi · had 4Gi
	//   object: PersistentVolume disk-b
	//   detail: volumes of the class: 1 too small, 1 out of reach of the node; the class does not provision
}

func node(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}
}

func storage(size string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
}

func local(name, size, host string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: "local",
			Capacity:         storage(size),
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{host}}},
			}}}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
}
