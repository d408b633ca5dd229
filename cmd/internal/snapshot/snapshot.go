// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package snapshot holds a cluster as plain data: every object that a
// scheduling decision can depend on, as the API server returned it.
//
// [Take] reads one from a live cluster, [Read] from files, and [Snapshot.Write]
// writes one. What is done with it never talks to a server.
package snapshot

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Snapshot is a cluster at about one moment. The lists come from separate
// requests, so an object may refer to another that is not there yet or no
// longer, as in a scheduler's informer stores. Order has no meaning.
//
// Whoever receives a Snapshot may keep it; nobody changes the objects in it.
type Snapshot struct {
	Nodes      []*v1.Node
	Pods       []*v1.Pod
	Namespaces []*v1.Namespace

	PersistentVolumes      []*v1.PersistentVolume
	PersistentVolumeClaims []*v1.PersistentVolumeClaim
	StorageClasses         []*storagev1.StorageClass
	CSINodes               []*storagev1.CSINode
	CSIDrivers             []*storagev1.CSIDriver
	CSIStorageCapacities   []*storagev1.CSIStorageCapacity
	VolumeAttachments      []*storagev1.VolumeAttachment

	ResourceClaims         []*resourceapi.ResourceClaim
	ResourceClaimTemplates []*resourceapi.ResourceClaimTemplate
	ResourceSlices         []*resourceapi.ResourceSlice
	DeviceClasses          []*resourceapi.DeviceClass
	DeviceTaintRules       []*resourceapi.DeviceTaintRule

	PodGroups            []*schedulingv1beta1.PodGroup
	PriorityClasses      []*schedulingv1.PriorityClass
	PodDisruptionBudgets []*policyv1.PodDisruptionBudget

	// What the default topology spreading of the scheduler looks up.
	Services               []*v1.Service
	ReplicationControllers []*v1.ReplicationController
	ReplicaSets            []*appsv1.ReplicaSet
	StatefulSets           []*appsv1.StatefulSet

	// NotServed and NotAllowed name the kinds, in the order of the fields above,
	// that the server does not serve or that its RBAC rules keep from us. Their
	// lists are empty.
	NotServed  []string
	NotAllowed []string
}

// Objects returns every object of the snapshot, kind by kind.
func (s *Snapshot) Objects() []runtime.Object {
	var all []runtime.Object
	all = appendObjects(all, s.Nodes)
	all = appendObjects(all, s.Pods)
	all = appendObjects(all, s.Namespaces)
	all = appendObjects(all, s.PersistentVolumes)
	all = appendObjects(all, s.PersistentVolumeClaims)
	all = appendObjects(all, s.StorageClasses)
	all = appendObjects(all, s.CSINodes)
	all = appendObjects(all, s.CSIDrivers)
	all = appendObjects(all, s.CSIStorageCapacities)
	all = appendObjects(all, s.VolumeAttachments)
	all = appendObjects(all, s.ResourceClaims)
	all = appendObjects(all, s.ResourceClaimTemplates)
	all = appendObjects(all, s.ResourceSlices)
	all = appendObjects(all, s.DeviceClasses)
	all = appendObjects(all, s.DeviceTaintRules)
	all = appendObjects(all, s.PodGroups)
	all = appendObjects(all, s.PriorityClasses)
	all = appendObjects(all, s.PodDisruptionBudgets)
	all = appendObjects(all, s.Services)
	all = appendObjects(all, s.ReplicationControllers)
	all = appendObjects(all, s.ReplicaSets)
	all = appendObjects(all, s.StatefulSets)
	return all
}

func appendObjects[T runtime.Object](all []runtime.Object, objects []T) []runtime.Object {
	for _, object := range objects {
		all = append(all, object)
	}
	return all
}

// add puts the object into its list. It says whether there is one for its kind.
func (s *Snapshot) add(object runtime.Object) bool {
	switch object := object.(type) {
	case *v1.Node:
		s.Nodes = append(s.Nodes, object)
	case *v1.Pod:
		s.Pods = append(s.Pods, object)
	case *v1.Namespace:
		s.Namespaces = append(s.Namespaces, object)
	case *v1.PersistentVolume:
		s.PersistentVolumes = append(s.PersistentVolumes, object)
	case *v1.PersistentVolumeClaim:
		s.PersistentVolumeClaims = append(s.PersistentVolumeClaims, object)
	case *storagev1.StorageClass:
		s.StorageClasses = append(s.StorageClasses, object)
	case *storagev1.CSINode:
		s.CSINodes = append(s.CSINodes, object)
	case *storagev1.CSIDriver:
		s.CSIDrivers = append(s.CSIDrivers, object)
	case *storagev1.CSIStorageCapacity:
		s.CSIStorageCapacities = append(s.CSIStorageCapacities, object)
	case *storagev1.VolumeAttachment:
		s.VolumeAttachments = append(s.VolumeAttachments, object)
	case *resourceapi.ResourceClaim:
		s.ResourceClaims = append(s.ResourceClaims, object)
	case *resourceapi.ResourceClaimTemplate:
		s.ResourceClaimTemplates = append(s.ResourceClaimTemplates, object)
	case *resourceapi.ResourceSlice:
		s.ResourceSlices = append(s.ResourceSlices, object)
	case *resourceapi.DeviceClass:
		s.DeviceClasses = append(s.DeviceClasses, object)
	case *resourceapi.DeviceTaintRule:
		s.DeviceTaintRules = append(s.DeviceTaintRules, object)
	case *schedulingv1beta1.PodGroup:
		s.PodGroups = append(s.PodGroups, object)
	case *schedulingv1.PriorityClass:
		s.PriorityClasses = append(s.PriorityClasses, object)
	case *policyv1.PodDisruptionBudget:
		s.PodDisruptionBudgets = append(s.PodDisruptionBudgets, object)
	case *v1.Service:
		s.Services = append(s.Services, object)
	case *v1.ReplicationController:
		s.ReplicationControllers = append(s.ReplicationControllers, object)
	case *appsv1.ReplicaSet:
		s.ReplicaSets = append(s.ReplicaSets, object)
	case *appsv1.StatefulSet:
		s.StatefulSets = append(s.StatefulSets, object)
	default:
		return false
	}
	return true
}

// Pod returns the pod of that name, nil if there is none.
func (s *Snapshot) Pod(namespace, name string) *v1.Pod {
	for _, pod := range s.Pods {
		if pod.Namespace == namespace && pod.Name == name {
			return pod
		}
	}
	return nil
}

// ResourceClaim returns the claim of that name, nil if there is none.
func (s *Snapshot) ResourceClaim(namespace, name string) *resourceapi.ResourceClaim {
	for _, claim := range s.ResourceClaims {
		if claim.Namespace == namespace && claim.Name == name {
			return claim
		}
	}
	return nil
}

// LacksTemplate says that the ResourceClaimTemplate of that name does not exist,
// as far as the server lets us see them.
func (s *Snapshot) LacksTemplate(namespace, name string) bool {
	if slices.Contains(s.NotAllowed, templates) || slices.Contains(s.NotServed, templates) {
		return false
	}
	return !slices.ContainsFunc(s.ResourceClaimTemplates, func(t *resourceapi.ResourceClaimTemplate) bool {
		return t.Namespace == namespace && t.Name == name
	})
}

// HasNode says whether there is a node of that name.
func (s *Snapshot) HasNode(name string) bool {
	return slices.ContainsFunc(s.Nodes, func(node *v1.Node) bool { return node.Name == name })
}

// PersistentVolumeClaim returns the claim of that name, nil if there is none.
func (s *Snapshot) PersistentVolumeClaim(namespace, name string) *v1.PersistentVolumeClaim {
	for _, claim := range s.PersistentVolumeClaims {
		if claim.Namespace == namespace && claim.Name == name {
			return claim
		}
	}
	return nil
}

// PersistentVolume returns the volume of that name, nil if there is none.
func (s *Snapshot) PersistentVolume(name string) *v1.PersistentVolume {
	for _, volume := range s.PersistentVolumes {
		if volume.Name == name {
			return volume
		}
	}
	return nil
}

// StorageClass returns the class of that name, nil if there is none.
func (s *Snapshot) StorageClass(name string) *storagev1.StorageClass {
	for _, class := range s.StorageClasses {
		if class.Name == name {
			return class
		}
	}
	return nil
}
