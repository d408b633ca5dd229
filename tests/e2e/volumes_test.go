// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/tests/lab"
)

// TestVolumes has one life after the other in one lab. The PersistentVolume
// controller and the provisioner library in it are the real ones.
func TestVolumes(t *testing.T) {
	cluster := lab.Start(t, lab.Options{Profile: "testdata/volumes.yaml", Scheduler: lab.None})
	cluster.StartScheduler(t, "--config="+configWithKubeconfig(t, "testdata/two-capacity-checks.yaml", cluster.Kubeconfigs["berth-scheduler"]))
	for _, life := range []struct {
		name string
		run  func(context.Context, *testing.T, kubernetes.Interface)
	}{
		{"claims of one pod share a pool", claimsOfOnePodShareAPool},
		{"pods placed before the driver reports", podsPlacedBeforeTheDriverReports},
		{"assignment that a greedy choice misses", assignmentThatAGreedyChoiceMisses},
		{"selected node that does not exist", selectedNodeThatDoesNotExist},
		{"claim recreated under its name", claimRecreatedUnderItsName},
		{"objects come after their pods", objectsComeAfterTheirPods},
		{"one claim twice in a pod", oneClaimTwiceInAPod},
		{"every reason is said", everyReasonIsSaid},
		{"ephemeral volumes", ephemeralVolumes},
		{"claims that cannot be used", claimsThatCannotBeUsed},
		{"classes that are missing", classesThatAreMissing},
		{"allowed topologies", allowedTopologies},
		{"provisioner that refuses a node", provisionerThatRefusesANode},
		{"driver that has run out unseen", driverThatHasRunOutUnseen},
		{"slow provisioner and shared claim", slowProvisionerAndSharedClaim},
		{"node deleted while its volume is made", nodeDeletedWhileItsVolumeIsMade},
		{"capacity that is no longer checked", capacityThatIsNoLongerChecked},
		{"volume taken back while its claim waits", volumeTakenBackWhileItsClaimWaits},
		{"volume deleted while its claim waits", volumeDeletedWhileItsClaimWaits},
		{"in-tree volume of a migrated plugin", inTreeVolumeOfAMigratedPlugin},
		{"volume attributes classes", volumeAttributesClasses},
		{"host name label is not the node's name", hostNameLabelIsNotTheNodesName},
	} {
		ok := t.Run(life.name, func(t *testing.T) {
			life.run(t.Context(), t, cluster.Client)
			checkInvariants(t.Context(), t, cluster.Client)
			clearVolumes(t.Context(), t, cluster.Client)
		})
		if !ok {
			break // what it left behind would be in the way of the others
		}
	}
}

func claimsOfOnePodShareAPool(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	create(ctx, t, client, newVolumeClaim("large-1", "node", "100Gi"), newVolumeClaim("large-2", "node", "100Gi"),
		newPod("too-large", mounting("large-1"), mounting("large-2")))
	eventually(ctx, t, "100Gi cannot be had twice", podWaits(client, "too-large", "not enough free storage"))
	create(ctx, t, client, newVolumeClaim("half-1", "node", "50Gi"), newVolumeClaim("half-2", "node", "50Gi"),
		newPod("fits", mounting("half-1"), mounting("half-2")))
	eventually(ctx, t, "twice 50Gi can", podRuns(client, "fits"))

	// Claims that are bound do not count, although nothing is left on their node.
	node := getPod(ctx, t, client, "fits").Spec.NodeName
	create(ctx, t, client, newPod("again", mounting("half-1"), mounting("half-2"), onNode(node)))
	eventually(ctx, t, "bound claims need no capacity", podRuns(client, "again"))
}

// The driver of class late has 10Gi on each node and reports an hour late.
func podsPlacedBeforeTheDriverReports(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	var pods []*v1.Pod
	for i := range 5 {
		name := fmt.Sprintf("data-%d", i)
		create(ctx, t, client, newVolumeClaim(name, "late", "3Gi"))
		pods = append(pods, newPod(fmt.Sprintf("pod-%d", i), mounting(name), onNode("node-1")))
	}
	createAtOnce(ctx, t, client, pods)
	eventually(ctx, t, "three pods run and two wait", running(client, 3, 2))
	eventually(ctx, t, "the others know why", waitingBecause(client, "not enough free storage"))
}

func assignmentThatAGreedyChoiceMisses(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	labelled := newVolume("pv-1", "local", "2Gi", "node-1")
	labelled.Labels = map[string]string{"x": "1"}
	picky := newVolumeClaim("b", "local", "2Gi")
	picky.Spec.Selector = &metav1.LabelSelector{MatchLabels: labelled.Labels}
	create(ctx, t, client, labelled, newVolume("pv-2", "local", "5Gi", "node-1"), newVolumeClaim("a", "local", "1Gi"), picky,
		newPod("pod", mounting("a"), mounting("b")))
	eventually(ctx, t, "the pod runs", podRuns(client, "pod"))
	for claim, want := range map[string]string{"a": "pv-2", "b": "pv-1"} {
		if got := getVolumeClaim(ctx, t, client, claim).Spec.VolumeName; got != want {
			t.Errorf("claim %s is bound to %s, want %s", claim, got, want)
		}
	}
}

func selectedNodeThatDoesNotExist(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	claim := newVolumeClaim("pinned", "silent", "1Gi")
	claim.Annotations = map[string]string{selectedNode: "node-x"}
	create(ctx, t, client, claim, newPod("pod", mounting("pinned")))
	eventually(ctx, t, "the pod knows what it waits for", podWaits(client, "pod", "pinned to a node that does not exist"))
	if got := getVolumeClaim(ctx, t, client, "pinned").Annotations[selectedNode]; got != "node-x" {
		t.Errorf("the selected node was overridden with %q", got)
	}
	patchVolumeClaim(ctx, t, client, "pinned", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, selectedNode))
	eventually(ctx, t, "another node is selected", claimNamesNode(client, "pinned", ""))
}

// A pod waits for a provisioner that never answers. Its claim is replaced by one
// of the same name, which inherits nothing.
func claimRecreatedUnderItsName(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	create(ctx, t, client, newVolumeClaim("data", "silent", "1Gi"), newPod("pod", mounting("data"), onNode("node-2")))
	eventually(ctx, t, "a node is selected", claimNamesNode(client, "data", "node-2"))
	deleteVolumeClaim(ctx, t, client, "data")
	eventually(ctx, t, "the claim is gone", noVolumeClaims(client))
	create(ctx, t, client, newVolumeClaim("data", "node", "1Gi"))
	eventually(ctx, t, "the pod runs with the new claim", podRuns(client, "pod"))
}

func hostNameLabelIsNotTheNodesName(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	node := newNode(ctx, t, client, "n1")
	node.Labels[v1.LabelHostname] = "n1.example.com"
	byName := newVolume("by-name", "local", "1Gi", "unused")
	byName.Spec.NodeAffinity.Required.NodeSelectorTerms = []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{"n1"}}},
	}}
	kept := newVolumeClaim("kept", "local", "1Gi")
	byName.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "kept"}
	create(ctx, t, client, node, byName, kept, newPod("lost", mounting("kept")))
	eventually(ctx, t, "a field finds no node", podWaits(client, "lost", "has a node affinity that cannot be followed"))
	create(ctx, t, client, newVolume("disk", "local", "10Gi", "n1.example.com"), newVolumeClaim("data", "local", "10Gi"), newPod("pod", mounting("data")))
	eventually(ctx, t, "the label finds the node", podRuns(client, "pod"))
	if got := getPod(ctx, t, client, "pod").Spec.NodeName; got != "n1" {
		t.Errorf("the pod runs on %s, want n1", got)
	}

	// The label is changed under a volume that is bound.
	labelNode(ctx, t, client, "n1", v1.LabelHostname, "renamed")
	create(ctx, t, client, newPod("canary", onNode("renamed")))
	eventually(ctx, t, "the scheduler has seen it", podRuns(client, "canary"))
	create(ctx, t, client, newPod("next", mounting("data")))
	eventually(ctx, t, "nobody reaches the volume now", podWaits(client, "next", "PersistentVolume cannot be reached from the node"))
	labelNode(ctx, t, client, "n1", v1.LabelHostname, "n1.example.com")
	eventually(ctx, t, "the label is back", podRuns(client, "next"))
	deleteNode(ctx, t, client, "n1")
}

// The event that wakes a pod is visible to its next attempt, whichever object
// comes last: a pod that was woken too early would wait for the next flush of the
// queue, longer than this test does.
func objectsComeAfterTheirPods(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	const n = 15
	var pods []*v1.Pod
	for i := range n {
		pods = append(pods, newPod(fmt.Sprintf("pod-%02d", i), mounting(fmt.Sprintf("data-%02d", i))))
	}
	createAtOnce(ctx, t, client, pods)
	for i := range n {
		volume := newVolume(fmt.Sprintf("pv-%02d", i), "local", "1Gi", fmt.Sprintf("node-%d", i%3+1))
		claim := newVolumeClaim(fmt.Sprintf("data-%02d", i), "local", "1Gi")
		switch i % 3 {
		case 0:
			create(ctx, t, client, volume, claim)
		case 1:
			create(ctx, t, client, claim, volume)
		default:
			claim.Spec.StorageClassName = ptr.To("node-immediate")
			create(ctx, t, client, claim)
		}
	}
	eventually(ctx, t, "all pods run", allRun(client, n))
}

func oneClaimTwiceInAPod(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	create(ctx, t, client, newVolume("pv", "local", "1Gi", "node-1"), newVolumeClaim("static", "local", "1Gi"), newVolumeClaim("made", "node", "60Gi"),
		newPod("pod-1", mounting("static"), mounting("static")), newPod("pod-2", mounting("made"), mounting("made")))
	eventually(ctx, t, "both pods run", running(client, 2, 0))
}

func everyReasonIsSaid(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	create(ctx, t, client, newVolumeClaim("disk", "local", "1Gi"), newVolumeClaim("large", "node", "101Gi"),
		newPod("pod", mounting("disk"), mounting("large")))
	eventually(ctx, t, "the pod knows both reasons", podWaits(client, "pod", "no PersistentVolume fits the claim", "not enough free storage"))
}

func ephemeralVolumes(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	create(ctx, t, client, newPod("good", withEphemeral("scratch", "node", "1Gi")))
	eventually(ctx, t, "the pod has its volume", podRuns(client, "good"))

	// Somebody else has the name.
	create(ctx, t, client, newVolumeClaim("late-scratch", "node", "1Gi"), newPod("late", withEphemeral("scratch", "node", "1Gi")))
	eventually(ctx, t, "the pod does not take it", podWaits(client, "late", "belongs to another pod"))
	deleteVolumeClaim(ctx, t, client, "late-scratch")
	eventually(ctx, t, "the pod has its own", podRuns(client, "late"))
}

func claimsThatCannotBeUsed(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	leaving := newVolumeClaim("leaving", "node", "1Gi")
	leaving.Finalizers = []string{"example.com/wait"}
	create(ctx, t, client, leaving, newVolume("pv", "local", "1Gi", "node-1"), newVolumeClaim("losing", "local", "1Gi"), newPod("user", mounting("losing")))
	eventually(ctx, t, "the volume is in use", podRuns(client, "user"))
	deleteVolumeClaim(ctx, t, client, "leaving")
	deletePod(ctx, t, client, "user")
	destroyVolume(ctx, t, client, "pv")
	create(ctx, t, client, newPod("pod-2", mounting("losing")))
	eventually(ctx, t, "one is lost", podWaits(client, "pod-2", "PersistentVolumeClaim has lost its volume"))
	// The scheduler has seen that, so it has seen what became of the other before.
	create(ctx, t, client, newPod("pod-1", mounting("leaving")), newPod("pod-3", mounting("missing")))
	eventually(ctx, t, "one is being deleted", podWaits(client, "pod-1", "PersistentVolumeClaim is being deleted"))
	// The in-tree VolumeRestrictions comes first, and says it in its own words.
	eventually(ctx, t, "one is missing", podWaits(client, "pod-3", "persistentvolumeclaim \"missing\" not found"))

	patchVolumeClaim(ctx, t, client, "leaving", `{"metadata":{"finalizers":null}}`)
	deleteVolumeClaim(ctx, t, client, "losing")
	eventually(ctx, t, "both are gone", noVolumeClaims(client))
	create(ctx, t, client, newVolumeClaim("leaving", "node", "1Gi"), newVolumeClaim("losing", "node", "1Gi"), newVolumeClaim("missing", "node", "1Gi"))
	eventually(ctx, t, "new claims wake all three", running(client, 3, 0))
}

func classesThatAreMissing(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	class := &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: "brief"},
		Provisioner:       "node.csi.berth.dev",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	create(ctx, t, client, newVolumeClaim("data", "brief", "1Gi"), newPod("first", mounting("data")))
	eventually(ctx, t, "the class is missed", podWaits(client, "first", "StorageClass not found"))
	create(ctx, t, client, class)
	eventually(ctx, t, "the class wakes the pod", podRuns(client, "first"))
	if err := client.StorageV1().StorageClasses().Delete(ctx, "brief", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	create(ctx, t, client, newPod("second", mounting("data")))
	eventually(ctx, t, "a bound claim needs no class", podRuns(client, "second"))
}

func allowedTopologies(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	create(ctx, t, client, newVolumeClaim("data", "zone-b-only", "1Gi"), newVolumeClaim("other", "zone-b-only", "1Gi"),
		newPod("goes", mounting("data")), newPod("stays", mounting("other"), onNode("node-1")))
	eventually(ctx, t, "the pod runs", podRuns(client, "goes"))
	if got := getPod(ctx, t, client, "goes").Spec.NodeName; got != "node-2" {
		t.Errorf("the pod runs on %s, want node-2 of zone-b", got)
	}
	eventually(ctx, t, "zone-a will not do", podWaits(client, "stays", "StorageClass does not provision in the node's topology"))
	// A zonal volume that is bound keeps its pod in the zone.
	create(ctx, t, client, newPod("bound", mounting("data"), onNode("node-1")))
	eventually(ctx, t, "the volume cannot leave", podWaits(client, "bound", "PersistentVolume cannot be reached from the node"))
}

// The provisioner removes the selected node from the claim. What was reserved is
// dropped, and the pod is placed elsewhere although it likes the node best. A pod
// that has no other node is not given up: the provisioner is asked again.
func provisionerThatRefusesANode(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	create(ctx, t, client, newVolumeClaim("data", "not-on-node-1", "1Gi"), newPod("pod", mounting("data"), preferringNode("node-1")))
	eventually(ctx, t, "the pod runs", podRuns(client, "pod"))
	if got := getPod(ctx, t, client, "pod").Spec.NodeName; got == "node-1" {
		t.Error("the pod runs on the node that was refused")
	}
	create(ctx, t, client, newVolumeClaim("refused", "not-on-node-1", "1Gi"), newPod("stays", mounting("refused"), onNode("node-1")))
	eventually(ctx, t, "the pod knows who refused", podWaits(client, "stays", "the provisioner refused the node"))
	eventually(ctx, t, "the provisioner was asked again", func(ctx context.Context) (bool, string) {
		refused := refusals(ctx, t, client, "refused")
		return refused > 2, fmt.Sprintf("refused %d times", refused)
	})
}

// refusals is how often the provisioner has said of the claim that it cannot.
func refusals(ctx context.Context, t *testing.T, client kubernetes.Interface, claim string) int32 {
	t.Helper()
	events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=PersistentVolumeClaim,reason=ProvisioningFailed,involvedObject.name=" + claim,
	})
	if err != nil {
		t.Fatalf("list events of claim %s: %v", claim, err)
	}
	var refused int32
	for _, event := range events.Items {
		refused += event.Count
	}
	return refused
}

// The object says 10Gi, and nothing is left. A profile that does not sum up
// believes it and prefers this node. It is refused there, the driver reports what
// is true, and the pod goes elsewhere.
func driverThatHasRunOutUnseen(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	create(ctx, t, client, newVolumeClaim("taken", "late", "10Gi"), newPod("first", mounting("taken"), onNode("node-2")))
	eventually(ctx, t, "the first has all", podRuns(client, "first"))
	create(ctx, t, client, newVolumeClaim("data", "late", "8Gi"), newPod("second", mounting("data"), preferringNode("node-2"), byScheduler("each-claim-alone")))
	eventually(ctx, t, "the second runs", podRuns(client, "second"))
	if got := getPod(ctx, t, client, "second").Spec.NodeName; got == "node-2" {
		t.Error("the pod runs where nothing was left")
	}
	// It reports in an hour, or when it has to refuse.
	eventually(ctx, t, "the driver has refused and reported", func(ctx context.Context) (bool, string) {
		return reportsOn(ctx, client, "late", "node-2", "0")
	})
}

// Two pods share a claim that takes its time; a third needs nothing slow and does
// not wait for them.
func slowProvisionerAndSharedClaim(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	create(ctx, t, client, newVolumeClaim("shared", "slow", "1Gi"), newVolumeClaim("own", "node", "1Gi"),
		newPod("pod-1", mounting("shared")), newPod("pod-2", mounting("shared")), newPod("pod-3", mounting("own")))
	eventually(ctx, t, "all three run", running(client, 3, 0))
}

func nodeDeletedWhileItsVolumeIsMade(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	const label = "example.com/for-brief-pods"
	brief := newNode(ctx, t, client, "brief")
	brief.Labels[label] = "yes"
	pod := newPod("pod", mounting("data"))
	pod.Spec.NodeSelector = map[string]string{label: "yes"}
	create(ctx, t, client, brief, newVolumeClaim("data", "silent", "1Gi"), pod)
	eventually(ctx, t, "the node is selected", claimNamesNode(client, "data", "brief"))
	deleteNode(ctx, t, client, "brief")
	eventually(ctx, t, "the pod knows that it is gone", podWaits(client, "pod", "pinned to a node that does not exist"))
	labelNode(ctx, t, client, "node-3", label, "yes")
	patchVolumeClaim(ctx, t, client, "data", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, selectedNode))
	eventually(ctx, t, "another node is selected", claimNamesNode(client, "data", "node-3"))
}

func capacityThatIsNoLongerChecked(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	create(ctx, t, client, newVolumeClaim("data", "unreported", "1Gi"), newPod("pod", mounting("data")))
	eventually(ctx, t, "no capacity is reported", podWaits(client, "pod", "not enough free storage"))
	if _, err := client.StorageV1().CSIDrivers().Patch(ctx, "unreported.example.com", types.MergePatchType, []byte(`{"spec":{"storageCapacity":false}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "the driver's change wakes the pod", claimNamesNode(client, "data", ""))
}
