// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Exit codes of simulated containers.
const (
	exitSuccess int32 = 0
	exitKilled  int32 = 137
)

// setRunning makes the status that of a pod whose containers all run, and
// whose init containers have succeeded.
func setRunning(pod *corev1.Pod, podIP string) {
	now := metav1.Now()
	status := &pod.Status
	status.Phase = corev1.PodRunning
	status.StartTime = &now
	status.HostIP = hostIP
	status.HostIPs = []corev1.HostIP{{IP: hostIP}}
	status.PodIP = podIP
	status.PodIPs = []corev1.PodIP{{IP: podIP}}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	succeeded := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "Completed", StartedAt: now, FinishedAt: now,
	}}
	status.InitContainerStatuses = nil
	for _, container := range pod.Spec.InitContainers {
		state := succeeded
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			state = running
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, containerStatus(container, state))
	}
	status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, containerStatus(container, running))
	}
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == Blocked })
	for _, kind := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	} {
		setCondition(status, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue})
	}
}

func containerStatus(container corev1.Container, state corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name:    container.Name,
		Image:   container.Image,
		State:   state,
		Ready:   true,
		Started: ptr.To(state.Running != nil),
	}
}

// setTerminated makes the status that of a pod whose containers have all ended.
func setTerminated(pod *corev1.Pod, phase corev1.PodPhase, exitCode int32) {
	now := metav1.Now()
	status := &pod.Status
	status.Phase = phase
	reason := "Completed"
	if exitCode != exitSuccess {
		reason = "Error"
	}
	for i := range status.ContainerStatuses {
		container := &status.ContainerStatuses[i]
		container.Ready = false
		container.Started = ptr.To(false)
		container.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: exitCode, Reason: reason, FinishedAt: now, StartedAt: metav1.NewTime(startOf(pod)),
		}}
	}
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		setCondition(status, corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: "PodCompleted"})
	}
}

// setCondition says whether it changed anything. It keeps the time of the last
// transition when the status stays the same.
func setCondition(status *corev1.PodStatus, condition corev1.PodCondition) bool {
	condition.LastTransitionTime = metav1.Now()
	i := slices.IndexFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == condition.Type })
	if i < 0 {
		status.Conditions = append(status.Conditions, condition)
		return true
	}
	old := &status.Conditions[i]
	if old.Status == condition.Status && old.Reason == condition.Reason && old.Message == condition.Message {
		return false
	}
	if old.Status == condition.Status {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	*old = condition
	return true
}

func startOf(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime == nil {
		return pod.CreationTimestamp.Time
	}
	return pod.Status.StartTime.Time
}
