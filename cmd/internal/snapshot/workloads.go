// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// workloads are objects that are no part of a Snapshot, but that controllers make
// pods of.
type workloads struct {
	deployments []*appsv1.Deployment
	jobs        []*batchv1.Job
}

// add takes an object if it is such a workload.
func (w *workloads) add(object runtime.Object) bool {
	switch object := object.(type) {
	case *appsv1.Deployment:
		w.deployments = append(w.deployments, object)
	case *batchv1.Job:
		w.jobs = append(w.jobs, object)
	default:
		return false
	}
	return true
}

// startWorkloads adds the pods of all workloads without a UID, numbered from 0, as
// far as they are not there.
func (c *completion) startWorkloads(w *workloads) {
	for _, d := range w.deployments {
		if d.UID == "" {
			c.ReplicaSets = append(c.ReplicaSets, replicaSet(d))
		}
	}
	for _, set := range c.ReplicaSets {
		if set.UID == "" {
			c.startPods("ReplicaSet", set, ptr.Deref(set.Spec.Replicas, 1), &set.Spec.Template)
		}
	}
	for _, set := range c.StatefulSets {
		if set.UID == "" {
			c.startReplicas(set)
		}
	}
	for _, job := range w.jobs {
		if job.UID == "" && !ptr.Deref(job.Spec.Suspend, false) {
			atOnce := ptr.Deref(job.Spec.Parallelism, 1)
			c.startPods("Job", job, min(atOnce, ptr.Deref(job.Spec.Completions, atOnce)), &job.Spec.Template)
		}
	}
}

// replicaSet is the one that belongs to a new Deployment.
func replicaSet(d *appsv1.Deployment) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, Labels: d.Spec.Template.Labels},
		Spec:       appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template},
	}
}

// startReplicas adds the pods of a StatefulSet and their claims.
func (c *completion) startReplicas(set *appsv1.StatefulSet) {
	for _, pod := range c.startPods("StatefulSet", set, ptr.Deref(set.Spec.Replicas, 1), &set.Spec.Template) {
		for i := range set.Spec.VolumeClaimTemplates {
			template := &set.Spec.VolumeClaimTemplates[i]
			name := template.Name + "-" + pod.Name
			pod.Spec.Volumes = append(slices.DeleteFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == template.Name }), v1.Volume{
				Name: template.Name,
				VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
					ClaimName: name,
				}},
			})
			if c.PersistentVolumeClaim(pod.Namespace, name) != nil {
				continue
			}
			claim := template.DeepCopy()
			claim.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
			claim.Namespace, claim.Name, claim.Status.Phase = pod.Namespace, name, v1.ClaimPending
			c.PersistentVolumeClaims = append(c.PersistentVolumeClaims, claim)
		}
	}
}

// startPods adds the pods of an owner that are not there, and returns them.
func (c *completion) startPods(kind string, owner metav1.Object, count int32, template *v1.PodTemplateSpec) []*v1.Pod {
	var started []*v1.Pod
	for i := range count {
		name := fmt.Sprintf("%s-%d", owner.GetName(), i)
		if c.Pod(owner.GetNamespace(), name) != nil {
			continue
		}
		pod := &v1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: *template.ObjectMeta.DeepCopy(),
			Spec:       *template.Spec.DeepCopy(),
			Status:     v1.PodStatus{Phase: v1.PodPending},
		}
		pod.Namespace, pod.Name = owner.GetNamespace(), name
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: apiVersions[kind], Kind: kind, Name: owner.GetName(),
			UID: uid(kind, owner.GetNamespace(), owner.GetName()), Controller: new(true),
		}}
		// A pod has defaults that its template has not.
		scheme.Default(pod)
		started = append(started, pod)
	}
	c.Pods = append(c.Pods, started...)
	return started
}

var apiVersions = map[string]string{
	"ReplicaSet": appsv1.SchemeGroupVersion.String(), "StatefulSet": appsv1.SchemeGroupVersion.String(),
	"Job": batchv1.SchemeGroupVersion.String(),
}
