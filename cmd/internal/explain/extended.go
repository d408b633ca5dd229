// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/cmd/internal/simulate"
	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
	"github.com/berth-scheduler/berth/reason"
)

// extendedClaim returns the claim that the scheduler has made, or would make, for
// the pod's extended resources; nil if there is nothing to tell.
func extendedClaim(s *snapshot.Snapshot, pod *v1.Pod, result *simulate.Result) *Claim {
	switch status := pod.Status.ExtendedResourceClaimStatus; {
	case result != nil && result.Extended != nil:
		return describeExtended(s, result.Extended.Claim, result.Extended.Mappings)
	case result != nil || status == nil:
		return nil
	default:
		claim := s.ResourceClaim(pod.Namespace, status.ResourceClaimName)
		if claim == nil {
			ref := reason.Ref{Kind: "ResourceClaim", Namespace: pod.Namespace, Name: status.ResourceClaimName}
			return &Claim{Name: "extended resources", Claim: ref, Missing: true}
		}
		return describeExtended(nil, claim, status.RequestMappings)
	}
}

// describeExtended tells which containers a claim's requests are for. Nodes is nil
// for a pod that has one.
func describeExtended(nodes *snapshot.Snapshot, claim *resourceapi.ResourceClaim, mappings []v1.ContainerExtendedResourceRequest) *Claim {
	one := &Claim{
		Name:     "extended resources",
		Claim:    reason.Ref{Kind: "ResourceClaim", Namespace: claim.Namespace, Name: claim.Name},
		Requests: requests(claim),
		Devices:  devices(claim),
	}
	for i := range one.Requests {
		request := &one.Requests[i]
		var containers []string
		resource := ""
		for _, mapping := range mappings {
			if mapping.RequestName == request.Name {
				containers = append(containers, mapping.ContainerName)
				resource = mapping.ResourceName
			}
		}
		if resource == "" {
			continue
		}
		noun := "container"
		if len(containers) > 1 {
			noun = "containers"
		}
		request.Wants += fmt.Sprintf(", for %s of %s %s", resource, noun, strings.Join(containers, ", "))
		if !slices.ContainsFunc(one.Extended, func(e Extended) bool { return e.Resource == resource }) {
			one.Extended = append(one.Extended, servedBy(nodes, resource, claim.Spec.Devices.Requests[i].Exactly))
		}
	}
	return one
}

// servedBy tells which nodes serve the resource how.
func servedBy(s *snapshot.Snapshot, resource string, request *resourceapi.ExactDeviceRequest) Extended {
	e := Extended{Resource: resource}
	if request != nil {
		e.Class = request.DeviceClassName
	}
	if s == nil {
		return e
	}
	for _, node := range s.Nodes {
		if has := node.Status.Allocatable[v1.ResourceName(resource)]; has.Sign() > 0 {
			e.DevicePlugin = append(e.DevicePlugin, node.Name)
		} else {
			e.DRA++
		}
	}
	slices.Sort(e.DevicePlugin)
	return e
}

func (e Extended) text() string {
	text := e.Resource + " comes from class " + e.Class
	if n := len(e.DevicePlugin); n > 0 {
		text += fmt.Sprintf(" on %s, from a device plugin on %s", count(e.DRA, "node"), some(e.DevicePlugin, 3))
	}
	return text
}

// byDevicePlugin says whether a node serves an extended resource of the pod by a
// device plugin, of which our plugins know nothing.
func (r *Report) byDevicePlugin(node string) bool {
	for _, claim := range r.Claims {
		for _, one := range claim.Extended {
			if slices.Contains(one.DevicePlugin, node) {
				return true
			}
		}
	}
	return false
}
