// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	csitranslation "k8s.io/csi-translation-lib"
)

// Verify checks a plan for the node against the API objects, with none of the
// code that compiles and solves. The error names every rule that is broken:
// each claim of the pod is bound or in the plan once, no volume is given twice,
// volumes fit their claims and can be reached, and what is provisioned may be
// provisioned there and is within the reported capacity, beside what others draw.
// That the plan wastes least is not checked.
func Verify(p *Problem, node *v1.Node, plan Plan) error {
	v := verifier{
		facts: p.facts, options: p.options, node: node,
		own:   map[key]*v1.PersistentVolumeClaim{},
		drawn: map[*storagev1.CSIStorageCapacity]*resource.Quantity{},
	}
	v.everyClaimOnce(p.pod, plan)
	for i, b := range plan.bindings {
		v.binding(b)
		if slices.ContainsFunc(plan.bindings[:i], func(other Binding) bool { return other.Volume.Name == b.Volume.Name }) {
			v.fail("volume %s is given to two claims", b.Volume.Name)
		}
	}
	for _, d := range plan.provisions {
		v.provision(d)
	}
	return errors.Join(v.broken...)
}

type verifier struct {
	facts   Facts
	options Options
	node    *v1.Node
	// own are the claims of the plan.
	own    map[key]*v1.PersistentVolumeClaim
	drawn  map[*storagev1.CSIStorageCapacity]*resource.Quantity
	broken []error
}

func (v *verifier) fail(format string, args ...any) {
	v.broken = append(v.broken, fmt.Errorf(format, args...))
}

// everyClaimOnce compares the claims of the plan with those of the pod.
func (v *verifier) everyClaimOnce(pod *v1.Pod, plan Plan) {
	planned := map[string]int{}
	count := func(claim *v1.PersistentVolumeClaim) {
		planned[claim.Name]++
		v.own[key{claim.Namespace, claim.Name}] = claim
		if v.facts.Claim(pod.Namespace, claim.Name) != claim {
			v.fail("claim %s/%s is not the claim of the pod", claim.Namespace, claim.Name)
		}
	}
	for _, b := range plan.bindings {
		count(b.Claim)
	}
	for _, d := range plan.provisions {
		count(d.Claim)
	}
	used := map[string]bool{}
	for i := range pod.Spec.Volumes {
		entry := &pod.Spec.Volumes[i]
		var name string
		switch {
		case entry.PersistentVolumeClaim != nil:
			name = entry.PersistentVolumeClaim.ClaimName
		case entry.Ephemeral != nil:
			name = ephemeral.VolumeClaimName(pod, entry)
		default:
			continue
		}
		used[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		claim := v.facts.Claim(pod.Namespace, name)
		switch {
		case claim == nil:
			v.fail("claim %s/%s does not exist", pod.Namespace, name)
		case claim.Spec.VolumeName != "":
			v.bound(claim, planned[name])
		case planned[name] != 1:
			v.fail("claim %s/%s is %d times in the plan, not once", pod.Namespace, name, planned[name])
		}
		delete(planned, name)
	}
	for _, name := range slices.Sorted(maps.Keys(planned)) {
		v.fail("claim %s/%s is in the plan but not in the pod", pod.Namespace, name)
	}
}

// bound checks a claim that has its volume.
func (v *verifier) bound(claim *v1.PersistentVolumeClaim, planned int) {
	if planned > 0 {
		v.fail("claim %s/%s has a volume and is in the plan", claim.Namespace, claim.Name)
	}
	volume := v.facts.Volume(claim.Spec.VolumeName)
	if volume == nil {
		v.fail("volume %s of claim %s/%s does not exist", claim.Spec.VolumeName, claim.Namespace, claim.Name)
		return
	}
	v.reach(volume.PV())
}

// reach checks that a kubelet on the node would mount the volume, which it takes
// for a CSI volume if the in-tree plugin is migrated there.
func (v *verifier) reach(pv *v1.PersistentVolume) {
	translator := csitranslation.New()
	if plugin, err := translator.GetInTreePluginNameFromSpec(pv, nil); err == nil && v.migrated(plugin) {
		translated, err := translator.TranslateInTreePVToCSI(logr.Discard(), pv)
		if err != nil {
			v.fail("volume %s cannot be used on node %s: %w", pv.Name, v.node.Name, err)
			return
		}
		pv = translated
	}
	if affinity := pv.Spec.NodeAffinity; affinity != nil && affinity.Required != nil {
		for _, term := range affinity.Required.NodeSelectorTerms {
			if len(term.MatchFields) > 0 {
				v.fail("volume %s is tied to fields of nodes", pv.Name)
			}
		}
	}
	if err := storagehelpers.CheckNodeAffinity(pv, v.node.Labels); err != nil {
		v.fail("volume %s cannot be reached from node %s: %w", pv.Name, v.node.Name, err)
	}
}

func (v *verifier) migrated(plugin string) bool {
	node := v.facts.CSINode(v.node.Name)
	return node != nil && slices.Contains(strings.Split(node.Annotations[v1.MigratedPluginsAnnotationKey], ","), plugin)
}

// binding checks that the volume satisfies its claim.
func (v *verifier) binding(b Binding) {
	claim, pv := b.Claim, b.Volume
	pair := fmt.Sprintf("claim %s/%s, volume %s", claim.Namespace, claim.Name, pv.Name)
	if known := v.facts.Volume(pv.Name); known == nil || known.PV() != pv {
		v.fail("%s: not the volume of that name", pair)
	}
	v.reach(pv)
	own := storagehelpers.IsVolumeBoundToClaim(pv, claim)
	if pv.Spec.ClaimRef != nil && !own {
		v.fail("%s: kept for another claim", pair)
	}
	for _, text := range mismatches(claim, pv) {
		v.fail("%s: %s", pair, text)
	}
	if own {
		return
	}
	v.unreserved(claim, pair)
	if pv.Status.Phase != v1.VolumeAvailable {
		v.fail("%s: in phase %s", pair, pv.Status.Phase)
	}
	if claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil {
		v.fail("%s: without the content of the data source", pair)
	}
	if claim.Spec.Selector != nil && !v.selects(claim.Spec.Selector, pv.Labels) {
		v.fail("%s: not selected", pair)
	}
	if _, ok := claim.Annotations[storagehelpers.AnnSelectedNode]; ok {
		v.fail("%s: the claim is being provisioned", pair)
	}
}

// mismatches are the rules that the pair breaks even if the volume is kept for
// the claim.
func mismatches(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) []string {
	var broken []string
	if pv.DeletionTimestamp != nil {
		broken = append(broken, "being deleted")
	}
	if storagehelpers.GetPersistentVolumeClass(pv) != storagehelpers.GetPersistentVolumeClaimClass(claim) {
		broken = append(broken, "of another class")
	}
	if !storagehelpers.CheckAccessModes(claim, pv) {
		broken = append(broken, "without an access mode")
	}
	if storagehelpers.CheckVolumeModeMismatches(&claim.Spec, &pv.Spec) {
		broken = append(broken, "of another volume mode")
	}
	var asked, given string
	if name := claim.Spec.VolumeAttributesClassName; name != nil {
		asked = *name
	}
	if name := pv.Spec.VolumeAttributesClassName; name != nil {
		given = *name
	}
	if asked != given {
		broken = append(broken, "of another VolumeAttributesClass")
	}
	if size := pv.Spec.Capacity[v1.ResourceStorage]; size.Cmp(storageRequest(claim)) < 0 {
		broken = append(broken, "too small")
	}
	return broken
}

// unreserved checks that no volume is kept for the claim: it would be bound to
// that one, whatever the plan says.
func (v *verifier) unreserved(claim *v1.PersistentVolumeClaim, what string) {
	for _, other := range v.facts.Volumes(storagehelpers.GetPersistentVolumeClaimClass(claim)) {
		pv := other.PV()
		if storagehelpers.IsVolumeBoundToClaim(pv, claim) && len(mismatches(claim, pv)) == 0 {
			v.fail("%s: volume %s is kept for the claim", what, pv.Name)
		}
	}
}

// provision checks that a volume may be made for the claim on the node.
func (v *verifier) provision(d Provision) {
	what := fmt.Sprintf("provisioning claim %s/%s", d.Claim.Namespace, d.Claim.Name)
	if d.Node != v.node.Name {
		v.fail("%s: for node %s instead of %s", what, d.Node, v.node.Name)
	}
	v.unreserved(d.Claim, what)
	class := v.facts.Class(storagehelpers.GetPersistentVolumeClaimClass(d.Claim))
	if class == nil {
		v.fail("%s: the class does not exist", what)
		return
	}
	if class.Provisioner == "" || class.Provisioner == storagehelpers.NotSupportedProvisioner {
		v.fail("%s: class %s does not provision", what, class.Name)
	}
	if !slices.ContainsFunc(class.AllowedTopologies, v.inTopology) && len(class.AllowedTopologies) > 0 {
		v.fail("%s: class %s does not provision for the labels of node %s", what, class.Name, v.node.Name)
	}
	pinned, isPinned := d.Claim.Annotations[storagehelpers.AnnSelectedNode]
	if isPinned && pinned != v.node.Name {
		v.fail("%s: pinned to node %s", what, pinned)
	}
	if isPinned {
		return
	}
	if d.Claim.Spec.Selector != nil {
		v.fail("%s: the claim has a selector", what)
	}
	v.capacity(d, class, what)
}

func (v *verifier) inTopology(term v1.TopologySelectorTerm) bool {
	for _, expression := range term.MatchLabelExpressions {
		if value, ok := v.node.Labels[expression.Key]; !ok || !slices.Contains(expression.Values, value) {
			return false
		}
	}
	return len(term.MatchLabelExpressions) > 0
}

// capacity checks the claim against the object that it draws from.
func (v *verifier) capacity(d Provision, class *storagev1.StorageClass, what string) {
	wanted := storageRequest(d.Claim)
	driver := v.facts.Driver(class.Provisioner)
	reported := driver != nil && driver.Spec.StorageCapacity != nil && *driver.Spec.StorageCapacity
	if d.Capacity == nil {
		if reported && !wanted.IsZero() {
			v.fail("%s: draws from no capacity", what)
		}
		return
	}
	if d.Capacity.StorageClassName != class.Name || d.Capacity.NodeTopology == nil || !v.selects(d.Capacity.NodeTopology, v.node.Labels) {
		v.fail("%s: draws from capacity %s, which is not of the class and node", what, d.Capacity.Name)
	}
	total, largest := d.Capacity.Capacity, d.Capacity.MaximumVolumeSize
	if total == nil && largest == nil {
		v.fail("%s: capacity %s is unknown", what, d.Capacity.Name)
	}
	if largest != nil && largest.Cmp(wanted) < 0 {
		v.fail("%s: larger than the maximum of capacity %s", what, d.Capacity.Name)
	}
	if total == nil || v.options.Capacity == CheckEach && largest != nil {
		return
	}
	drawn := &resource.Quantity{}
	if v.options.Capacity == CheckSum {
		drawn = v.drawnFrom(d.Capacity)
	}
	drawn.Add(wanted)
	if drawn.Cmp(*total) > 0 {
		v.fail("%s: overdraws capacity %s", what, d.Capacity.Name)
	}
}

// drawnFrom returns the sum of what other claims and those before draw from the
// capacity, to be added to.
func (v *verifier) drawnFrom(capacity *storagev1.CSIStorageCapacity) *resource.Quantity {
	if v.drawn[capacity] != nil {
		return v.drawn[capacity]
	}
	sum := &resource.Quantity{}
	for _, c := range v.facts.Capacities(capacity.StorageClassName) {
		if c.Object() != capacity {
			continue
		}
		for _, other := range v.facts.Drawn(c) {
			own := v.own[key{other.Claim.Namespace, other.Claim.Name}]
			if own == nil || own.UID != other.UID || own.Annotations[storagehelpers.AnnSelectedNode] != "" {
				sum.Add(other.Size)
			}
		}
	}
	v.drawn[capacity] = sum
	return sum
}

// selects says whether the selector matches, and fails if it is no selector.
func (v *verifier) selects(selector *metav1.LabelSelector, set map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		v.fail("label selector: %w", err)
		return false
	}
	return parsed.Matches(labels.Set(set))
}
