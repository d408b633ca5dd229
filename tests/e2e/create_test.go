// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// create creates the objects in order.
func create(ctx context.Context, t *testing.T, client kubernetes.Interface, objects ...any) {
	t.Helper()
	for _, object := range objects {
		var err error
		switch object := object.(type) {
		case *v1.Pod:
			_, err = client.CoreV1().Pods(namespace).Create(ctx, object, metav1.CreateOptions{})
		case *v1.PersistentVolumeClaim:
			_, err = client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, object, metav1.CreateOptions{})
		case *resourceapi.ResourceClaim:
			_, err = client.ResourceV1().ResourceClaims(namespace).Create(ctx, object, metav1.CreateOptions{})
		case *resourceapi.ResourceClaimTemplate:
			_, err = client.ResourceV1().ResourceClaimTemplates(namespace).Create(ctx, object, metav1.CreateOptions{})
		case *resourceapi.ResourceSlice:
			_, err = client.ResourceV1().ResourceSlices().Create(ctx, object, metav1.CreateOptions{})
		case *resourceapi.DeviceClass:
			_, err = client.ResourceV1().DeviceClasses().Create(ctx, object, metav1.CreateOptions{})
		case *v1.PersistentVolume:
			_, err = client.CoreV1().PersistentVolumes().Create(ctx, object, metav1.CreateOptions{})
		case *v1.Node:
			_, err = client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{})
		case *appsv1.StatefulSet:
			_, err = client.AppsV1().StatefulSets(namespace).Create(ctx, object, metav1.CreateOptions{})
		case *schedulingv1beta1.PodGroup:
			_, err = client.SchedulingV1beta1().PodGroups(namespace).Create(ctx, object, metav1.CreateOptions{})
		case *schedulingv1.PriorityClass:
			_, err = client.SchedulingV1().PriorityClasses().Create(ctx, object, metav1.CreateOptions{})
		case *storagev1.StorageClass:
			_, err = client.StorageV1().StorageClasses().Create(ctx, object, metav1.CreateOptions{})
		case *storagev1.VolumeAttributesClass:
			_, err = client.StorageV1().VolumeAttributesClasses().Create(ctx, object, metav1.CreateOptions{})
		case *storagev1.CSIDriver:
			_, err = client.StorageV1().CSIDrivers().Create(ctx, object, metav1.CreateOptions{})
		default:
			t.Fatalf("no way to create a %T", object)
		}
		if err != nil {
			t.Fatalf("create %T: %v", object, err)
		}
	}
}

// createAtOnce creates the pods as fast as the API server takes them.
func createAtOnce(ctx context.Context, t *testing.T, client kubernetes.Interface, pods []*v1.Pod) {
	t.Helper()
	errs := make([]error, len(pods))
	var wg sync.WaitGroup
	for i, pod := range pods {
		wg.Go(func() { _, errs[i] = client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("create pod %s: %v", pods[i].Name, err)
		}
	}
}

func listPods(ctx context.Context, t *testing.T, client kubernetes.Interface) []v1.Pod {
	t.Helper()
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list pods: %v", err)
	}
	return pods.Items
}

func getPod(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) *v1.Pod {
	t.Helper()
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get pod %s: %v", name, err)
	}
	return pod
}

func deletePod(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	if err := client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete pod %s: %v", name, err)
	}
}
