// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/tests/lab"
)

// storm is how much of everything there is. Each node has eight devices, and there
// are as many pods as devices.
type storm struct {
	nodes, more, deleted int
	// beside are the profiles that every second pod asks for.
	beside []besideOurs
}

// besideOurs is a second profile in the scheduler's configuration, and what it says
// of a node without a free device.
type besideOurs struct{ profile, config, reason string }

const noFreeDevice = "not enough free devices"

// theStorm is a small one, unless BERTH_LONG is set.
func theStorm() storm {
	s := storm{nodes: 10, more: 60, deleted: 20, beside: []besideOurs{{"second", "testdata/two-of-ours.yaml", noFreeDevice}}}
	if os.Getenv("BERTH_LONG") != "" {
		s.nodes, s.more, s.deleted = 200, 2000, 500
		s.beside = append(s.beside, besideOurs{"in-tree", "testdata/two-profiles.yaml", "cannot allocate all claims"})
	}
	return s
}

// Pods for all devices of a cluster come as fast as the API server takes them,
// while claims and slices that do not concern them come and go. Every pod is
// placed and no device is taken twice. More pods wait and know why, and those that
// are deleted make room for exactly as many.
func TestStorm(t *testing.T) {
	storm := theStorm()
	for _, second := range storm.beside {
		t.Run(second.profile, func(t *testing.T) {
			ctx := t.Context()
			cluster := lab.Start(t, lab.Options{Profile: "gpus", Nodes: storm.nodes, Scheduler: lab.None})
			client := cluster.Client
			cluster.StartScheduler(t, "--config="+configWithKubeconfig(t, second.config, cluster.Kubeconfigs["berth-scheduler"]))
			create(ctx, t, client, newTemplate("one-gpu", gpus(1)))

			stop := churn(ctx, t, client)
			placed := storm.nodes * 8
			createAtOnce(ctx, t, client, stormPods("first", placed, second.profile))
			eventually(ctx, t, "every pod runs", running(client, placed, 0))
			stop()
			checkInvariants(ctx, t, client)

			createAtOnce(ctx, t, client, stormPods("more", storm.more, second.profile))
			eventually(ctx, t, "all others know why they wait", allWaitBecause(client, map[string]string{
				v1.DefaultSchedulerName: noFreeDevice, second.profile: second.reason,
			}))
			for i := range storm.deleted {
				deletePod(ctx, t, client, fmt.Sprintf("first-%04d", i))
			}
			eventually(ctx, t, "others took the devices", running(client, placed, storm.more-storm.deleted))
			checkInvariants(ctx, t, client)
		})
	}
}

// allWaitBecause says whether every pending pod was told that all nodes have the
// reason which its profile gives.
func allWaitBecause(client kubernetes.Interface, reasons map[string]string) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			want := fmt.Sprintf("0/%d nodes are available: %[1]d %s.", len(nodes.Items), reasons[pod.Spec.SchedulerName])
			if pod.Spec.NodeName == "" && !strings.HasPrefix(unschedulable(pod), want) {
				return false, fmt.Sprintf("pod %s: %q, want %q", pod.Name, unschedulable(pod), want)
			}
		}
		return true, ""
	}
}

func stormPods(name string, count int, profile string) []*v1.Pod {
	pods := make([]*v1.Pod, count)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("%s-%04d", name, i), fromTemplate("one-gpu"))
		if i%2 == 1 {
			pods[i].Spec.SchedulerName = profile
		}
	}
	return pods
}

// churn lets claims and slices of another driver come and go until it is stopped.
func churn(ctx context.Context, t *testing.T, client kubernetes.Interface) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			claim := newClaim(fmt.Sprintf("churn-%d", i%10), gpus(1))
			slice := &resourceapi.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("churn-%d", i%10)},
				Spec: resourceapi.ResourceSliceSpec{
					Driver: "other.example.com", AllNodes: new(true),
					Pool:    resourceapi.ResourcePool{Name: "churn", Generation: int64(i + 1), ResourceSliceCount: 1},
					Devices: []resourceapi.Device{{Name: "device"}},
				},
			}
			claims, slices := client.ResourceV1().ResourceClaims(namespace), client.ResourceV1().ResourceSlices()
			// It is the traffic that matters; what fails is tried again under another name.
			_, _ = claims.Create(ctx, claim, metav1.CreateOptions{})
			_, _ = slices.Create(ctx, slice, metav1.CreateOptions{})
			_ = claims.Delete(ctx, claim.Name, metav1.DeleteOptions{})
			_ = slices.Delete(ctx, slice.Name, metav1.DeleteOptions{})
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}
