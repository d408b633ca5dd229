// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/cmd/internal/simulate"
	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
	"github.com/berth-scheduler/berth/reason"
)

// claims returns what the pod's ResourceClaims ask for and hold.
func claims(s *snapshot.Snapshot, pod *v1.Pod) []Claim {
	var all []Claim
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		one := Claim{Name: entry.Name, Claim: reason.Ref{Kind: "ResourceClaim", Namespace: pod.Namespace}}
		// An error means that the claim has not been generated yet: no name.
		name, _, err := resourceclaim.Name(pod, entry)
		if err == nil && name != nil {
			one.Claim.Name = *name
		}
		if entry.ResourceClaimTemplateName != nil {
			one.Template = *entry.ResourceClaimTemplateName
		}
		claim := s.ResourceClaim(pod.Namespace, one.Claim.Name)
		// Neither a name nor an error: the template needs no claim for the pod.
		one.Missing = claim == nil && (err != nil || name != nil)
		one.TemplateMissing = one.Missing && one.Template != "" && s.LacksTemplate(pod.Namespace, one.Template)
		if claim != nil {
			one.Requests = requests(claim)
			one.Devices = devices(claim)
			one.SharedWith = sharedWith(claim, pod)
		}
		all = append(all, one)
	}
	return all
}

func requests(claim *resourceapi.ResourceClaim) []Request {
	var all []Request
	for _, request := range claim.Spec.Devices.Requests {
		wants := alternatives(request)
		for _, constraint := range claim.Spec.Devices.Constraints {
			if len(constraint.Requests) > 0 && !slices.ContainsFunc(constraint.Requests, func(ref string) bool {
				return resourceclaim.BaseRequestRef(ref) == request.Name
			}) {
				continue
			}
			if constraint.MatchAttribute != nil {
				wants += ", all on one " + string(*constraint.MatchAttribute)
			}
			if constraint.DistinctAttribute != nil {
				wants += ", each on another " + string(*constraint.DistinctAttribute)
			}
		}
		all = append(all, Request{Name: request.Name, Wants: wants, Selectors: selectors(request)})
	}
	return all
}

func alternatives(request resourceapi.DeviceRequest) string {
	if exact := request.Exactly; exact != nil {
		wants := wants(exact.AllocationMode, exact.Count, exact.DeviceClassName, exact.Selectors)
		if exact.AdminAccess != nil && *exact.AdminAccess {
			wants += ", with admin access"
		}
		return wants
	}
	var each []string
	for _, sub := range request.FirstAvailable {
		each = append(each, wants(sub.AllocationMode, sub.Count, sub.DeviceClassName, sub.Selectors))
	}
	return "the first available of " + strings.Join(each, "; ")
}

func wants(mode resourceapi.DeviceAllocationMode, devices int64, class string, selectors []resourceapi.DeviceSelector) string {
	text := fmt.Sprintf("%d × %s", max(devices, 1), class)
	if mode == resourceapi.DeviceAllocationModeAll {
		text = "all × " + class
	}
	if len(selectors) > 0 {
		text += " that match " + count(len(selectors), "selector")
	}
	return text
}

// selectors returns the request's own expressions, each on one line.
func selectors(request resourceapi.DeviceRequest) []string {
	var of []resourceapi.DeviceSelector
	if request.Exactly != nil {
		of = slices.Clone(request.Exactly.Selectors)
	}
	for _, sub := range request.FirstAvailable {
		of = append(of, sub.Selectors...)
	}
	var all []string
	for _, selector := range of {
		if selector.CEL != nil {
			all = append(all, strings.Join(strings.Fields(selector.CEL.Expression), " "))
		}
	}
	return all
}

func devices(claim *resourceapi.ResourceClaim) []Allocated {
	if claim.Status.Allocation == nil {
		return nil
	}
	var all []Allocated
	for _, result := range claim.Status.Allocation.Devices.Results {
		all = append(all, Allocated{
			Request: result.Request,
			Device:  reason.Device{Driver: result.Driver, Pool: result.Pool, Name: result.Device},
		})
	}
	return all
}

func sharedWith(claim *resourceapi.ResourceClaim, pod *v1.Pod) []reason.Ref {
	var all []reason.Ref
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.UID != pod.UID && consumer.Resource == "pods" {
			all = append(all, reason.Ref{Kind: "Pod", Namespace: claim.Namespace, Name: consumer.Name})
		}
	}
	return all
}

// found adds to the requests what the node has for them. A rejection of a claim
// as a whole stands with the claim's first request.
func (r *Report) found(s *snapshot.Snapshot, node *simulate.Node) {
	if node.Devices == nil {
		return
	}
	for _, rejection := range node.Devices.All() {
		for i := range r.Claims {
			claim := &r.Claims[i]
			if claim.Claim.Name != rejection.Claim.Name {
				continue
			}
			for j := range claim.Requests {
				request := &claim.Requests[j]
				if request.Found == nil && (rejection.Request == request.Name || rejection.Request == "" && j == 0) {
					request.Found = rejection
					request.Holders = holders(s, rejection)
				}
			}
		}
	}
}

// holders are those who hold devices that the first refused request of the node
// would match.
func (r *Report) holders(node *simulate.Node) []Holder {
	for _, claim := range r.Claims {
		for _, request := range claim.Requests {
			if request.Found != nil && request.Found == node.Devices {
				return request.Holders
			}
		}
	}
	return nil
}

func holders(s *snapshot.Snapshot, rejection *reason.Rejection) []Holder {
	if rejection.Facts.Devices == nil {
		return nil
	}
	var all []Holder
	for _, held := range rejection.Facts.Devices.Held {
		i := slices.IndexFunc(all, func(h Holder) bool { return h.Claim == held.Claim })
		if i < 0 {
			i = len(all)
			all = append(all, Holder{Claim: held.Claim})
			for _, ref := range held.Pods {
				one := HolderPod{Pod: ref}
				if pod := s.Pod(ref.Namespace, ref.Name); pod != nil {
					priority := corev1.PodPriority(pod)
					one.Priority = &priority
				}
				all[i].Pods = append(all[i].Pods, one)
			}
		}
		all[i].Devices = append(all[i].Devices, held.Device)
	}
	return all
}
