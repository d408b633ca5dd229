// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/tests/lab"
)

func TestManyVolumes(t *testing.T) {
	cluster := lab.Start(t, lab.Options{Profile: "testdata/many-volumes.yaml", Scheduler: lab.None})
	cluster.StartScheduler(t, "--config="+configWithKubeconfig(t, "testdata/quick-settling.yaml", cluster.Kubeconfigs["berth-scheduler"]))
	t.Run("local volumes of a StatefulSet", func(t *testing.T) { localVolumesOfAStatefulSet(t.Context(), t, cluster.Client) })
	t.Run("claims on limited capacity", func(t *testing.T) { claimsOnLimitedCapacity(t.Context(), t, cluster.Client) })
}

// Thirty nodes have a local volume each, thirty replicas want one each and no
// neighbour: all run, each on its own node and volume. The thirty-first waits.
func localVolumesOfAStatefulSet(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	const replicas = 30
	set := newStatefulSet("db", replicas)
	create(ctx, t, client, set)
	eventually(ctx, t, "all replicas run", allRun(client, replicas))
	nodes := map[string]bool{}
	for _, pod := range listPods(ctx, t, client) {
		nodes[pod.Spec.NodeName] = true
	}
	if len(nodes) != replicas {
		t.Errorf("%d replicas run on %d nodes", replicas, len(nodes))
	}
	volumes, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, volume := range volumes.Items {
		if volume.Status.Phase != v1.VolumeBound {
			t.Errorf("volume %s is %s, want all bound", volume.Name, volume.Status.Phase)
		}
	}

	scale(ctx, t, client, "db", replicas+1)
	eventually(ctx, t, "one more waits for a volume", podWaits(client, fmt.Sprintf("db-%d", replicas), "no PersistentVolume fits the claim"))
	checkInvariants(ctx, t, client)
	scale(ctx, t, client, "db", 0)
	eventually(ctx, t, "all replicas are gone", allRun(client, 0))
}

// A hundred pods with claims of 3Gi and 2Gi on ten nodes of 42Gi: eight fit on
// each node, and not a byte more is promised. The rest is told why.
func claimsOnLimitedCapacity(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	const all, fit, perPool = 100, 80, 8
	createAtOnce(ctx, t, client, podsWithTwoClaims(ctx, t, client, "first", all))
	eventually(ctx, t, "eighty pods run and twenty wait", running(client, fit, all-fit))
	eventually(ctx, t, "the rest knows why", waitingBecause(client, "not enough free storage"))
	perNode := map[string]int{}
	for _, pod := range listPods(ctx, t, client) {
		if pod.Spec.NodeName != "" {
			perNode[pod.Spec.NodeName]++
		}
	}
	for node, n := range perNode {
		if n != perPool {
			t.Errorf("%d pods run on node %s, want %d", n, node, perPool)
		}
	}
	checkInvariants(ctx, t, client)

	// What is given back is taken again, by as many as fit. While some is given and
	// some taken, the driver's number may stay the same, so that only time can tell
	// that it shows the new volumes; pods are woken by that, too.
	for i := range poolsToClear() {
		pool := fmt.Sprintf("pool-%d", i+1)
		clearNode(ctx, t, client, pool)
		eventually(ctx, t, "eight others have taken their places on "+pool, running(client, fit, all-fit-perPool))
		checkInvariants(ctx, t, client)
		createAtOnce(ctx, t, client, podsWithTwoClaims(ctx, t, client, pool, perPool))
		eventually(ctx, t, "eight more wait", running(client, fit, all-fit))
	}
}

// poolsToClear is how many of the ten nodes are cleared, one after the other.
func poolsToClear() int {
	if os.Getenv("BERTH_LONG") != "" {
		return 10
	}
	return 1
}

// podsWithTwoClaims creates n pairs of claims, and returns pods for them.
func podsWithTwoClaims(ctx context.Context, t *testing.T, client kubernetes.Interface, prefix string, n int) []*v1.Pod {
	t.Helper()
	var pods []*v1.Pod
	for i := range n {
		name := fmt.Sprintf("%s-%02d", prefix, i)
		create(ctx, t, client, newVolumeClaim(name+"-data", "node", "3Gi"), newVolumeClaim(name+"-log", "node", "2Gi"))
		pod := newPod(name, mounting(name+"-data"), mounting(name+"-log"))
		pod.Spec.NodeSelector = map[string]string{"example.com/pool": "yes"}
		pods = append(pods, pod)
	}
	return pods
}

// clearNode deletes the pods of a node with their claims.
func clearNode(ctx context.Context, t *testing.T, client kubernetes.Interface, node string) {
	t.Helper()
	for _, pod := range listPods(ctx, t, client) {
		if pod.Spec.NodeName != node {
			continue
		}
		deletePod(ctx, t, client, pod.Name)
		for _, volume := range pod.Spec.Volumes {
			if volume.PersistentVolumeClaim != nil {
				deleteVolumeClaim(ctx, t, client, volume.PersistentVolumeClaim.ClaimName)
			}
		}
	}
}

func newStatefulSet(name string, replicas int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	template := newPod("", mounting("data"))
	template.Labels = labels
	template.Spec.Volumes = nil // from the template of the claim
	template.Spec.Containers[0].VolumeMounts[0].Name = "data"
	template.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: labels}, TopologyKey: v1.LabelHostname,
	}}}}
	claim := newVolumeClaim("data", "local", "10Gi")
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas:             ptr.To(replicas),
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			Selector:             &metav1.LabelSelector{MatchLabels: labels},
			Template:             v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template.Spec},
			VolumeClaimTemplates: []v1.PersistentVolumeClaim{*claim},
		},
	}
}

func scale(ctx context.Context, t *testing.T, client kubernetes.Interface, name string, replicas int32) {
	t.Helper()
	sets := client.AppsV1().StatefulSets(namespace)
	scale, err := sets.GetScale(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get scale of StatefulSet %s: %v", name, err)
	}
	scale.Spec.Replicas = replicas
	if _, err := sets.UpdateScale(ctx, name, scale, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("scale StatefulSet %s: %v", name, err)
	}
}
