// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/tests/lab"
)

// Two hundred pods want one of a hundred devices each, all at once: a hundred
// run, no device is in two claims, the others know why they wait, and what ends
// makes room for exactly as many.
func TestTwoHundredPodsForAHundredDevices(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "testdata/hundred-devices.yaml"})
	client := cluster.Client
	create(ctx, t, client, newTemplate("one-gpu", gpus(1)))

	pods := make([]*v1.Pod, 200)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("worker-%03d", i), fromTemplate("one-gpu"))
	}
	createAtOnce(ctx, t, client, pods)

	eventually(ctx, t, "100 pods run and 100 wait", running(client, 100, 100))
	eventually(ctx, t, "every waiting pod knows why", waitingBecause(client, "not enough free devices"))
	checkInvariants(ctx, t, client)

	ended := 0
	for _, pod := range listPods(ctx, t, client) {
		if pod.Status.Phase == v1.PodRunning && ended < 30 {
			deletePod(ctx, t, client, pod.Name)
			ended++
		}
	}
	eventually(ctx, t, "30 others took their devices", running(client, 100, 70))
	checkInvariants(ctx, t, client)
}

// Fifty pods share a claim that is created after them: none is left waiting
// for a periodic flush, all run on the node of the claim's devices.
func TestFiftyPodsShareOneClaim(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "gpus", Nodes: 3})
	client := cluster.Client

	pods := make([]*v1.Pod, 50)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("sharer-%02d", i), sharing("shared"))
	}
	createAtOnce(ctx, t, client, pods)
	create(ctx, t, client, newClaim("shared", gpus(2)))

	eventually(ctx, t, "all fifty pods run", running(client, 50, 0))
	checkInvariants(ctx, t, client)
	claim, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, "shared", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(claim.Status.ReservedFor); got != 50 {
		t.Errorf("the claim is reserved for %d pods, want 50", got)
	}
	nodes := map[string]bool{}
	for _, pod := range listPods(ctx, t, client) {
		nodes[pod.Spec.NodeName] = true
	}
	if len(nodes) != 1 {
		t.Errorf("pods that share a claim run on %d nodes, want 1", len(nodes))
	}
}

// A pod whose devices are on one node and whose volume is reachable from
// another goes nowhere; one whose claims meet on a node goes there.
func TestDevicesAndVolumesOfOnePod(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "testdata/gpu-here-disk-there.yaml"})
	client := cluster.Client
	create(ctx, t, client, newTemplate("one-gpu", gpus(1)), newTemplate("two-gpus", gpus(2)),
		newVolumeClaim("disk", "local", "50Gi"), newVolumeClaim("other-disk", "local", "50Gi"))

	// Node both has one GPU and a disk, node gpus two GPUs and no disk.
	create(ctx, t, client, newPod("meets", fromTemplate("one-gpu"), mounting("disk")))
	eventually(ctx, t, "the pod whose claims meet runs", podRuns(client, "meets"))
	create(ctx, t, client, newPod("never-meets", fromTemplate("two-gpus"), mounting("other-disk")))
	eventually(ctx, t, "the other knows both reasons", waitingBecause(client, "no device of the DeviceClass", "no PersistentVolume fits the claim"))
	if node := getPod(ctx, t, client, "meets").Spec.NodeName; node != "both-1" {
		t.Errorf("pod meets runs on %s, want both-1", node)
	}
	checkInvariants(ctx, t, client)
}

// Claims of dynamically provisioned storage are provisioned where the pod goes,
// as long as the driver reports enough capacity.
func TestProvisioningFollowsCapacity(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "testdata/small-zones.yaml"})
	client := cluster.Client
	// Three zones of 100Gi: one claim of 80Gi fits each, a fourth nowhere.
	for i := range 4 {
		name := fmt.Sprintf("data-%d", i)
		create(ctx, t, client, newVolumeClaim(name, "zonal", "80Gi"))
		create(ctx, t, client, newPod(fmt.Sprintf("db-%d", i), mounting(name)))
		want := min(i+1, 3)
		eventually(ctx, t, fmt.Sprintf("%d pods run", want), running(client, want, i+1-want))
		// The driver reports what is left before the next one asks.
		eventually(ctx, t, "the driver has reported", reportedCapacities(client, want, "20Gi"))
	}
	eventually(ctx, t, "the fourth knows why", waitingBecause(client, "not enough free storage"))
	checkInvariants(ctx, t, client)
}

// A profile of ours and one with the in-tree plugins in the same process never
// give one device to two claims.
func TestInTreeProfileBesideOurs(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "gpus", Nodes: 3, Scheduler: lab.None})
	client := cluster.Client
	cluster.StartScheduler(t, "--config="+configWithKubeconfig(t, "testdata/two-profiles.yaml", cluster.Kubeconfigs["berth-scheduler"]))
	create(ctx, t, client, newTemplate("one-gpu", gpus(1)))
	pods := make([]*v1.Pod, 40)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("worker-%02d", i), fromTemplate("one-gpu"))
		if i%2 == 1 {
			pods[i].Spec.SchedulerName = "in-tree"
		}
	}
	createAtOnce(ctx, t, client, pods)
	eventually(ctx, t, "24 pods run and 16 wait", running(client, 24, 16))
	checkInvariants(ctx, t, client)
}

// The in-tree plugins place the same pods in the same lab, for comparison.
func TestUpstreamSchedulerInTheLab(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "gpus", Scheduler: lab.Upstream})
	client := cluster.Client
	create(ctx, t, client, newTemplate("one-gpu", gpus(1)), newPod("one", fromTemplate("one-gpu")))
	eventually(ctx, t, "the pod runs", podRuns(client, "one"))
	checkInvariants(ctx, t, client)
}

// waitingBecause says whether every pending pod was told all of these reasons.
func waitingBecause(client kubernetes.Interface, reasons ...string) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		waiting := 0
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.Spec.NodeName != "" {
				continue
			}
			waiting++
			for _, reason := range reasons {
				if !strings.Contains(unschedulable(pod), reason) {
					return false, fmt.Sprintf("pod %s: %q", pod.Name, unschedulable(pod))
				}
			}
		}
		return waiting > 0, fmt.Sprintf("%d pods wait", waiting)
	}
}

// reportedCapacities says whether n of the CSIStorageCapacity objects of class
// zonal report exactly this much.
func reportedCapacities(client kubernetes.Interface, n int, want string) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		capacities, err := client.StorageV1().CSIStorageCapacities("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		got := 0
		for _, capacity := range capacities.Items {
			if capacity.StorageClassName == "zonal" && capacity.Capacity != nil && capacity.Capacity.String() == want {
				got++
			}
		}
		return got == n, fmt.Sprintf("%d of %d objects report %s", got, len(capacities.Items), want)
	}
}

// configWithKubeconfig returns a copy of a scheduler's configuration file with
// the kubeconfig in it, since a configuration file overrides the flag.
func configWithKubeconfig(t *testing.T, path, kubeconfig string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content = fmt.Appendf(content, "clientConnection: {kubeconfig: %q, qps: 2000, burst: 4000}\n", kubeconfig)
	path = filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
