// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	schedulingdefaults "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	storageutil "k8s.io/kubernetes/pkg/volume/util"
)

// completion does for the objects of a snapshot that have no UID what happens to a
// manifest between `kubectl apply` and the scheduler:
//
//   - Deployments, ReplicaSets, StatefulSets and Jobs get their pods;
//   - a pod gets the priority of its class, or of the default class, and the claims
//     that it has templates for;
//   - a PersistentVolumeClaim gets the default class, and one that names a volume,
//     or is named by one, is bound to it;
//   - every object gets a UID, the same each time.
//
// What takes a driver is left undone: nobody provisions for a class that binds
// immediately. Claims that a PodGroup has templates for are made for each of its
// pods, as without the feature gate DRAWorkloadResourceClaims.
type completion struct {
	*Snapshot
	// problems are what an API server would refuse. Those objects are taken out.
	problems []error
}

func (c *completion) complete(w *workloads) {
	c.startWorkloads(w)
	c.Pods = slices.DeleteFunc(c.Pods, func(pod *v1.Pod) bool {
		if pod.UID != "" {
			return false
		}
		if err := c.pod(pod); err != nil {
			c.problems = append(c.problems, fmt.Errorf("Pod %q in namespace %q: %w", pod.Name, pod.Namespace, err))
			return true
		}
		return false
	})
	for _, claim := range c.PersistentVolumeClaims {
		if claim.UID == "" {
			c.claim(claim)
		}
	}
	for _, pv := range c.PersistentVolumes {
		if pv.UID == "" && pv.Spec.ClaimRef == nil {
			pv.Status.Phase = v1.VolumeAvailable
		}
	}
	for _, object := range c.Objects() {
		accessor, err := meta.Accessor(object)
		if err == nil && accessor.GetUID() == "" {
			accessor.SetUID(uid(kindOf(object), accessor.GetNamespace(), accessor.GetName()))
		}
	}
}

// uid is an identity that says what it is of.
func uid(kind, namespace, name string) types.UID {
	return types.UID(kind + "/" + namespace + "/" + name)
}

// pod gives a pod its priority and its claims.
func (c *completion) pod(pod *v1.Pod) error {
	if err := c.prioritize(pod); err != nil {
		return err
	}
	owner := []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: uid("Pod", pod.Namespace, pod.Name), Controller: new(true),
	}}
	for i := range pod.Spec.ResourceClaims {
		if claim := c.fromTemplate(pod, &pod.Spec.ResourceClaims[i], owner); claim != nil {
			c.ResourceClaims = append(c.ResourceClaims, claim)
			pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, v1.PodResourceClaimStatus{
				Name: pod.Spec.ResourceClaims[i].Name, ResourceClaimName: &claim.Name,
			})
		}
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		name := ephemeral.VolumeClaimName(pod, volume)
		if volume.Ephemeral == nil || c.PersistentVolumeClaim(pod.Namespace, name) != nil {
			continue
		}
		template := volume.Ephemeral.VolumeClaimTemplate.DeepCopy()
		claim := &v1.PersistentVolumeClaim{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		claim.Namespace, claim.Name, claim.OwnerReferences = pod.Namespace, name, owner
		claim.Status.Phase = v1.ClaimPending
		c.PersistentVolumeClaims = append(c.PersistentVolumeClaims, claim)
	}
	return nil
}

// fromTemplate returns the claim that the pod gets for one of its own, nil if that
// is there, or if there is no template for it.
func (c *completion) fromTemplate(pod *v1.Pod, wanted *v1.PodResourceClaim, owner []metav1.OwnerReference) *resourceapi.ResourceClaim {
	if wanted.ResourceClaimTemplateName == nil || slices.ContainsFunc(pod.Status.ResourceClaimStatuses,
		func(s v1.PodResourceClaimStatus) bool { return s.Name == wanted.Name }) {
		return nil
	}
	i := slices.IndexFunc(c.ResourceClaimTemplates, func(t *resourceapi.ResourceClaimTemplate) bool {
		return t.Namespace == pod.Namespace && t.Name == *wanted.ResourceClaimTemplateName
	})
	if i < 0 {
		return nil
	}
	template := c.ResourceClaimTemplates[i].DeepCopy()
	claim := &resourceapi.ResourceClaim{ObjectMeta: template.Spec.ObjectMeta, Spec: template.Spec.Spec}
	claim.Namespace, claim.Name, claim.OwnerReferences = pod.Namespace, pod.Name+"-"+wanted.Name, owner
	for c.ResourceClaim(claim.Namespace, claim.Name) != nil {
		claim.Name += "-x"
	}
	claim.Annotations = maps.Clone(claim.Annotations)
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, resourceapi.PodResourceClaimAnnotation, wanted.Name)
	return claim
}

// prioritize is the admission plugin Priority.
func (c *completion) prioritize(pod *v1.Pod) error {
	if pod.Spec.Priority != nil {
		return nil
	}
	class := &schedulingv1.PriorityClass{}
	if name := pod.Spec.PriorityClassName; name != "" {
		all := append(schedulingdefaults.SystemPriorityClasses(), c.PriorityClasses...)
		i := slices.IndexFunc(all, func(p *schedulingv1.PriorityClass) bool { return p.Name == name })
		if i < 0 {
			return fmt.Errorf("spec.priorityClassName: there is no PriorityClass %q", name)
		}
		class = all[i]
	} else {
		// The API server takes the lowest, should there be several.
		for _, p := range c.PriorityClasses {
			if p.GlobalDefault && (class.Name == "" || p.Value < class.Value) {
				class = p
			}
		}
		pod.Spec.PriorityClassName = class.Name
	}
	pod.Spec.Priority = &class.Value
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = class.PreemptionPolicy
	}
	return nil
}

// claim gives a claim its class and its volume.
func (c *completion) claim(claim *v1.PersistentVolumeClaim) {
	if claim.Spec.StorageClassName == nil && claim.Annotations[v1.BetaStorageClassAnnotation] == "" && claim.Spec.VolumeName == "" {
		if class := c.defaultStorageClass(); class != nil {
			claim.Spec.StorageClassName = &class.Name
		}
	}
	claim.UID = uid("PersistentVolumeClaim", claim.Namespace, claim.Name)
	i := slices.IndexFunc(c.PersistentVolumes, func(pv *v1.PersistentVolume) bool {
		if pv.Spec.ClaimRef == nil {
			return pv.Name == claim.Spec.VolumeName
		}
		return storagehelpers.IsVolumeBoundToClaim(pv, claim) && (claim.Spec.VolumeName == "" || claim.Spec.VolumeName == pv.Name)
	})
	if i < 0 {
		return
	}
	pv := c.PersistentVolumes[i]
	pv.Spec.ClaimRef = &v1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
	}
	pv.Status.Phase = v1.VolumeBound
	claim.Spec.VolumeName, claim.Status.Phase = pv.Name, v1.ClaimBound
	claim.Status.AccessModes, claim.Status.Capacity = pv.Spec.AccessModes, pv.Spec.Capacity
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, storagehelpers.AnnBindCompleted, "yes")
}

// defaultStorageClass is the latest of those that say so, as for the API server.
func (c *completion) defaultStorageClass() *storagev1.StorageClass {
	var found *storagev1.StorageClass
	for _, class := range c.StorageClasses {
		if storageutil.IsDefaultAnnotation(class.ObjectMeta) && (found == nil || later(class, found)) {
			found = class
		}
	}
	return found
}

func later(a, b *storagev1.StorageClass) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name)) > 0
}
