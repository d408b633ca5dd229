// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/reason"
)

// wish is a request, or one of its alternatives. A plain request takes the form of
// an alternative that has its name.
type wish struct {
	resourceapi.DeviceSubRequest
	claim   *resourceapi.ResourceClaim
	request string
	// plain: there are no alternatives.
	plain bool
	admin *bool
}

// wishes are those of one request, in order.
func wishes(claim *resourceapi.ResourceClaim, request *resourceapi.DeviceRequest) []wish {
	if len(request.FirstAvailable) == 0 {
		exact := request.Exactly
		if exact == nil {
			exact = &resourceapi.ExactDeviceRequest{}
		}
		return []wish{{claim: claim, request: request.Name, plain: true, admin: exact.AdminAccess, DeviceSubRequest: resourceapi.DeviceSubRequest{
			Name: request.Name, DeviceClassName: exact.DeviceClassName, Selectors: exact.Selectors, AllocationMode: exact.AllocationMode,
			Count: exact.Count, Tolerations: exact.Tolerations, Capacity: exact.Capacity, DerivedAttributes: exact.DerivedAttributes,
		}}}
	}
	var all []wish
	for i := range request.FirstAvailable {
		all = append(all, wish{claim: claim, request: request.Name, DeviceSubRequest: request.FirstAvailable[i]})
	}
	return all
}

// fullName is how a result names the wish.
func (w *wish) fullName() string {
	if w.plain {
		return w.Name
	}
	return w.request + "/" + w.Name
}

func (w *wish) kind() string {
	if w.plain {
		return "request"
	}
	return "subrequest"
}

func (w *wish) all() bool { return w.AllocationMode == resourceapi.DeviceAllocationModeAll }

// least is how many devices are wanted on every node.
func (w *wish) least() int64 {
	if w.all() {
		return 0
	}
	return max(w.Count, 0)
}

// under says whether a constraint is about the wish.
func (w *wish) under(c *resourceapi.DeviceConstraint) bool {
	return len(c.Requests) == 0 || slices.Contains(c.Requests, w.request) || slices.Contains(c.Requests, w.fullName())
}

// nameOf is namespace/name, or the name alone.
func nameOf(claim *resourceapi.ResourceClaim) string {
	return reason.Ref{Namespace: claim.Namespace, Name: claim.Name}.String()
}
