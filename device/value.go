// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// value is one value of an attribute. Values of different kinds differ.
type value struct {
	kind   valueKind
	text   string
	number int64
}

type valueKind uint8

const (
	textValue valueKind = iota + 1
	numberValue
	boolValue
	versionValue
)

// attributeOf finds an attribute by its full name. A driver may leave its own
// domain out (Device.Attributes).
func attributeOf(driver string, d *resourceapi.Device, name resourceapi.FullyQualifiedName) (resourceapi.DeviceAttribute, bool) {
	if a, ok := d.Attributes[resourceapi.QualifiedName(name)]; ok {
		return a, true
	}
	domain, id, _ := strings.Cut(string(name), "/")
	if domain != driver {
		return resourceapi.DeviceAttribute{}, false
	}
	a, ok := d.Attributes[resourceapi.QualifiedName(id)]
	return a, ok
}

// listed says whether the attribute is a list, be it of one value.
func listed(a resourceapi.DeviceAttribute) bool {
	return len(a.IntValues)+len(a.BoolValues)+len(a.StringValues)+len(a.VersionValues) > 0
}

// valuesOf returns the values of an attribute, each once and in its order.
// Versions are equal when they are written alike: semantic versions have one way
// to be.
func valuesOf(a resourceapi.DeviceAttribute) []value {
	var all []value
	add := func(v value) {
		if !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	switch {
	case len(a.IntValues) > 0:
		for _, n := range a.IntValues {
			add(value{kind: numberValue, number: n})
		}
	case len(a.BoolValues) > 0:
		for _, b := range a.BoolValues {
			add(boolOf(b))
		}
	case len(a.StringValues) > 0:
		for _, s := range a.StringValues {
			add(value{kind: textValue, text: s})
		}
	case len(a.VersionValues) > 0:
		for _, s := range a.VersionValues {
			add(value{kind: versionValue, text: s})
		}
	case a.StringValue != nil:
		add(value{kind: textValue, text: *a.StringValue})
	case a.IntValue != nil:
		add(value{kind: numberValue, number: *a.IntValue})
	case a.BoolValue != nil:
		add(boolOf(*a.BoolValue))
	case a.VersionValue != nil:
		add(value{kind: versionValue, text: *a.VersionValue})
	}
	return all
}

func boolOf(b bool) value {
	if b {
		return value{kind: boolValue, number: 1}
	}
	return value{kind: boolValue}
}

// String is the value as it is written in a ResourceSlice.
func (v value) String() string {
	switch v.kind {
	case numberValue:
		return strconv.FormatInt(v.number, 10)
	case boolValue:
		return strconv.FormatBool(v.number == 1)
	default:
		return v.text
	}
}
