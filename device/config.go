// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// chosen is a request of a claim and the choice that it got.
type chosen struct {
	request *request
	choice  *choice
}

// chosen lists the requests of a claim.
func (p Plan) chosen(claim int) []chosen {
	picked := make([]int, len(p.problem.requests))
	for _, pick := range p.picks {
		picked[pick.request] = int(pick.choice)
	}
	var all []chosen
	for i := range p.problem.requests {
		if r := &p.problem.requests[i]; r.claim == claim {
			all = append(all, chosen{request: r, choice: &r.choices[picked[i]]})
		}
	}
	return all
}

func (c chosen) in(requests []string) bool { return names(requests, c.request.name, c.choice.name) }

// config joins the configuration of the classes, each once and for the requests
// that got a device of it, with that of the claim, which comes after and so wins
// (DeviceAllocationResult.Config). One of the claim that is for alternatives only
// that were not chosen is left out. One that is for all requests names none.
func (p Plan) config(claim int) []resourceapi.DeviceAllocationConfiguration {
	var configs []resourceapi.DeviceAllocationConfiguration
	all := p.chosen(claim)
	for i, c := range all {
		class := c.choice.class
		if slices.ContainsFunc(all[:i], func(other chosen) bool { return other.choice.class.Name == class.Name }) {
			continue
		}
		var requests []string
		for _, other := range all[i:] {
			if other.choice.class.Name == class.Name {
				requests = append(requests, other.choice.name)
			}
		}
		for _, config := range class.Spec.Config {
			configs = append(configs, resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSourceClass, Requests: slices.Clone(requests),
				DeviceConfiguration: *config.DeviceConfiguration.DeepCopy(),
			})
		}
	}
	for _, config := range p.problem.open[claim].Spec.Devices.Config {
		if slices.ContainsFunc(all, func(c chosen) bool { return c.in(config.Requests) }) {
			configs = append(configs, resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSourceClaim, Requests: slices.Clone(config.Requests),
				DeviceConfiguration: *config.DeviceConfiguration.DeepCopy(),
			})
		}
	}
	for i := range configs {
		if !slices.ContainsFunc(all, func(c chosen) bool { return !c.in(configs[i].Requests) }) {
			configs[i].Requests = nil
		}
	}
	return configs
}
