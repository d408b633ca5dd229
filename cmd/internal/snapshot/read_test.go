// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
)

func read(t *testing.T, text string) *Reading {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Read(genericclioptions.NewConfigFlags(false), resource.FilenameOptions{Filenames: []string{file}}, "ml")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const manifests = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: usual}
value: 7
globalDefault: true
preemptionPolicy: Never
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: ml, name: mine}
  csi: {driver: csi.example.com, volumeHandle: x}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: mine}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 10Gi}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec:
  metadata: {labels: {a: b}}
  spec:
    devices:
      requests: [{name: gpu, exactly: {deviceClassName: gpu}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, annotations: {kubectl.kubernetes.io/last-applied-configuration: x}}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
      - {name: main, image: none, env: [{name: PASSWORD, value: secret}], command: [secret], resources: {limits: {cpu: "2"}}}
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
      volumes:
      - {name: scratch, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 3
  completions: 2
  template:
    spec:
      priorityClassName: system-node-critical
      restartPolicy: Never
      containers: [{name: main, image: none}]
`

// Manifests come out as an API server and the controllers would have them.
func TestManifestsAreCompleted(t *testing.T) {
	r := read(t, manifests)
	if len(r.Problems) > 0 {
		t.Fatal(r.Problems)
	}
	s := r.Snapshot
	var pods []string
	for _, pod := range s.Pods {
		pods = append(pods, pod.Namespace+"/"+pod.Name)
	}
	if diff := cmp.Diff([]string{"ml/db-0", "ml/db-1", "ml/train-0", "ml/train-1"}, pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	db, train := s.Pod("ml", "db-1"), s.Pod("ml", "train-0")
	if *db.Spec.Priority != 7 || *db.Spec.PreemptionPolicy != v1.PreemptNever || db.Spec.SchedulerName != v1.DefaultSchedulerName {
		t.Errorf("db-1: priority %d, policy %v, scheduler %q", *db.Spec.Priority, *db.Spec.PreemptionPolicy, db.Spec.SchedulerName)
	}
	if cpu := db.Spec.Containers[0].Resources.Requests.Cpu(); cpu.Value() != 2 {
		t.Errorf("db-1 requests %v of cpu, want its limit", cpu)
	}
	if *train.Spec.Priority != 2000001000 {
		t.Errorf("train-0: priority %d, want that of its class", *train.Spec.Priority)
	}

	claim := s.ResourceClaim("ml", *db.Status.ResourceClaimStatuses[0].ResourceClaimName)
	if claim == nil || !metav1.IsControlledBy(claim, db) || claim.Labels["a"] != "b" || claim.Spec.Devices.Requests[0].Exactly.Count != 1 {
		t.Errorf("claim of db-1: %+v", claim)
	}
	for name, owned := range map[string]bool{"db-1-scratch": true, "data-db-1": false} {
		pvc := s.PersistentVolumeClaim("ml", name)
		if pvc == nil || *pvc.Spec.StorageClassName != "fast" || pvc.Status.Phase != v1.ClaimPending || metav1.IsControlledBy(pvc, db) != owned {
			t.Errorf("%s: %+v", name, pvc)
		}
	}
	mine, disk := s.PersistentVolumeClaim("ml", "mine"), s.PersistentVolume("disk")
	if mine.Spec.VolumeName != "disk" || mine.Status.Phase != v1.ClaimBound || disk.Spec.ClaimRef.UID != mine.UID || disk.Status.Phase != v1.VolumeBound {
		t.Errorf("bound claim %+v, volume %+v", mine, disk)
	}
	for _, object := range s.Objects() {
		if object.(metav1.Object).GetUID() == "" {
			t.Errorf("%s %s has no UID", kindOf(object), object.(metav1.Object).GetName())
		}
	}
}

// What an API server has seen is left as it is: its controllers may be late.
func TestRecordedObjectsAreLeftAlone(t *testing.T) {
	r := read(t, `
apiVersion: v1
kind: Pod
metadata: {name: pod, uid: seen}
spec:
  containers: [{name: main, image: none}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec:
  spec:
    devices:
      requests: [{name: gpu, exactly: {deviceClassName: gpu}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, uid: seen}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: none}]}
`)
	if s := r.Snapshot; len(s.Pods) != 1 || len(s.ResourceClaims) != 0 || s.Pods[0].Spec.Priority != nil {
		t.Errorf("%d pods, %d claims, priority %v", len(s.Pods), len(s.ResourceClaims), s.Pods[0].Spec.Priority)
	}
}

// A snapshot that is written and read is the same one, without what is private.
func TestWrittenSnapshotsAreReadAgain(t *testing.T) {
	want := read(t, manifests).Snapshot
	var first, second bytes.Buffer
	if err := want.Write(&first); err != nil {
		t.Fatal(err)
	}
	got := read(t, first.String())
	if len(got.Problems) > 0 {
		t.Fatal(got.Problems)
	}
	if len(got.Snapshot.Objects()) != len(want.Objects()) {
		t.Errorf("%d objects, want %d", len(got.Snapshot.Objects()), len(want.Objects()))
	}
	if err := got.Snapshot.Write(&second); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.String(), second.String()); diff != "" {
		t.Errorf("written again (-first +second):\n%s", diff)
	}
	for _, private := range []string{"secret", "last-applied"} {
		if strings.Contains(first.String(), private) {
			t.Errorf("the snapshot has %q in it", private)
		}
	}
}
