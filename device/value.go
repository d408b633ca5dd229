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
	for _, v := range writtenValues(a) {
		if !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// writtenValues returns the values of an attribute as the driver lists them.
func writtenValues(a resourceapi.DeviceAttribute) []value {
	var all []value
	switch {
	case len(a.IntValues) > 0:
		for _, n := range a.IntValues {
			all = append(all, value{kind: numberValue, number: n})
		}
	case len(a.BoolValues) > 0:
		for _, b := range a.BoolValues {
			all = append(all, boolOf(b))
		}
	case len(a.StringValues) > 0:
		for _, s := range a.StringValues {
			all = append(all, value{kind: textValue, text: s})
		}
	case len(a.VersionValues) > 0:
		for _, s := range a.VersionValues {
			all = append(all, value{kind: versionValue, text: s})
		}
	case a.StringValue != nil:
		all = append(all, value{kind: textValue, text: *a.StringValue})
	case a.IntValue != nil:
		all = append(all, value{kind: numberValue, number: *a.IntValue})
	case a.BoolValue != nil:
		all = append(all, boolOf(*a.BoolValue))
	case a.VersionValue != nil:
		all = append(all, value{kind: versionValue, text: *a.VersionValue})
	}
	return all
}

// wellFormed says whether the attribute has one value or one list of values, as the
// API requires (DeviceAttribute).
func wellFormed(a resourceapi.DeviceAttribute) bool {
	set := 0
	for _, is := range [...]bool{
		a.IntValues != nil, a.BoolValues != nil, a.StringValues != nil, a.VersionValues != nil,
		a.StringValue != nil, a.IntValue != nil, a.BoolValue != nil, a.VersionValue != nil,
	} {
		if is {
			set++
		}
	}
	return set == 1 && len(writtenValues(a)) > 0
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
