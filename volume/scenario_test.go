// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// A scenario is a cluster in a few lines of text, one object a line: its kind,
// its name, then key=value. Sets of nodes are written as terms separated by
// ";", requirements by ",", values by "|":
//
//	node n1 zone=a
//	class local provisioner=kubernetes.io/no-provisioner wait
//	class lvm provisioner=lvm.example.com wait allowed=zone=a|b
//	driver lvm.example.com reports
//	csinode n1 migrated=kubernetes.io/aws-ebs
//	capacity c1 class=lvm size=100Gi max=50Gi at=zone=a
//	pv pv1 class=local size=10Gi at=zone=a labels=tier=fast access=RWO,ROX
//	pvc data class=local size=5Gi select=tier=fast
//	pod web claims=data,logs ephemeral=scratch
//
// Objects are in namespace ml. The UID of an object is its name unless uid= says
// otherwise. The hostname label of a node is its name unless it is given.
type scenario struct {
	objects []runtime.Object
	nodes   []*v1.Node
	pods    map[string]*v1.Pod
}

const namespace = "ml"

// line is one parsed line.
type line struct {
	kind, name string
	args       map[string]string
}

func parseLine(text string) line {
	words := strings.Fields(text)
	l := line{kind: words[0], name: words[1], args: map[string]string{}}
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		l.args[key] = value
	}
	return l
}

func (l line) has(key string) bool { _, ok := l.args[key]; return ok }

func (l line) list(key string) []string {
	if l.args[key] == "" {
		return nil
	}
	return strings.Split(l.args[key], ",")
}

func (l line) meta() metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: l.name, UID: types.UID(l.name), Annotations: map[string]string{}, Labels: pairs(l.args["labels"])}
	if l.has("uid") {
		m.UID = types.UID(l.args["uid"])
	}
	if l.has("deleting") {
		m.DeletionTimestamp = &metav1.Time{}
	}
	if l.has("legacy-class") {
		m.Annotations[v1.BetaStorageClassAnnotation] = l.args["legacy-class"]
	}
	return m
}

func (l line) quantity(key string) *resource.Quantity {
	if !l.has(key) {
		return nil
	}
	return ptr.To(resource.MustParse(l.args[key]))
}

func (l line) storage() v1.ResourceList {
	if !l.has("size") {
		return nil
	}
	return v1.ResourceList{v1.ResourceStorage: *l.quantity("size")}
}

var accessModes = map[string]v1.PersistentVolumeAccessMode{
	"RWO": v1.ReadWriteOnce, "ROX": v1.ReadOnlyMany, "RWX": v1.ReadWriteMany, "RWOP": v1.ReadWriteOncePod,
}

func (l line) access() []v1.PersistentVolumeAccessMode {
	var modes []v1.PersistentVolumeAccessMode
	for _, short := range l.list("access") {
		modes = append(modes, accessModes[short])
	}
	if modes == nil {
		modes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	}
	return modes
}

func (l line) volumeMode() *v1.PersistentVolumeMode {
	if !l.has("mode") {
		return nil
	}
	return ptr.To(v1.PersistentVolumeMode(l.args["mode"]))
}

func (l line) optional(key string) *string {
	if !l.has(key) {
		return nil
	}
	return ptr.To(l.args[key])
}

func pairs(text string) map[string]string {
	set := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			set[key] = value
		}
	}
	return set
}

// terms parses a set of nodes.
func terms(text string) []v1.NodeSelectorTerm {
	var all []v1.NodeSelectorTerm
	for term := range strings.SplitSeq(text, ";") {
		var one v1.NodeSelectorTerm
		for requirement := range strings.SplitSeq(term, ",") {
			r := v1.NodeSelectorRequirement{Key: requirement, Operator: v1.NodeSelectorOpExists}
			if key, values, ok := strings.Cut(requirement, "!="); ok {
				r = v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpNotIn, Values: strings.Split(values, "|")}
			} else if key, values, ok := strings.Cut(requirement, "="); ok {
				r = v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: strings.Split(values, "|")}
			}
			one.MatchExpressions = append(one.MatchExpressions, r)
		}
		all = append(all, one)
	}
	return all
}

func (s *scenario) add(text string) error {
	for row := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(row) == "" {
			continue
		}
		l := parseLine(row)
		switch l.kind {
		case "node":
			s.node(l)
		case "class":
			s.class(l)
		case "driver":
			s.objects = append(s.objects, &storagev1.CSIDriver{
				ObjectMeta: l.meta(), Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(l.has("reports"))},
			})
		case "csinode":
			meta := l.meta()
			meta.Annotations[v1.MigratedPluginsAnnotationKey] = l.args["migrated"]
			s.objects = append(s.objects, &storagev1.CSINode{ObjectMeta: meta})
		case "capacity":
			s.capacity(l)
		case "pv":
			s.pv(l)
		case "pvc":
			s.pvc(l)
		case "pod":
			s.pod(l)
		default:
			return fmt.Errorf("no such kind: %s", row)
		}
	}
	return nil
}

func (s *scenario) node(l line) {
	meta := l.meta()
	meta.Labels = l.args
	if !l.has(v1.LabelHostname) {
		meta.Labels[v1.LabelHostname] = l.name
	}
	node := &v1.Node{ObjectMeta: meta}
	s.nodes = append(s.nodes, node)
	s.objects = append(s.objects, node)
}

func (s *scenario) class(l line) {
	class := &storagev1.StorageClass{ObjectMeta: l.meta(), Provisioner: l.args["provisioner"], VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate)}
	if l.has("wait") {
		class.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
	}
	if l.has("allowed") {
		for _, term := range terms(l.args["allowed"]) {
			var one v1.TopologySelectorTerm
			for _, r := range term.MatchExpressions {
				one.MatchLabelExpressions = append(one.MatchLabelExpressions, v1.TopologySelectorLabelRequirement{Key: r.Key, Values: r.Values})
			}
			class.AllowedTopologies = append(class.AllowedTopologies, one)
		}
	}
	s.objects = append(s.objects, class)
}

func (s *scenario) capacity(l line) {
	c := &storagev1.CSIStorageCapacity{
		ObjectMeta: l.meta(), StorageClassName: l.args["class"],
		Capacity: l.quantity("size"), MaximumVolumeSize: l.quantity("max"),
	}
	c.Namespace = "storage"
	if l.has("at") {
		c.NodeTopology = &metav1.LabelSelector{MatchLabels: pairs(l.args["at"])}
	}
	s.objects = append(s.objects, c)
}

func (s *scenario) pv(l line) {
	pv := &v1.PersistentVolume{ObjectMeta: l.meta(), Spec: v1.PersistentVolumeSpec{
		Capacity: l.storage(), AccessModes: l.access(), VolumeMode: l.volumeMode(),
		StorageClassName: l.args["class"], VolumeAttributesClassName: l.optional("attributes"),
	}, Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable}}
	if l.has("phase") {
		pv.Status.Phase = v1.PersistentVolumePhase(l.args["phase"])
	}
	if l.has("claim") {
		name, uid, _ := strings.Cut(l.args["claim"], ":")
		pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name, UID: types.UID(uid)}
	}
	if l.has("at") {
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: terms(l.args["at"])}}
	}
	if l.has("aws-ebs") {
		pv.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: l.args["aws-ebs"]}
	}
	if l.has("field") {
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: l.list("field")}},
		}}}}
	}
	s.objects = append(s.objects, pv)
}

func (s *scenario) pvc(l line) {
	pvc := &v1.PersistentVolumeClaim{ObjectMeta: l.meta(), Spec: v1.PersistentVolumeClaimSpec{
		AccessModes: l.access(), VolumeMode: l.volumeMode(), StorageClassName: l.optional("class"),
		VolumeAttributesClassName: l.optional("attributes"), Resources: v1.VolumeResourceRequirements{Requests: l.storage()},
	}, Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending}}
	pvc.Namespace = namespace
	if l.has("select") {
		pvc.Spec.Selector = &metav1.LabelSelector{MatchLabels: pairs(l.args["select"])}
	}
	if l.has("snapshot") {
		pvc.Spec.DataSource = &v1.TypedLocalObjectReference{Kind: "VolumeSnapshot", Name: l.args["snapshot"]}
	}
	if l.has("selected-node") {
		pvc.Annotations[storagehelpers.AnnSelectedNode] = l.args["selected-node"]
	}
	if l.has("names") {
		pvc.Spec.VolumeName = l.args["names"]
	}
	if l.has("bound") {
		pvc.Spec.VolumeName, pvc.Status.Phase = l.args["bound"], v1.ClaimBound
		pvc.Annotations[storagehelpers.AnnBindCompleted] = "yes"
	}
	if l.has("lost") {
		pvc.Spec.VolumeName, pvc.Status.Phase = l.args["lost"], v1.ClaimLost
	}
	if l.has("owner") {
		name, uid, ok := strings.Cut(l.args["owner"], ":")
		if !ok {
			uid = name
		}
		pvc.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: name, UID: types.UID(uid), Controller: ptr.To(true)}}
	}
	s.objects = append(s.objects, pvc)
}

func (s *scenario) pod(l line) {
	pod := &v1.Pod{ObjectMeta: l.meta()}
	pod.Namespace = namespace
	for i, name := range l.list("claims") {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: fmt.Sprintf("vol-%d", i), VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	for _, name := range l.list("ephemeral") {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}})
	}
	if s.pods == nil {
		s.pods = map[string]*v1.Pod{}
	}
	s.pods[l.name] = pod
}
