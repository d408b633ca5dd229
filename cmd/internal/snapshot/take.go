// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
)

// Take reads a snapshot from the cluster, all kinds at the same time and each
// in pages. A kind that the server does not serve or does not let us read is
// noted in the snapshot; any other failure fails the whole.
func Take(ctx context.Context, client kubernetes.Interface) (*Snapshot, error) {
	s := &Snapshot{}
	kinds := s.kinds(client)
	errs := make([]error, len(kinds))
	var wg sync.WaitGroup
	for i, kind := range kinds {
		wg.Go(func() { errs[i] = kind.list(ctx) })
	}
	wg.Wait()

	var failed []error
	for i, err := range errs {
		switch {
		case err == nil:
		case apierrors.IsNotFound(err):
			s.NotServed = append(s.NotServed, kinds[i].resource)
		case apierrors.IsForbidden(err):
			s.NotAllowed = append(s.NotAllowed, kinds[i].resource)
		default:
			failed = append(failed, fmt.Errorf("listing %s: %w", kinds[i].resource, err))
		}
	}
	if len(failed) > 0 {
		// An unreachable server fails every kind in the same way: one will do.
		return nil, failed[0]
	}
	return s, nil
}

// kind is one resource of the API and how its list is read. The kinds share
// nothing, so they can be read at the same time.
type kind struct {
	resource string
	list     func(context.Context) error
}

const templates = "resourceclaimtemplates.resource.k8s.io"

// kinds must have an entry for every list of the Snapshot, in their order.
func (s *Snapshot) kinds(c kubernetes.Interface) []kind {
	all := metav1.NamespaceAll
	return []kind{
		{"nodes", into(&s.Nodes, c.CoreV1().Nodes().List)},
		{"pods", into(&s.Pods, c.CoreV1().Pods(all).List)},
		{"namespaces", into(&s.Namespaces, c.CoreV1().Namespaces().List)},
		{"persistentvolumes", into(&s.PersistentVolumes, c.CoreV1().PersistentVolumes().List)},
		{"persistentvolumeclaims", into(&s.PersistentVolumeClaims, c.CoreV1().PersistentVolumeClaims(all).List)},
		{"storageclasses.storage.k8s.io", into(&s.StorageClasses, c.StorageV1().StorageClasses().List)},
		{"csinodes.storage.k8s.io", into(&s.CSINodes, c.StorageV1().CSINodes().List)},
		{"csidrivers.storage.k8s.io", into(&s.CSIDrivers, c.StorageV1().CSIDrivers().List)},
		{"csistoragecapacities.storage.k8s.io", into(&s.CSIStorageCapacities, c.StorageV1().CSIStorageCapacities(all).List)},
		{"volumeattachments.storage.k8s.io", into(&s.VolumeAttachments, c.StorageV1().VolumeAttachments().List)},
		{"resourceclaims.resource.k8s.io", into(&s.ResourceClaims, c.ResourceV1().ResourceClaims(all).List)},
		{templates, into(&s.ResourceClaimTemplates, c.ResourceV1().ResourceClaimTemplates(all).List)},
		{"resourceslices.resource.k8s.io", into(&s.ResourceSlices, c.ResourceV1().ResourceSlices().List)},
		{"deviceclasses.resource.k8s.io", into(&s.DeviceClasses, c.ResourceV1().DeviceClasses().List)},
		{"devicetaintrules.resource.k8s.io", into(&s.DeviceTaintRules, c.ResourceV1().DeviceTaintRules().List)},
		{"podgroups.scheduling.k8s.io", into(&s.PodGroups, c.SchedulingV1beta1().PodGroups(all).List)},
		{"priorityclasses.scheduling.k8s.io", into(&s.PriorityClasses, c.SchedulingV1().PriorityClasses().List)},
		{"poddisruptionbudgets.policy", into(&s.PodDisruptionBudgets, c.PolicyV1().PodDisruptionBudgets(all).List)},
		{"services", into(&s.Services, c.CoreV1().Services(all).List)},
		{"replicationcontrollers", into(&s.ReplicationControllers, c.CoreV1().ReplicationControllers(all).List)},
		{"replicasets.apps", into(&s.ReplicaSets, c.AppsV1().ReplicaSets(all).List)},
		{"statefulsets.apps", into(&s.StatefulSets, c.AppsV1().StatefulSets(all).List)},
	}
}

// into returns a function that reads all pages of a list. A list that ends in
// an error leaves its slice empty rather than half filled.
func into[L, T runtime.Object](slice *[]T, list func(context.Context, metav1.ListOptions) (L, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		var items []T
		pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return list(ctx, opts)
		})
		err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
			item, ok := object.(T)
			if !ok {
				return errors.New("the server returned a list of another kind")
			}
			items = append(items, item)
			return nil
		})
		if err != nil {
			return err
		}
		*slice = items
		return nil
	}
}
