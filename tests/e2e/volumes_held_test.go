// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/tests/lab"
)

// The PersistentVolume controller is quick. So that something can happen while a
// pod waits for it, the API server is told to refuse what it would write.

// holdBinding lets nobody bind the claim until release is called.
func holdBinding(ctx context.Context, t *testing.T, client kubernetes.Interface, claim string) (release func()) {
	t.Helper()
	const name = "hold-binding"
	admission := client.AdmissionregistrationV1()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumeclaims"}},
				},
			}}},
			Validations: []admissionv1.Validation{{
				Expression: `object.metadata.name != "` + claim + `" || !has(object.spec.volumeName) || object.spec.volumeName == ""`,
				Message:    "held by the test",
			}},
		},
	}
	if _, err := admission.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create ValidatingAdmissionPolicy: %v", err)
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	if _, err := admission.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create ValidatingAdmissionPolicyBinding: %v", err)
	}
	held := func(ctx context.Context) bool {
		_, err := client.CoreV1().PersistentVolumeClaims(namespace).Patch(ctx, claim, types.MergePatchType, []byte(`{"spec":{"volumeName":"any"}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "held by the test")
	}
	eventually(ctx, t, "the claim cannot be bound", func(ctx context.Context) (bool, string) { return held(ctx), "it can be" })
	return func() {
		t.Helper()
		if err := admission.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete ValidatingAdmissionPolicyBinding: %v", err)
		}
		if err := admission.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete ValidatingAdmissionPolicy: %v", err)
		}
		eventually(ctx, t, "the claim can be bound", func(ctx context.Context) (bool, string) { return !held(ctx), "it is held" })
		// Otherwise the controller does not look again before its next full round.
		patchVolumeClaim(ctx, t, client, claim, `{"metadata":{"annotations":{"example.com/look":"again"}}}`)
	}
}

// Somebody takes the volume back before its claim is bound. The scheduler says so
// and begins again.
func volumeTakenBackWhileItsClaimWaits(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	create(ctx, t, client, newVolume("pv", "local", "1Gi", "node-1"), newVolumeClaim("data", "local", "1Gi"))
	release := holdBinding(ctx, t, client, "data")
	create(ctx, t, client, newPod("pod", mounting("data")))
	eventually(ctx, t, "the volume names its claim", volumeNamesAClaim(client, "pv"))
	if _, err := client.CoreV1().PersistentVolumes().Patch(ctx, "pv", types.MergePatchType, []byte(`{"spec":{"claimRef":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "the pod was told", podWasTold(client, "pod", "the volume was unbound from the claim"))
	eventually(ctx, t, "the volume names its claim again", volumeNamesAClaim(client, "pv"))
	release()
	eventually(ctx, t, "the pod runs", podRuns(client, "pod"))
}

// The volume is deleted before its claim is bound. Another one takes its place.
func volumeDeletedWhileItsClaimWaits(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	create(ctx, t, client, newVolume("pv-1", "local", "1Gi", "node-1"), newVolumeClaim("data", "local", "1Gi"))
	release := holdBinding(ctx, t, client, "data")
	create(ctx, t, client, newPod("pod", mounting("data")))
	eventually(ctx, t, "the volume names its claim", volumeNamesAClaim(client, "pv-1"))
	create(ctx, t, client, newVolume("pv-2", "local", "1Gi", "node-2"))
	destroyVolume(ctx, t, client, "pv-1")
	eventually(ctx, t, "the pod was told", podWasTold(client, "pod", "the volume was deleted or replaced"))
	eventually(ctx, t, "the other volume names the claim", volumeNamesAClaim(client, "pv-2"))
	release()
	eventually(ctx, t, "the pod runs", podRuns(client, "pod"))
	if got := getVolumeClaim(ctx, t, client, "data").Spec.VolumeName; got != "pv-2" {
		t.Errorf("the claim is bound to %s, want pv-2", got)
	}
}

// volumeNamesAClaim says whether the volume is held for a claim.
func volumeNamesAClaim(client kubernetes.Interface, name string) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		volume, err := client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID != "", string(volume.Status.Phase)
	}
}

// podWasTold says whether the scheduler ever gave this reason to the pod, in an
// event: the pod's condition has only the last one.
func podWasTold(client kubernetes.Interface, name, reason string) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Pod,reason=FailedScheduling,involvedObject.name=" + name,
		})
		if err != nil {
			return false, err.Error()
		}
		last := "nothing"
		for _, event := range events.Items {
			if last = event.Message; strings.Contains(last, reason) {
				return true, last
			}
		}
		return false, last
	}
}

// destroyVolume deletes the volume although it is in use.
func destroyVolume(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	volumes := client.CoreV1().PersistentVolumes()
	if err := volumes.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete volume %s: %v", name, err)
	}
	_, err := volumes.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !gone(err) {
		t.Fatalf("remove the finalizers of volume %s: %v", name, err)
	}
}

// Somebody edits volumes and claims between the scheduler's decision and its
// write: the edits stay, and the pod is placed all the same.
func TestVolumesEditedBeforeCommit(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "testdata/volumes.yaml", Scheduler: lab.None})
	client := cluster.Client
	var edits onceEach
	kubeconfig := proxyWrites(t, cluster, func(write request) {
		if !strings.HasPrefix(write.resource, "persistentvolume") || !edits.first(write.resource+"/"+write.name) {
			return
		}
		edit := []byte(`{"metadata":{"annotations":{"example.com/edit":"kept"}}}`)
		var err error
		if write.resource == "persistentvolumes" {
			_, err = client.CoreV1().PersistentVolumes().Patch(ctx, write.name, types.MergePatchType, edit, metav1.PatchOptions{})
		} else {
			_, err = client.CoreV1().PersistentVolumeClaims(namespace).Patch(ctx, write.name, types.MergePatchType, edit, metav1.PatchOptions{})
		}
		if err != nil {
			t.Errorf("edit %s %s: %v", write.resource, write.name, err)
		}
	})
	cluster.StartScheduler(t, "--kubeconfig="+kubeconfig)
	create(ctx, t, client, newVolume("pv", "local", "1Gi", "node-1"), newVolumeClaim("static", "local", "1Gi"), newVolumeClaim("made", "node", "1Gi"),
		newPod("pod", mounting("static"), mounting("made")))
	eventually(ctx, t, "the pod runs", podRuns(client, "pod"))
	volume, err := client.CoreV1().PersistentVolumes().Get(ctx, "pv", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for what, annotations := range map[string]map[string]string{
		"volume": volume.Annotations, "claim": getVolumeClaim(ctx, t, client, "made").Annotations,
	} {
		if annotations["example.com/edit"] != "kept" {
			t.Errorf("the %s lost its edit; annotations: %v", what, annotations)
		}
	}
	if got := edits.count(); got != 2 {
		t.Errorf("made %d edits, want one before the write of the volume and one before that of the claim", got)
	}
	checkInvariants(ctx, t, client)
}
