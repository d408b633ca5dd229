// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// namespace is where the tests put their objects.
const namespace = "default"

// gpuClass is the DeviceClass of the lab's GPUs.
const gpuClass = "gpu.nvidia.com"

// podOption changes a pod before it is created.
type podOption func(*v1.Pod)

// newPod returns a pod of one container that runs until it is deleted.
func newPod(name string, options ...podOption) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers:                    []v1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}},
		},
	}
	for _, option := range options {
		option(pod)
	}
	return pod
}

// fromTemplate gives the pod a claim of its own, made from a template.
func fromTemplate(template string) podOption {
	return func(pod *v1.Pod) {
		useClaim(pod, v1.PodResourceClaim{Name: "devices", ResourceClaimTemplateName: &template})
	}
}

// sharing lets the pod use an existing claim.
func sharing(claim string) podOption {
	return func(pod *v1.Pod) {
		useClaim(pod, v1.PodResourceClaim{Name: "devices", ResourceClaimName: &claim})
	}
}

// alsoSharing lets the pod use a second claim.
func alsoSharing(claim string) podOption {
	return func(pod *v1.Pod) {
		useClaim(pod, v1.PodResourceClaim{Name: "more-devices", ResourceClaimName: &claim})
	}
}

func useClaim(pod *v1.Pod, claim v1.PodResourceClaim) {
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, claim)
	main := &pod.Spec.Containers[0]
	main.Resources.Claims = append(main.Resources.Claims, v1.ResourceClaim{Name: claim.Name})
}

// mounting mounts an existing PersistentVolumeClaim.
func mounting(claim string) podOption {
	return func(pod *v1.Pod) {
		name := fmt.Sprintf("volume-%d", len(pod.Spec.Volumes))
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{
			Name:         name,
			VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}},
		})
		main := &pod.Spec.Containers[0]
		main.VolumeMounts = append(main.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
}

// requesting lets the pod's container request an extended resource.
func requesting(name v1.ResourceName, amount string) podOption {
	return func(pod *v1.Pod) {
		main := &pod.Spec.Containers[0]
		if main.Resources.Limits == nil {
			main.Resources.Limits = v1.ResourceList{}
		}
		main.Resources.Limits[name] = resource.MustParse(amount)
	}
}

// gpus is a claim of count GPUs.
func gpus(count int64) resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{{
			Name: "gpus",
			Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: gpuClass,
				AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
				Count:           count,
			},
		}},
	}}
}

func newTemplate(name string, spec resourceapi.ResourceClaimSpec) *resourceapi.ResourceClaimTemplate {
	return &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: spec},
	}
}

func newClaim(name string, spec resourceapi.ResourceClaimSpec) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       spec,
	}
}

func newVolumeClaim(name, class, size string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		},
	}
}

// newSilentClass is a class whose provisioner never does anything.
func newSilentClass(name string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: name},
		Provisioner:       "silent.example.com",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
}
