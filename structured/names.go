// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// The engine tells claims apart by their names, and requests within a claim. The
// API server sees to it that names are unique; upstream does not ask for that. What
// has a name that was there before gets a number added, after a sign that no name
// has.
const sign = "#"

func numbered(name string, number int) string { return fmt.Sprintf("%s%s%d", name, sign, number) }

// written is the name as it was before.
func written(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i], _, _ = strings.Cut(parts[i], sign)
	}
	return strings.Join(parts, "/")
}

// unambiguous are the claims as the engine can take them: without an allocation, as
// whatever is passed in is to be allocated, and with names of their own. Claims that
// need no change are not copied.
func unambiguous(claims []*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	named := make(map[string]bool, len(claims))
	open := slices.Clone(claims)
	for i, claim := range claims {
		again := named[nameOf(claim)]
		named[nameOf(claim)] = true
		if !again && claim.Status.Allocation == nil && !repeats(claim) {
			continue
		}
		open[i] = claim.DeepCopy()
		open[i].Status.Allocation = nil
		if again {
			open[i].Name = numbered(claim.Name, i)
		}
		number(&open[i].Spec.Devices)
	}
	return open
}

// repeats says whether two requests of the claim have the same name, or two
// alternatives of the same request.
func repeats(claim *resourceapi.ResourceClaim) bool {
	requests := claim.Spec.Devices.Requests
	for i := range requests {
		if slices.ContainsFunc(requests[:i], func(r resourceapi.DeviceRequest) bool { return r.Name == requests[i].Name }) {
			return true
		}
		alternatives := requests[i].FirstAvailable
		for j := range alternatives {
			if slices.ContainsFunc(alternatives[:j], func(a resourceapi.DeviceSubRequest) bool { return a.Name == alternatives[j].Name }) {
				return true
			}
		}
	}
	return false
}

// number makes the names of requests and alternatives unique. What is about one of
// them is about all that had its name.
func number(spec *resourceapi.DeviceClaim) {
	var added []string
	for i := range spec.Requests {
		r := &spec.Requests[i]
		if slices.ContainsFunc(spec.Requests[:i], func(before resourceapi.DeviceRequest) bool { return before.Name == r.Name }) {
			r.Name = numbered(r.Name, i)
			added = append(added, r.Name)
		}
		for j := range r.FirstAvailable {
			a := &r.FirstAvailable[j]
			if slices.ContainsFunc(r.FirstAvailable[:j], func(before resourceapi.DeviceSubRequest) bool { return before.Name == a.Name }) {
				a.Name = numbered(a.Name, j)
				added = append(added, r.Name+"/"+a.Name)
			}
		}
	}
	about := func(requests []string) []string {
		for _, name := range added {
			if slices.Contains(requests, written(name)) {
				requests = append(requests, name)
			}
		}
		return requests
	}
	for i := range spec.Constraints {
		spec.Constraints[i].Requests = about(spec.Constraints[i].Requests)
	}
	for i := range spec.Config {
		spec.Config[i].Requests = about(spec.Config[i].Requests)
	}
}

// asWritten takes the numbers out of the names of requests again.
func asWritten(results []resourceapi.AllocationResult) {
	for i := range results {
		devices := &results[i].Devices
		for j := range devices.Results {
			devices.Results[j].Request = written(devices.Results[j].Request)
		}
		for j := range devices.Config {
			devices.Config[j].Requests = slices.DeleteFunc(devices.Config[j].Requests, func(name string) bool { return written(name) != name })
		}
	}
}
