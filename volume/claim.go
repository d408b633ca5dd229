// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/reason"
)

// claim is one PersistentVolumeClaim of the pod.
type claim struct {
	pvc *v1.PersistentVolumeClaim
	// entry is the first entry of the pod's spec.volumes that uses it.
	entry string
	class string
	// wanted is zero when the claim does not say.
	wanted resource.Quantity
}

// boundClaim has its volume.
type boundClaim struct {
	claim
	volume *Volume
}

// openClaim has no volume and its class waits for the pod.
type openClaim struct {
	claim
	selector labels.Selector
	// pinned is the node that the claim is being provisioned for, empty if none.
	pinned string
	// kept are the volumes that are kept for the claim, in the order of
	// compareVolumes. If there are any, the claim will be bound to one of them.
	kept []*Volume
	// provisionable says that a volume can be made for the claim.
	provisionable bool
}

// find looks up the claim that an entry of the pod's spec.volumes uses. Both
// results are nil if the entry uses none.
func find(pod *v1.Pod, entry *v1.Volume, facts Facts) (*claim, *reason.Rejection) {
	var name string
	missing := reason.VolumeClaimNotFound
	switch {
	case entry.PersistentVolumeClaim != nil:
		name = entry.PersistentVolumeClaim.ClaimName
	case entry.Ephemeral != nil:
		name = ephemeral.VolumeClaimName(pod, entry)
		missing = reason.VolumeClaimNotCreated
	default:
		return nil, nil
	}
	pvc := facts.Claim(pod.Namespace, name)
	if pvc == nil {
		return nil, &reason.Rejection{Code: missing, Claim: claimRef(pod.Namespace, name), Volume: entry.Name}
	}
	c := &claim{
		pvc:    pvc,
		entry:  entry.Name,
		class:  storagehelpers.GetPersistentVolumeClaimClass(pvc),
		wanted: pvc.Spec.Resources.Requests[v1.ResourceStorage],
	}
	switch {
	case entry.Ephemeral != nil && !metav1.IsControlledBy(pvc, pod):
		r := c.reject(reason.VolumeClaimNotOwned)
		r.Facts.Detail = "not owned by this pod"
		if owner := metav1.GetControllerOf(pvc); owner != nil {
			r.Facts.Object = reason.Ref{Kind: owner.Kind, Namespace: pvc.Namespace, Name: owner.Name}
			r.Facts.Detail = "owned by the object with UID " + string(owner.UID)
		}
		return nil, r
	case pvc.Status.Phase == v1.ClaimLost:
		r := c.reject(reason.VolumeClaimLost)
		if pvc.Spec.VolumeName != "" {
			r.Facts.Object = volumeRef(pvc.Spec.VolumeName)
		}
		return nil, r
	case pvc.DeletionTimestamp != nil:
		return nil, c.reject(reason.VolumeClaimDeleting)
	}
	return c, nil
}

// isBound says that the PV controller has completed the binding. A claim that
// only names a volume is still waiting for it.
func (c *claim) isBound() bool {
	return c.pvc.Spec.VolumeName != "" && metav1.HasAnnotation(c.pvc.ObjectMeta, storagehelpers.AnnBindCompleted)
}

// bound makes the claim a bound one.
func (c *claim) bound(facts Facts) (boundClaim, *reason.Rejection) {
	v := facts.Volume(c.pvc.Spec.VolumeName)
	if v == nil {
		r := c.reject(reason.VolumeNotFound)
		r.Facts.Object = volumeRef(c.pvc.Spec.VolumeName)
		return boundClaim{}, r
	}
	return boundClaim{claim: *c, volume: v}, c.usable(v)
}

// usable rejects the volume that the claim is tied to if no node can reach it.
func (c *claim) usable(v *Volume) *reason.Rejection {
	invalid := v.reach.invalid
	if invalid == nil || v.migration != nil {
		return nil
	}
	r := c.reject(reason.VolumeInvalid)
	r.Facts.Object = volumeRef(v.pv.Name)
	r.Facts.Field, r.Facts.Detail = invalid.path, invalid.detail
	return r
}

// waiting says why an unbound claim is not for the scheduler to place, nil if
// it is. class is the claim's class, nil if there is none of that name.
func (c *claim) waiting(class *storagev1.StorageClass) *reason.Rejection {
	switch {
	case c.pvc.Spec.VolumeName != "":
		r := c.reject(reason.VolumeClaimUnbound)
		r.Facts.Object = volumeRef(c.pvc.Spec.VolumeName)
		r.Facts.Detail = "the claim names its volume, the binding is not complete"
		return r
	case c.class == "":
		r := c.reject(reason.VolumeClaimUnbound)
		r.Facts.Detail = "a claim without a class is bound as soon as a volume fits"
		return r
	case class == nil:
		r := c.reject(reason.StorageClassNotFound)
		r.Facts.Object = reason.Ref{Kind: "StorageClass", Name: c.class}
		return r
	// The API server defaults the mode to Immediate; a file may leave it out.
	case ptr.Deref(class.VolumeBindingMode, storagev1.VolumeBindingImmediate) != storagev1.VolumeBindingWaitForFirstConsumer:
		return c.reject(reason.VolumeClaimUnbound)
	}
	return nil
}

// open makes the claim an open one of the class.
func (c *claim) open(class *storagev1.StorageClass, facts Facts) (openClaim, *reason.Rejection) {
	o := openClaim{claim: *c}
	if selector := c.pvc.Spec.Selector; selector != nil {
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			r := c.reject(reason.VolumeClaimUnsupported)
			r.Facts.Feature = "a label selector that cannot be followed"
			r.Facts.Field, r.Facts.Detail = "spec.selector", err.Error()
			return o, r
		}
		o.selector = parsed
	}
	// Provisioners refuse claims with a selector.
	o.provisionable = provisions(class) && o.selector == nil
	for _, v := range facts.VolumesFor(c.pvc.Namespace, c.pvc.Name) {
		if v.isFor(c.pvc) && o.obstacle(v) == fits {
			o.kept = append(o.kept, v)
		}
	}
	if len(o.kept) > 0 {
		slices.SortFunc(o.kept, compareVolumes)
		return o, c.usable(o.kept[0])
	}
	if node, ok := c.pvc.Annotations[storagehelpers.AnnSelectedNode]; ok {
		return o.pin(node, class, facts)
	}
	return o, nil
}

// pin ties the claim to the node that it is being provisioned for. It is not
// put on an existing volume any more: a provisioner is at work.
func (o openClaim) pin(node string, class *storagev1.StorageClass, facts Facts) (openClaim, *reason.Rejection) {
	o.pinned = node
	if !provisions(class) {
		r := o.reject(reason.VolumeClaimUnsupported)
		r.Facts.Feature = "annotation " + storagehelpers.AnnSelectedNode + " on a claim whose class does not provision"
		return o, r
	}
	if facts.Node(node) == nil {
		r := o.reject(reason.SelectedNodeGone)
		r.Facts.Object = reason.Ref{Kind: "Node", Name: node}
		return o, r
	}
	return o, nil
}

// provisions says whether volumes of the class can be made.
func provisions(class *storagev1.StorageClass) bool {
	return class.Provisioner != "" && class.Provisioner != storagehelpers.NotSupportedProvisioner
}

// obstacle is what keeps a volume from a claim. They are ordered: the later one
// is found, the nearer the volume came.
type obstacle int

const (
	otherClass obstacle = iota
	heldByOther
	beingDeleted
	notAvailable
	withoutData
	otherVolumeMode
	otherAccessModes
	otherAttributes
	otherLabels
	invalidAffinity
	// unreachable depends on the node, which obstacle does not look at. A volume
	// at hand that is too small came nearer than one that is out of reach.
	unreachable
	tooSmall
	fits
)

// obstacle returns the first obstacle that does not depend on a node. A volume
// that is kept for the claim need not be available (it is on its way) nor match
// the selector, which is how the PV controller treats it.
func (o *openClaim) obstacle(v *Volume) obstacle {
	own := v.isFor(o.pvc)
	spec := &o.pvc.Spec
	switch {
	case storagehelpers.GetPersistentVolumeClass(v.pv) != o.class:
		return otherClass
	case v.pv.Spec.ClaimRef != nil && !own:
		return heldByOther
	case v.pv.DeletionTimestamp != nil:
		return beingDeleted
	case !own && v.pv.Status.Phase != v1.VolumeAvailable:
		return notAvailable
	// A data source asks for a new volume with that content (Go doc of
	// PersistentVolumeClaimSpec).
	case !own && (spec.DataSource != nil || spec.DataSourceRef != nil):
		return withoutData
	case storagehelpers.CheckVolumeModeMismatches(spec, &v.pv.Spec):
		return otherVolumeMode
	case !storagehelpers.CheckAccessModes(o.pvc, v.pv):
		return otherAccessModes
	case ptr.Deref(spec.VolumeAttributesClassName, "") != ptr.Deref(v.pv.Spec.VolumeAttributesClassName, ""):
		return otherAttributes
	case !own && o.selector != nil && !o.selector.Matches(labels.Set(v.pv.Labels)):
		return otherLabels
	case !own && v.reach.invalid != nil && v.migration == nil:
		return invalidAffinity
	case v.size.Cmp(o.wanted) < 0:
		return tooSmall
	}
	return fits
}

// comparePrecedence is the order in which open claims are put on volumes: those
// that cannot be provisioned first, then the largest, then by name.
func comparePrecedence(a, b *openClaim) int {
	if a.provisionable != b.provisionable {
		if a.provisionable {
			return 1
		}
		return -1
	}
	return cmp.Or(b.wanted.Cmp(a.wanted), cmp.Compare(a.pvc.Name, b.pvc.Name))
}

// reject starts a rejection of the claim with the facts that all share.
func (c *claim) reject(code reason.Code) *reason.Rejection {
	r := c.refuse(code, "")
	r.Facts.Class = c.class
	if !c.wanted.IsZero() {
		wanted := c.wanted.DeepCopy()
		r.Facts.Wanted = &wanted
	}
	return r
}

// refuse is a rejection of the claim without facts.
func (c *claim) refuse(code reason.Code, node string) *reason.Rejection {
	return &reason.Rejection{Code: code, Node: node, Claim: claimRef(c.pvc.Namespace, c.pvc.Name), Volume: c.entry}
}

func claimRef(namespace, name string) reason.Ref {
	return reason.Ref{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name}
}

func volumeRef(name string) reason.Ref {
	return reason.Ref{Kind: "PersistentVolume", Name: name}
}
