// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// TestPublishedManifests places the pods of manifests that real drivers publish,
// one at a time, each on a cluster where the others are not.
func TestPublishedManifests(t *testing.T) {
	for _, c := range []struct {
		file string
		// pods are namespace/name and the answer on each node, in the order of the
		// file.
		pods map[string]string
	}{
		{"volumes.yaml", map[string]string{
			// TopoLVM: 1Gi fits everywhere; 15Gi is more than the largest volume of
			// vol-a-1, although 20Gi are free there; only vol-c-0 has the thin class.
			"topolvm/my-pod":           "vol-a-0 csisc-t0, vol-a-1 csisc-t1, vol-c-0 csisc-t2",
			"topolvm/my-pod-thin":      "vol-a-0 no, vol-a-1 no, vol-c-0 csisc-t3",
			"topolvm/my-pod-ephemeral": "vol-a-0 csisc-t0, vol-a-1 csisc-t1, vol-c-0 csisc-t2",
			"topolvm/pod-15gi":         "vol-a-0 no, vol-a-1 no, vol-c-0 csisc-t2",
			// Three replicas of 12Gi: one fits on vol-a-1, three on vol-c-0.
			"topolvm/topolvm-sts-0": "vol-a-0 no, vol-a-1 csisc-t1, vol-c-0 csisc-t2",
			// Local volumes of 5Gi, 10Gi and 100Gi, one on each node.
			"local/local-pod":    "vol-a-0 example-local-pv-0, vol-a-1 example-local-pv-1, vol-c-0 example-local-pv-2",
			"local/local-pod-50": "vol-a-0 no, vol-a-1 no, vol-c-0 example-local-pv-2",
			// Bound by the PersistentVolume controller to a volume in zone c.
			"ebs-static/app":    "vol-a-0 no, vol-a-1 no, vol-c-0 ok",
			"ebs-ephemeral/app": "vol-a-0 provision, vol-a-1 provision, vol-c-0 provision",
			// The class allows zone c only.
			"ebs-dynamic/app": "vol-a-0 no, vol-a-1 no, vol-c-0 provision",
			// The class allows vol-a-0 and vol-a-1, and reports for vol-a-0 (with all
			// the labels of a node as topology) and for vol-c-0.
			"openebs/fio": "vol-a-0 csisc-ps5x6, vol-a-1 no, vol-c-0 no",
		}},
		{"gpu-and-volumes.yaml", map[string]string{
			// The dataset is in zone a, so the shareable GPU of zone c does not help.
			"ai/training-0": "ai-a-0 csisc-ai0, ai-c-0 no",
			"ai/training-1": "ai-a-0 csisc-ai0, ai-c-0 no",
		}},
	} {
		t.Run(c.file, func(t *testing.T) {
			m := readManifests(t, "../../shared/data/real/"+c.file)
			for _, pod := range m.pods {
				name := pod.Namespace + "/" + pod.Name
				if got, want := m.place(t, pod), c.pods[name]; got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
				delete(c.pods, name)
			}
			for name := range c.pods {
				t.Errorf("%s is not in the file", name)
			}
		})
	}
}

// manifests are a file, with what controllers make of it.
type manifests struct {
	objects []runtime.Object
	nodes   []*v1.Node
	pods    []*v1.Pod
}

func readManifests(t *testing.T, path string) *manifests {
	t.Helper()
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not here", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &manifests{}
	for _, document := range bytes.Split(data, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		decode := func(into any) {
			if err := yaml.Unmarshal(document, into); err != nil {
				t.Fatalf("%s: %v", kind.Kind, err)
			}
		}
		switch kind.Kind {
		case "Node":
			node := &v1.Node{}
			decode(node)
			m.nodes = append(m.nodes, node)
			m.objects = append(m.objects, node)
		case "Pod":
			pod := &v1.Pod{}
			decode(pod)
			m.addPod(pod)
		case "Deployment":
			var d appsv1.Deployment
			decode(&d)
			m.addPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}, Spec: d.Spec.Template.Spec})
		case "StatefulSet":
			var s appsv1.StatefulSet
			decode(&s)
			m.addReplica(&s)
		case "PersistentVolumeClaim":
			claim := &v1.PersistentVolumeClaim{}
			decode(claim)
			m.addClaim(claim)
		case "PersistentVolume":
			pv := &v1.PersistentVolume{}
			decode(pv)
			pv.Status.Phase = v1.VolumeAvailable
			m.objects = append(m.objects, pv)
		case "StorageClass":
			m.add(decode, &storagev1.StorageClass{})
		case "CSIDriver":
			m.add(decode, &storagev1.CSIDriver{})
		case "CSIStorageCapacity":
			m.add(decode, &storagev1.CSIStorageCapacity{})
		}
	}
	return m
}

func (m *manifests) add(decode func(any), obj runtime.Object) {
	decode(obj)
	m.objects = append(m.objects, obj)
}

// addClaim adds a claim; one that names its volume has been bound to it.
func (m *manifests) addClaim(claim *v1.PersistentVolumeClaim) {
	if claim.Spec.VolumeName != "" {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, storagehelpers.AnnBindCompleted, "yes")
	}
	m.objects = append(m.objects, claim)
}

// addPod adds a pod and the claims of its ephemeral volumes.
func (m *manifests) addPod(pod *v1.Pod) {
	m.pods = append(m.pods, pod)
	for i := range pod.Spec.Volumes {
		if entry := &pod.Spec.Volumes[i]; entry.Ephemeral != nil {
			m.addClaim(&v1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: pod.Namespace, Name: ephemeral.VolumeClaimName(pod, entry),
					OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}},
				},
				Spec: entry.Ephemeral.VolumeClaimTemplate.Spec,
			})
		}
	}
}

// addReplica adds the first pod of a StatefulSet and its claims.
func (m *manifests) addReplica(s *appsv1.StatefulSet) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-0"}, Spec: s.Spec.Template.Spec}
	for _, template := range s.Spec.VolumeClaimTemplates {
		claim := template.DeepCopy()
		claim.Namespace, claim.Name = s.Namespace, template.Name+"-"+pod.Name
		m.addClaim(claim)
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: template.Name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
	}
	m.addPod(pod)
}

// place says for each node what the pod's first open claim gets there.
func (m *manifests) place(t *testing.T, pod *v1.Pod) string {
	t.Helper()
	p, r := Compile(pod, NewFacts(m.objects...), Options{})
	if r != nil {
		return r.Error()
	}
	var answers []string
	for _, node := range m.nodes {
		plan, r := p.Solve(node)
		answer := "ok"
		switch {
		case r != nil:
			answer = "no"
		case len(plan.bindings) > 0:
			answer = plan.bindings[0].Volume.Name
		case len(plan.provisions) > 0 && plan.provisions[0].Capacity != nil:
			answer = plan.provisions[0].Capacity.Name
		case len(plan.provisions) > 0:
			answer = "provision"
		}
		if r == nil {
			if err := Verify(p, node, plan); err != nil {
				t.Errorf("pod %s on node %s: %v", pod.Name, node.Name, err)
			}
		}
		answers = append(answers, fmt.Sprintf("%s %s", node.Name, answer))
	}
	return strings.Join(answers, ", ")
}
