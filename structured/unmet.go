// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/reason"
)

// unmet is the first device that a plain request for all devices cannot add to
// those before without breaking a constraint. It is nil if the rejection is not
// about such a request, or if only other requests keep it from holding them.
func (a *attempt) unmet(r *reason.Rejection) *reason.Device {
	for _, w := range a.plainAll() {
		if nameOf(w.claim) != r.Claim.String() || w.Name != r.Request {
			continue
		}
		devices, _ := a.everything(&w)
		for i := range w.claim.Spec.Devices.Constraints {
			constraint := &w.claim.Spec.Devices.Constraints[i]
			if !w.under(constraint) {
				continue
			}
			if at := a.breaks(constraint, devices); at >= 0 {
				return &devices[at]
			}
		}
	}
	return nil
}

// plainAll are the plain requests for all devices.
func (a *attempt) plainAll() []wish {
	var all []wish
	for _, claim := range a.claims {
		for i := range claim.Spec.Devices.Requests {
			for _, w := range wishes(claim, &claim.Spec.Devices.Requests[i]) {
				if w.plain && w.all() {
					all = append(all, w)
				}
			}
		}
	}
	return all
}

// everything is what a request for all devices would get if it was alone, and how
// many that are, which is known also where they are too many for a claim.
func (a *attempt) everything(w *wish) ([]reason.Device, int64) {
	alone := &resourceapi.ResourceClaim{}
	alone.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: w.Name, Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: w.DeviceClassName, AllocationMode: w.AllocationMode, Selectors: w.Selectors, Capacity: w.Capacity,
		Tolerations: []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}},
	}}}
	problem, refused := device.Compile([]*resourceapi.ResourceClaim{alone}, a.class, device.Options{
		Features: featuresOf(a.question.features), Strategy: device.InOrder, Selectors: a.memory.selectors,
	})
	if refused != nil {
		return nil, 0
	}
	unused := a.catalog.view.Node(a.node.Node)
	plan, refused := problem.Solve(unused)
	if refused != nil {
		switch r := problem.Explain(unused); {
		case r.Code == reason.ClaimTooLarge:
			return nil, r.Facts.Wanted.Value()
		case r.Facts.Devices != nil:
			return nil, int64(r.Facts.Devices.Match)
		}
		return nil, 0
	}
	var devices []reason.Device
	for _, r := range plan.Results(nil)[0].Devices.Results {
		devices = append(devices, reason.Device{Driver: r.Driver, Pool: r.Pool, Name: r.Device})
	}
	return devices, int64(len(devices))
}

// breaks finds the first device that has not got the value of those before, or has
// got it as well where it has to be another; -1 if there is none.
func (a *attempt) breaks(c *resourceapi.DeviceConstraint, devices []reason.Device) int {
	var values []any
	for i, d := range devices {
		now := a.catalog.pools[device.PoolID{Driver: d.Driver, Pool: d.Pool}].values(d, c)
		common := slices.DeleteFunc(slices.Clone(now), func(v any) bool { return !slices.Contains(values, v) })
		switch {
		case len(now) == 0:
			return i
		case c.MatchAttribute == nil && len(common) > 0:
			return i
		case c.MatchAttribute == nil:
			values = append(values, now...)
		case i == 0:
			values = now
		case len(common) == 0:
			return i
		default:
			values = common
		}
	}
	return -1
}

// values are those of the attribute of a constraint, by the name that drivers give
// it, that a device has.
func (p *pool) values(of reason.Device, c *resourceapi.DeviceConstraint) []any {
	name := c.MatchAttribute
	if name == nil {
		name = c.DistinctAttribute
	}
	for _, s := range p.slices {
		at := slices.IndexFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return d.Name == of.Name })
		if at < 0 {
			continue
		}
		attributes := s.Spec.Devices[at].Attributes
		attribute, ok := attributes[resourceapi.QualifiedName(*name)]
		if !ok {
			attribute = attributes[resourceapi.QualifiedName(strings.TrimPrefix(string(*name), of.Driver+"/"))]
		}
		return valuesOf(&attribute)
	}
	return nil
}

// version is not the same as a string that reads alike.
type version string

func valuesOf(a *resourceapi.DeviceAttribute) []any {
	var all []any
	for _, v := range slices.Concat(a.StringValues, pointed(a.StringValue)) {
		all = append(all, v)
	}
	for _, v := range slices.Concat(a.VersionValues, pointed(a.VersionValue)) {
		all = append(all, version(v))
	}
	for _, v := range slices.Concat(a.IntValues, pointed(a.IntValue)) {
		all = append(all, v)
	}
	for _, v := range slices.Concat(a.BoolValues, pointed(a.BoolValue)) {
		all = append(all, v)
	}
	return all
}

func pointed[T any](p *T) []T {
	if p == nil {
		return nil
	}
	return []T{*p}
}
