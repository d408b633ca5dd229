// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/reason"
)

// supported refuses what the claim asks for that is unknown or switched off, field
// by field.
func (c *compiler) supported(claim *resourceapi.ResourceClaim) {
	s := support{compiler: c, claim: claim, names: map[string]bool{}}
	spec := &claim.Spec.Devices
	for i := range spec.Requests {
		s.request(&spec.Requests[i], fmt.Sprintf("spec.devices.requests[%d]", i))
	}
	for i := range spec.Constraints {
		path := fmt.Sprintf("spec.devices.constraints[%d]", i)
		if spec.Constraints[i].MatchAttribute == nil && spec.Constraints[i].DistinctAttribute == nil {
			s.refuse("", "a constraint of an unknown kind", path, "")
		}
		s.known(spec.Constraints[i].Requests, path)
	}
	for i := range spec.Config {
		s.known(spec.Config[i].Requests, fmt.Sprintf("spec.devices.config[%d]", i))
	}
}

type support struct {
	*compiler
	claim *resourceapi.ResourceClaim
	// names are those of the requests and alternatives.
	names map[string]bool
}

func (s *support) refuse(request, feature, field, detail string) {
	s.compiler.refuse(&reason.Rejection{Code: reason.ClaimUnsupported, Claim: claimRef(s.claim), Request: request, Facts: reason.Facts{
		Feature: feature, Field: field, Detail: detail,
	}})
}

// off refuses what is asked for while its feature is off.
func (s *support) off(request, feature, field, gate string) {
	s.refuse(request, feature, field, "the feature gate "+gate+" is off")
}

func (s *support) request(r *resourceapi.DeviceRequest, path string) {
	if s.names[r.Name] {
		s.refuse(r.Name, "two requests of the same name", path+".name", "")
	}
	s.names[r.Name] = true
	f := &s.problem.options.Features
	if len(r.FirstAvailable) > 0 && !f.PrioritizedList {
		s.off(r.Name, "alternatives", path+".firstAvailable", "DRAPrioritizedList")
	}
	wishes := wishes(r, path)
	if len(wishes) == 0 {
		s.refuse(r.Name, "a request of an unknown kind", path, "")
	}
	for i := range wishes {
		w := &wishes[i]
		if len(r.FirstAvailable) > 0 {
			if s.names[w.name] {
				s.refuse(w.name, "two alternatives of the same name", w.path+".name", "")
			}
			s.names[w.name] = true
		}
		switch w.mode {
		case "", resourceapi.DeviceAllocationModeExactCount, resourceapi.DeviceAllocationModeAll:
		default:
			s.refuse(w.name, fmt.Sprintf("allocation mode %q", w.mode), w.path+".allocationMode", "")
		}
		if w.className == "" {
			s.refuse(w.name, "a request without a class", w.path+".deviceClassName", "")
		}
		if w.count < 0 {
			s.refuse(w.name, "a negative count", w.path+".count", "")
		}
		if w.access == observes && !f.AdminAccess {
			s.off(w.name, "admin access", w.path+".adminAccess", "DRAAdminAccess")
		}
		if w.capacity != nil && len(w.capacity.Requests) > 0 && !f.ConsumableCapacity {
			s.off(w.name, "a part of a device's capacity", w.path+".capacity", "DRAConsumableCapacity")
		}
		if len(w.derived) > 0 && !f.DerivedAttributes {
			s.off(w.name, "derived attributes", w.path+".derivedAttributes", "DRADerivedAttributes")
		}
	}
}

// known refuses names of requests that are not in the claim.
func (s *support) known(requests []string, path string) {
	for i, name := range requests {
		if !s.names[name] {
			s.refuse("", "a request that is not in the claim", fmt.Sprintf("%s.requests[%d]", path, i), fmt.Sprintf("there is no request %q", name))
		}
	}
}
