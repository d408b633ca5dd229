// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const selectedNode = "volume.kubernetes.io/selected-node"

// newVolume is a static volume that nodes with this host name label reach.
func newVolume(name, class, size, hostname string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName:              class,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)},
			AccessModes:                   []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/mnt/" + name}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{hostname}}},
			}}}},
		},
	}
}

// newNode is a node like node-1 with a host name label only.
func newNode(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) *v1.Node {
	t.Helper()
	template, err := client.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get node node-1: %v", err)
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status:     v1.NodeStatus{Allocatable: template.Status.Allocatable, Capacity: template.Status.Capacity},
	}
}

func labelNode(ctx context.Context, t *testing.T, client kubernetes.Interface, name, key, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	if _, err := client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatalf("label node %s: %v", name, err)
	}
}

func deleteNode(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	if err := client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete node %s: %v", name, err)
	}
}

func newAttributesClass(name, driver string) *storagev1.VolumeAttributesClass {
	return &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: driver, Parameters: map[string]string{"tier": name}}
}

// withEphemeral mounts a volume that is made for the pod and goes with it.
func withEphemeral(name, class, size string) podOption {
	return func(pod *v1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
			VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: newVolumeClaim("", class, size).Spec},
		}}})
		main := &pod.Spec.Containers[0]
		main.VolumeMounts = append(main.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
}

// onNode lets the pod run on the node only.
func onNode(name string) podOption {
	return func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: name} }
}

// preferringNode has the pod run on the node if it can.
func preferringNode(name string) podOption {
	return func(pod *v1.Pod) {
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{
			Weight: 100,
			Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{
				Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{name},
			}}},
		}}}}
	}
}

func byScheduler(profile string) podOption {
	return func(pod *v1.Pod) { pod.Spec.SchedulerName = profile }
}

func getVolumeClaim(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) *v1.PersistentVolumeClaim {
	t.Helper()
	claim, err := client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get PersistentVolumeClaim %s: %v", name, err)
	}
	return claim
}

func deleteVolumeClaim(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	if err := client.CoreV1().PersistentVolumeClaims(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete PersistentVolumeClaim %s: %v", name, err)
	}
}

// allRun says whether all n pods run, and of one that does not what it was told.
func allRun(client kubernetes.Interface, n int) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Status.Phase != v1.PodRunning {
				return false, fmt.Sprintf("pod %s is %s on node %q: %s", pod.Name, pod.Status.Phase, pod.Spec.NodeName, unschedulable(pod))
			}
		}
		return len(pods.Items) == n, fmt.Sprintf("%d pods", len(pods.Items))
	}
}

func noVolumeClaims(client kubernetes.Interface) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		claims, err := client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		return len(claims.Items) == 0, fmt.Sprintf("%d claims are left", len(claims.Items))
	}
}

// patchVolumeClaim applies a merge patch.
func patchVolumeClaim(ctx context.Context, t *testing.T, client kubernetes.Interface, name, patch string) {
	t.Helper()
	if _, err := client.CoreV1().PersistentVolumeClaims(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatalf("patch PersistentVolumeClaim %s: %v", name, err)
	}
}

// podWaits says whether the pod was told all of these reasons.
func podWaits(client kubernetes.Interface, name string, reasons ...string) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		told := unschedulable(pod)
		for _, reason := range reasons {
			if !strings.Contains(told, reason) {
				return false, fmt.Sprintf("%s on node %q: %q", pod.Status.Phase, pod.Spec.NodeName, told)
			}
		}
		return true, told
	}
}

// claimNamesNode says whether the claim is being provisioned for the node, or for
// any if none is given.
func claimNamesNode(client kubernetes.Interface, name, node string) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		claim, err := client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		selected := claim.Annotations[selectedNode]
		return selected != "" && (node == "" || selected == node), fmt.Sprintf("selected node %q", selected)
	}
}

// reportsOn says whether the capacity of the class on the node is reported as this
// much.
func reportsOn(ctx context.Context, client kubernetes.Interface, class, node, want string) (bool, string) {
	capacities, err := client.StorageV1().CSIStorageCapacities("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err.Error()
	}
	for _, capacity := range capacities.Items {
		if capacity.StorageClassName == class && capacity.NodeTopology.MatchLabels[v1.LabelHostname] == node {
			return capacity.Capacity.String() == want, "reports " + capacity.Capacity.String()
		}
	}
	return false, "reports nothing"
}

// clearVolumes deletes all pods, claims and volumes, and returns when they are
// gone and the drivers have their capacity back.
func clearVolumes(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	core := client.CoreV1()
	for what, err := range map[string]error{
		"pods":   core.Pods(namespace).DeleteCollection(ctx, now, metav1.ListOptions{}),
		"claims": core.PersistentVolumeClaims(namespace).DeleteCollection(ctx, now, metav1.ListOptions{}),
	} {
		if err != nil {
			t.Fatalf("delete all %s: %v", what, err)
		}
	}
	eventually(ctx, t, "all claims and provisioned volumes are gone", func(ctx context.Context) (bool, string) {
		claims, err := core.PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		volumes, err := core.PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		left := 0
		for _, volume := range volumes.Items {
			if volume.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete {
				left++
			}
		}
		return len(claims.Items) == 0 && left == 0, fmt.Sprintf("%d claims, %d volumes", len(claims.Items), left)
	})
	if err := core.PersistentVolumes().DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		t.Fatalf("delete all volumes: %v", err)
	}
	eventually(ctx, t, "the other volumes are gone too", func(ctx context.Context) (bool, string) {
		volumes, err := core.PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		return len(volumes.Items) == 0, fmt.Sprintf("%d volumes", len(volumes.Items))
	})
	eventually(ctx, t, "all capacity of class node is reported again", func(ctx context.Context) (bool, string) {
		capacities, err := client.StorageV1().CSIStorageCapacities("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, capacity := range capacities.Items {
			if capacity.StorageClassName == "node" && capacity.Capacity.String() != "100Gi" {
				return false, fmt.Sprintf("%v reports %s", capacity.NodeTopology.MatchLabels, capacity.Capacity)
			}
		}
		return true, ""
	})
}
