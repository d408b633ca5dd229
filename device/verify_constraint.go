// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// constraint checks that the devices under a constraint have a value in common, or
// none.
func (v *verifier) constraint(c resourceapi.DeviceConstraint, mine []use) error {
	seen := map[string]string{}
	var common []string
	first := true
	for i := range mine {
		u := &mine[i]
		if len(c.Requests) > 0 && !slices.Contains(c.Requests, u.asked.parent) && !slices.Contains(c.Requests, u.asked.name) {
			continue
		}
		name := c.MatchAttribute
		if name == nil {
			name = c.DistinctAttribute
		}
		if name == nil {
			return fmt.Errorf("has a constraint of an unknown kind")
		}
		values, err := v.attribute(u, *name)
		if err != nil {
			return fmt.Errorf("device %s: attribute %s: %w", u.device.Name, *name, err)
		}
		if len(values) == 0 {
			return fmt.Errorf("device %s has no attribute %s", u.device.Name, *name)
		}
		if c.MatchAttribute == nil {
			for _, value := range values {
				if other, twice := seen[value]; twice {
					return fmt.Errorf("devices %s and %s both have %s %s", other, u.device.Name, *name, value)
				}
			}
			for _, value := range values {
				seen[value] = u.device.Name
			}
			continue
		}
		if first {
			common, first = values, false
		}
		common = slices.DeleteFunc(slices.Clone(common), func(value string) bool { return !slices.Contains(values, value) })
		if len(common) == 0 {
			return fmt.Errorf("device %s has another %s than the others", u.device.Name, *name)
		}
	}
	return nil
}

// attribute spells out the values of an attribute, with their types.
func (v *verifier) attribute(u *use, name resourceapi.FullyQualifiedName) ([]string, error) {
	a, ok := u.device.Attributes[resourceapi.QualifiedName(name)]
	if !ok {
		if rest, mine := strings.CutPrefix(string(name), u.result.Driver+"/"); mine {
			a = u.device.Attributes[resourceapi.QualifiedName(rest)]
		}
	}
	for _, d := range u.asked.derived {
		if d.Name != name {
			continue
		}
		compiled := v.expression(d.Expression, cel.Options{DisableCostEstimation: true, DerivedAttribute: true})
		if compiled.Error != nil {
			return nil, compiled.Error
		}
		derived, _, err := compiled.EvaluateDerivedAttribute(context.Background(), inputOf(u.result.Driver, u.device))
		if err != nil {
			return nil, err
		}
		a = *derived
	}
	if !v.problem.options.Features.ListTypeAttributes {
		a.StringValues, a.IntValues, a.BoolValues, a.VersionValues = nil, nil, nil, nil
	}
	var all []string
	for _, s := range a.StringValues {
		all = append(all, "string "+s)
	}
	for _, s := range a.VersionValues {
		all = append(all, "version "+s)
	}
	for _, n := range a.IntValues {
		all = append(all, fmt.Sprint("int ", n))
	}
	for _, b := range a.BoolValues {
		all = append(all, fmt.Sprint("bool ", b))
	}
	switch {
	case len(all) > 0:
	case a.StringValue != nil:
		all = append(all, "string "+*a.StringValue)
	case a.VersionValue != nil:
		all = append(all, "version "+*a.VersionValue)
	case a.IntValue != nil:
		all = append(all, fmt.Sprint("int ", *a.IntValue))
	case a.BoolValue != nil:
		all = append(all, fmt.Sprint("bool ", *a.BoolValue))
	}
	return all, nil
}
