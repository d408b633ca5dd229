// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const (
	namespace = "default"
	// pods is how many it takes to use all local volumes, two each.
	pods = 8
	// patience bounds a failing test and says nothing of speed.
	patience = 3 * time.Minute
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
	eventually(ctx, t, "all volumes are free or gone", func(ctx context.Context) (bool, string) {
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

// checkVolumes reads the API objects, and nothing else, for what may never be.
func checkVolumes(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	volumes, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list PersistentVolumes: %v", err)
	}
	claims, err := client.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list PersistentVolumeClaims: %v", err)
	}
	volumeOf := map[types.UID]string{}
	for _, volume := range volumes.Items {
		ref := volume.Spec.ClaimRef
		if ref == nil || ref.UID == "" {
			continue
		}
		if other, taken := volumeOf[ref.UID]; taken {
			t.Errorf("claim %s has the volumes %s and %s", ref.Name, other, volume.Name)
		}
		volumeOf[ref.UID] = volume.Name
	}
	claimOf := map[string]string{}
	for _, claim := range claims.Items {
		name := claim.Spec.VolumeName
		if name == "" {
			continue
		}
		if other, taken := claimOf[name]; taken {
			t.Errorf("volume %s is that of the claims %s and %s", name, other, claim.Name)
		}
		claimOf[name] = claim.Name
		if volumeOf[claim.UID] != name {
			t.Errorf("claim %s is bound to volume %s, which does not name it", claim.Name, name)
		}
	}
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

// eventually waits until check says true, and fails with what it said last.
func eventually(ctx context.Context, t *testing.T, what string, check func(context.Context) (bool, string)) {
	t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		done, seen := check(ctx)
		if ctx.Err() == nil {
			last = seen
		}
		return done, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v; last seen: %s", what, err, last)
	}
}
