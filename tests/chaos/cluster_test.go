// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/tests/lab"
)

const (
	namespace = "default"
	// pods is how many it takes to use all local volumes, two each.
	pods = 8
)

// createPods creates the pods and their claims.
func createPods(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	for i := range pods {
		pod := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i)},
			Spec: v1.PodSpec{
				TerminationGracePeriodSeconds: ptr.To[int64](0),
				Containers:                    []v1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}},
			},
		}
		for j, class := range []string{"local", "local", "node"} {
			name := fmt.Sprintf("%s-%d", pod.Name, j)
			claim := &v1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: v1.PersistentVolumeClaimSpec{
					StorageClassName: &class,
					AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
					Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}
			if _, err := client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
				t.Fatalf("create PersistentVolumeClaim %s: %v", name, err)
			}
			pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
		if _, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatalf("create pod %s: %v", pod.Name, err)
		}
	}
}

// releaseAll deletes pods, claims and provisioned volumes, and frees the local
// volumes, as an administrator would after wiping them.
func releaseAll(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	core := client.CoreV1()
	if err := core.Pods(namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		t.Fatalf("delete all pods: %v", err)
	}
	if err := core.PersistentVolumeClaims(namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		t.Fatalf("delete all claims: %v", err)
	}
	lab.Eventually(ctx, t, "all volumes are free or gone", func(ctx context.Context) (bool, string) {
		claims, err := core.PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(claims.Items) > 0 {
			return false, fmt.Sprintf("claims are left (%v)", err)
		}
		volumes, err := core.PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		free := true
		for _, volume := range volumes.Items {
			free = free && volume.Status.Phase == v1.VolumeAvailable
			if volume.Status.Phase == v1.VolumeReleased && volume.Spec.StorageClassName == "local" {
				_, err := core.PersistentVolumes().Patch(ctx, volume.Name, types.MergePatchType, []byte(`{"spec":{"claimRef":null}}`), metav1.PatchOptions{})
				if err != nil {
					return false, err.Error()
				}
			}
		}
		return free, fmt.Sprintf("%d volumes", len(volumes.Items))
	})
}

// podsRun says whether all pods run.
func podsRun(client kubernetes.Interface) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		run := 0
		last := ""
		for _, pod := range list.Items {
			if pod.Status.Phase == v1.PodRunning {
				run++
				continue
			}
			for _, condition := range pod.Status.Conditions {
				last = pod.Name + ": " + condition.Message
			}
		}
		return run == pods, fmt.Sprintf("%d run; %s", run, last)
	}
}

// podsWithNode says whether at least n pods have a node.
func podsWithNode(client kubernetes.Interface, n int) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		placed := 0
		for _, pod := range list.Items {
			if pod.Spec.NodeName != "" {
				placed++
			}
		}
		return placed >= n, fmt.Sprintf("%d have a node", placed)
	}
}
