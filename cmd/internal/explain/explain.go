// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1"

	"github.com/berth-scheduler/berth/cmd/internal/simulate"
	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
	"github.com/berth-scheduler/berth/reason"
)

// Pod explains one pod of the snapshot. The error is a NotFound of the API when
// there is no such pod.
func Pod(ctx context.Context, s *snapshot.Snapshot, namespace, name string) (*Report, error) {
	for _, needed := range []string{"pods", "nodes"} {
		if slices.Contains(s.NotAllowed, needed) {
			return nil, fmt.Errorf("listing %s of the whole cluster is not allowed, and there is no answer without them", needed)
		}
	}
	pod := s.Pod(namespace, name)
	if pod == nil {
		missing := apierrors.NewNotFound(v1.Resource("pods"), name)
		missing.ErrStatus.Message += fmt.Sprintf(" in namespace %q", namespace)
		return nil, missing
	}

	var result *simulate.Result
	if waiting(pod) {
		scheduler, err := simulate.New(ctx, s, pod.Spec.SchedulerName)
		if err != nil {
			return nil, err
		}
		defer scheduler.Close()
		if result, err = scheduler.Pod(ctx, pod); err != nil {
			return nil, fmt.Errorf("asking the scheduler's plugins about pod %s/%s: %w", namespace, name, err)
		}
	}
	return report(s, pod, result), nil
}

// waiting says whether the pod is the scheduler's to place.
func waiting(pod *v1.Pod) bool {
	return pod.Spec.NodeName == "" && !ended(pod) && pod.DeletionTimestamp == nil
}

func ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// report says what the result, nil for a pod that is not waiting, means for the pod.
func report(s *snapshot.Snapshot, pod *v1.Pod, result *simulate.Result) *Report {
	r := &Report{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},

		Pod:           reason.Ref{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name},
		SchedulerName: pod.Spec.SchedulerName,
		Node:          pod.Spec.NodeName,
		priority:      corev1.PodPriority(pod),
		Claims:        claims(s, pod),
		Volumes:       volumes(s, pod),
	}
	for _, kind := range s.NotAllowed {
		r.Notes = append(r.Notes, fmt.Sprintf("You may not list %s: taken as if there were none.", kind))
	}
	if extended := extendedClaim(s, pod, result); extended != nil {
		r.Claims = append(r.Claims, *extended)
	}
	if result == nil {
		r.settled(s, pod)
		return r
	}
	if pod.Spec.SchedulerName != v1.DefaultSchedulerName {
		r.Notes = append(r.Notes, fmt.Sprintf(
			"The pod is left to scheduler %q. This is what Berth in its default configuration would answer.", pod.Spec.SchedulerName))
	}
	switch {
	case result.Gate != nil && len(pod.Spec.SchedulingGates) > 0:
		r.gated(pod, result.Gate)
	case result.Gate != nil:
		r.refused(result.Gate)
	case result.Whole != nil:
		r.refused(result.Whole)
	default:
		r.nodes(s, pod, result.Nodes)
		r.Notes = append(r.Notes, unserved(s, pod)...)
		r.Preemption = result.Preemption
	}
	return r
}

// gated reports a pod that its scheduling gates keep from the queue.
func (r *Report) gated(pod *v1.Pod, refusal *simulate.Refusal) {
	var gates []string
	for _, gate := range pod.Spec.SchedulingGates {
		gates = append(gates, gate.Name)
		r.WaitsFor = append(r.WaitsFor, "scheduling gate "+gate.Name+" to be removed from the pod")
	}
	noun := "scheduling gate"
	if len(gates) > 1 {
		noun = "scheduling gates"
	}
	r.State, r.Refusal = Gated, refusal
	r.Verdict = "Gated: by " + noun + " " + strings.Join(gates, ", ") + "."
	r.WaitsFor = append(r.WaitsFor, r.waitsForWhole(refusal)...)
}

// refused reports a pod that is refused as a whole.
func (r *Report) refused(refusal *simulate.Refusal) {
	r.State, r.Refusal = Refused, refusal
	r.Verdict = "Pending: " + r.whole(refusal) + "."
	r.WaitsFor = r.waitsForWhole(refusal)
}

// settled reports a pod that is not waiting.
func (r *Report) settled(s *snapshot.Snapshot, pod *v1.Pod) {
	place := "without ever having had a node"
	if r.Node != "" {
		place = "on node " + r.Node
	}
	switch {
	case ended(pod):
		r.State = Ended
		r.Verdict = fmt.Sprintf("Ended: the pod has %s, %s.", strings.ToLower(string(pod.Status.Phase)), place)
	case r.Node == "":
		r.State = Ended
		r.Verdict = "Ended: the pod is being deleted, " + place + "."
	default:
		r.State = Scheduled
		r.Verdict = fmt.Sprintf("Scheduled: on node %s%s; phase %s.", r.Node, r.holds(), pod.Status.Phase)
		if amiss := r.amiss(s, pod); len(amiss) > 0 {
			r.Verdict = fmt.Sprintf("Scheduled: on node %s, phase %s, but %s.", r.Node, pod.Status.Phase, strings.Join(amiss, "; "))
		}
	}
}

// holds says how many devices and volumes the pod's claims have.
func (r *Report) holds() string {
	devices, volumes := 0, 0
	for _, claim := range r.Claims {
		devices += len(claim.Devices)
	}
	for _, volume := range r.Volumes {
		if volume.Bound != nil {
			volumes++
		}
	}
	switch {
	case devices > 0 && volumes > 0:
		return fmt.Sprintf(", with %s and %s", count(devices, "device"), count(volumes, "volume"))
	case devices > 0:
		return ", with " + count(devices, "device")
	case volumes > 0:
		return ", with " + count(volumes, "volume")
	}
	return ""
}

// nodes reports a pod that every node has been asked about.
func (r *Report) nodes(s *snapshot.Snapshot, pod *v1.Pod, nodes []simulate.Node) {
	r.Nodes = nodes
	r.Reasons = reasons(nodes)
	fitting := slices.DeleteFunc(slices.Clone(nodes), func(n simulate.Node) bool { return n.Refusal != nil })
	r.countFits(nodes)
	if len(fitting) > 0 {
		r.State = Fits
		r.Verdict = fmt.Sprintf("Pending: it would fit now, on %d of %s; the scheduler has not placed it yet.",
			len(fitting), count(len(nodes), "node"))
		if r.WaitsFor = waitsForProvisioning(s, r.Volumes); len(r.WaitsFor) > 0 && len(fitting) == 1 {
			r.Verdict = fmt.Sprintf("Pending: node %s is chosen, and storage is being provisioned for it.", fitting[0].Name)
		}
		if message := lastAnswer(pod); message != "" {
			r.Notes = append(r.Notes, "The scheduler's last answer: "+message)
		}
		return
	}
	r.State = Refused
	r.Verdict = "Pending: " + verdict(r.Claims, nodes) + "."
	if node := nearest(nodes); node != nil {
		r.found(s, node)
		if near(node, nodes) {
			r.Nearest = &Nearest{Node: node.Name, Text: r.lacks(node)}
		}
	}
	r.WaitsFor = waitsFor(nodes)
}

func lastAnswer(pod *v1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodScheduled && condition.Status == v1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

// whole says why the pod is refused as a whole: first the claims that do not
// exist, whichever plugin missed them.
func (r *Report) whole(refusal *simulate.Refusal) string {
	sentences := r.missing()
	lacks := len(sentences) > 0
	if refusal.Rejection == nil {
		if !lacks {
			return strings.TrimSuffix(refusal.Message, ".")
		}
		return strings.Join(sentences, "; ")
	}
	for _, one := range refusal.Rejection.All() {
		switch one.Code {
		case reason.ClaimNotCreated, reason.ClaimNotFound, reason.VolumeClaimNotCreated, reason.VolumeClaimNotFound:
			if lacks {
				continue
			}
		}
		if one.Code == reason.NoVolume {
			sentences = append(sentences, lacking(nil, []*reason.Rejection{one}))
			continue
		}
		sentences = append(sentences, one.Sentence())
	}
	return strings.Join(sentences, "; ")
}
