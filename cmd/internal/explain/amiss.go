// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
)

// missing says which claims of the pod do not exist.
func (r *Report) missing() []string {
	var all []string
	for _, claim := range r.Claims {
		switch {
		case claim.TemplateMissing:
			all = append(all, fmt.Sprintf("ResourceClaimTemplate %s/%s of claim %q does not exist", r.Pod.Namespace, claim.Template, claim.Name))
		case claim.Missing && claim.Template != "":
			all = append(all, fmt.Sprintf("claim %q has not been created from ResourceClaimTemplate %s/%s yet",
				claim.Name, r.Pod.Namespace, claim.Template))
		case claim.Missing:
			all = append(all, "ResourceClaim "+claim.Claim.String()+" does not exist")
		}
	}
	for _, volume := range r.Volumes {
		if volume.Missing {
			all = append(all, "PersistentVolumeClaim "+volume.Claim.String()+" does not exist")
		}
	}
	return all
}

// amiss says what keeps a pod from running on the node that it is bound to: a
// pod that names its node has not been through a scheduler.
func (r *Report) amiss(s *snapshot.Snapshot, pod *v1.Pod) []string {
	var all []string
	if !s.HasNode(r.Node) {
		all = append(all, "the node does not exist")
	}
	all = append(all, r.missing()...)
	for _, one := range r.Claims {
		claim := s.ResourceClaim(one.Claim.Namespace, one.Claim.Name)
		switch {
		case claim == nil:
		case claim.Status.Allocation == nil:
			all = append(all, "ResourceClaim "+one.Claim.String()+" is not allocated")
		case !slices.ContainsFunc(claim.Status.ReservedFor, func(consumer resourceapi.ResourceClaimConsumerReference) bool {
			return consumer.UID == pod.UID
		}):
			all = append(all, "ResourceClaim "+one.Claim.String()+" is not reserved for the pod")
		}
	}
	for _, volume := range r.Volumes {
		if !volume.Missing && volume.Bound == nil {
			all = append(all, "PersistentVolumeClaim "+volume.Claim.String()+" is not bound")
		}
	}
	return all
}
