// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodRunsAndIsDeleted(t *testing.T) {
	cluster := Start(t, Options{Profile: "local-disks", Scheduler: Upstream})
	pods := cluster.Client.CoreV1().Pods(metav1.NamespaceDefault)
	create(t, cluster, pod("plain"))
	Eventually(t.Context(), t, "pod plain runs", func(ctx context.Context) (bool, string) {
		pod, err := pods.Get(ctx, "plain", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "", fmt.Sprintf("%s, address %q", pod.Status.Phase, pod.Status.PodIP)
	})
	if err := pods.Delete(t.Context(), "plain", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	Eventually(t.Context(), t, "pod plain is gone", func(ctx context.Context) (bool, string) {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		return len(list.Items) == 0, fmt.Sprintf("%d pods", len(list.Items))
	})
}

func TestPodWithAnAnnotationSucceeds(t *testing.T) {
	cluster := Start(t, Options{Profile: "local-disks", Scheduler: Upstream})
	limited := pod("limited")
	limited.Annotations = map[string]string{"lab.berth.dev/succeed-after": "1s"}
	create(t, cluster, limited)
	Eventually(t.Context(), t, "pod limited succeeds", inPhase(cluster, "limited", corev1.PodSucceeded))
}

// A scheduler that binds a pod without its claim must be found out: the pod
// may not look as if all was well.
func TestPodWithoutItsClaimDoesNotRun(t *testing.T) {
	cluster := Start(t, Options{Profile: "gpus", Nodes: 1, Scheduler: None})
	claimless := pod("claimless")
	claimless.Spec.NodeName = "gpu-1"
	name := "missing"
	claimless.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	create(t, cluster, claimless)
	Eventually(t.Context(), t, "pod claimless is blocked", func(ctx context.Context) (bool, string) {
		pod, err := cluster.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "claimless", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == "lab.berth.dev/Blocked" {
				return condition.Reason == "ClaimMissing" && pod.Status.Phase == corev1.PodPending, condition.Reason
			}
		}
		return false, string(pod.Status.Phase)
	})
}

func TestVolumesAreProvisionedAndCapacityShrinksAndGrows(t *testing.T) {
	cluster := Start(t, Options{Profile: "zones", Nodes: 1, Scheduler: Upstream})
	core := cluster.Client.CoreV1()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("zonal"),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("400Gi")},
			},
		},
	}
	if _, err := core.PersistentVolumeClaims(metav1.NamespaceDefault).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	user := pod("user")
	user.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	create(t, cluster, user)
	Eventually(t.Context(), t, "pod user runs", inPhase(cluster, "user", corev1.PodRunning))
	Eventually(t.Context(), t, "capacity shrinks", func(ctx context.Context) (bool, string) { return zonalCapacity(ctx, cluster, "600Gi") })
	if err := core.Pods(metav1.NamespaceDefault).Delete(t.Context(), "user", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := core.PersistentVolumeClaims(metav1.NamespaceDefault).Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	Eventually(t.Context(), t, "capacity grows again", func(ctx context.Context) (bool, string) { return zonalCapacity(ctx, cluster, "1000Gi") })
}

func zonalCapacity(ctx context.Context, cluster *Lab, want string) (bool, string) {
	list, err := cluster.Client.StorageV1().CSIStorageCapacities(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err.Error()
	}
	wanted := resource.MustParse(want)
	for _, object := range list.Items {
		if object.StorageClassName == "zonal" {
			return object.Capacity.Cmp(wanted) == 0, object.Capacity.String()
		}
	}
	return false, "nothing is reported"
}

// The rules of the scheduler's own identity suffice for it, and a killed one
// can be followed by the next.
func TestSchedulerIsKilledAndStartedAgain(t *testing.T) {
	cluster := Start(t, Options{Profile: "local-disks", Scheduler: None})
	first := cluster.StartScheduler(t)
	create(t, cluster, pod("before"))
	Eventually(t.Context(), t, "pod before runs", inPhase(cluster, "before", corev1.PodRunning))
	first.Kill(t)
	create(t, cluster, pod("after"))
	cluster.StartScheduler(t)
	Eventually(t.Context(), t, "pod after runs", inPhase(cluster, "after", corev1.PodRunning))
}

func TestInterruptLeavesNothing(t *testing.T) {
	cluster := Start(t, Options{Profile: "local-disks", Scheduler: Upstream})
	if code := cluster.Interrupt(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	nothingIsLeft(t, cluster)
}

func TestKilledParentLeavesNothing(t *testing.T) {
	cluster := Start(t, Options{Profile: "local-disks", Scheduler: Upstream})
	cluster.Kill(t)
	nothingIsLeft(t, cluster)
}

func TestSecondInterruptLeavesNothing(t *testing.T) {
	cluster := Start(t, Options{Profile: "local-disks", Scheduler: Upstream})
	cluster.process.signal(t, syscall.SIGINT)
	cluster.process.signal(t, syscall.SIGINT)
	<-cluster.process.ended
	nothingIsLeft(t, cluster)
}

func TestDeadComponentEndsTheLab(t *testing.T) {
	cluster := Start(t, Options{Profile: "local-disks", Scheduler: Upstream})
	if err := syscall.Kill(cluster.Processes["etcd"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-cluster.process.ended
	if code := cluster.process.command.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	nothingIsLeft(t, cluster)
}

func nothingIsLeft(t *testing.T, cluster *Lab) {
	t.Helper()
	Eventually(t.Context(), t, "directory is gone", func(context.Context) (bool, string) {
		_, err := os.Stat(cluster.Directory)
		return os.IsNotExist(err), fmt.Sprintf("%s: %v", cluster.Directory, err)
	})
	for name, pid := range cluster.Processes {
		Eventually(t.Context(), t, name+" is gone", func(context.Context) (bool, string) { return gone(pid), fmt.Sprintf("process %d is there", pid) })
	}
}

// gone is also true for a process that has ended and that nobody has waited for.
func gone(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil {
		return true
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return os.IsNotExist(err)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}

// inPhase says whether the pod is in the phase.
func inPhase(cluster *Lab, name string, want corev1.PodPhase) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		pod, err := cluster.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return pod.Status.Phase == want, string(pod.Status.Phase)
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "pause"}}},
	}
}

func create(t *testing.T, cluster *Lab, pod *corev1.Pod) {
	t.Helper()
	if _, err := cluster.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
