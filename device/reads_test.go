// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

func TestReadsAreWhatAnExpressionLooksAt(t *testing.T) {
	all := Features{ConsumableCapacity: true, ListTypeAttributes: true}
	for expression, want := range map[string]reads{
		`true`:                            {},
		`device.driver == "gpu.test"`:     {},
		`device.allowMultipleAllocations`: {multi: true},
		`device.attributes["gpu.test"].model == "a" && device.attributes["gpu.test"]["half"] == 1`: {
			attributes: []part{{"gpu.test", "half"}, {"gpu.test", "model"}},
		},
		`has(device.attributes["gpu.test"].model) || "half" in device.attributes["gpu.test"]`: {
			attributes: []part{{"gpu.test", "half"}, {"gpu.test", "model"}},
		},
		`device.capacity["gpu.test"].memory.compareTo(quantity("1Gi")) > 0`: {capacity: []part{{"gpu.test", "memory"}}},
		`cel.bind(gpu, device.attributes["gpu.test"], gpu.model == "a")`:    {attributes: []part{{"gpu.test", "model"}}},
		`device.attributes["gpu.test"].tags.exists(t, t == "a")`:            {attributes: []part{{"gpu.test", "tags"}}},
		`device.attributes["gpu.test"].exists(name, name == "a")`:           {attributes: []part{{"gpu.test", ""}}},
		`"gpu.test" in device.attributes`:                                   {attributes: []part{{"", ""}}},
		`device.attributes[device.driver].model == "a"`:                     {attributes: []part{{"", ""}}},
		`[device].exists(device, device.driver == "a")`:                     {everything: true},
	} {
		p := newProgram(programKey{expression: expression, features: NewSelectors(1).compile("true", selects, all).key.features})
		if p.compiled.Error != nil {
			t.Errorf("%s: %v", expression, p.compiled.Error)
			continue
		}
		if diff := cmp.Diff(want, p.reads, cmp.AllowUnexported(reads{}, part{})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", expression, diff)
		}
	}
}

// gpu is one of many that differ in their serial number only.
func gpu(serial int) *resourceapi.Device {
	return &resourceapi.Device{
		Name: fmt.Sprintf("gpu-%d", serial),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"model": {StringValue: ptr.To("a")}, "serial": {StringValue: ptr.To(fmt.Sprint(serial))}, "driver": {VersionValue: ptr.To("1.0.0")},
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
	}
}

func TestAlikeDevicesCostOneEvaluation(t *testing.T) {
	for expression, want := range map[string]int{
		`device.attributes["gpu.test"].model == "a"`:                        1,
		`device.capacity["gpu.test"].memory.compareTo(quantity("1Gi")) > 0`: 1,
		`device.attributes["gpu.test"].missing == "a"`:                      1,
		`device.attributes["gpu.test"].serial == "17"`:                      8000,
		`device.attributes["gpu.test"].size() == 3`:                         8000,
	} {
		p := NewSelectors(1).compile(expression, selects, Features{})
		for i := range 8000 {
			p.on("gpu.test", gpu(i))
		}
		if len(p.results) != want {
			t.Errorf("%s: evaluated %d times, want %d", expression, len(p.results), want)
		}
	}
}

// What is not read may still fail every expression, or belong to another driver.
func TestResultsAreSharedByAlikeDevicesOnly(t *testing.T) {
	p := NewSelectors(1).compile(`device.attributes["gpu.test"].model == "a"`, selects, Features{})
	if found := p.on("gpu.test", gpu(1)); found.err != nil || !found.matches {
		t.Fatalf("a good device: %+v", found)
	}
	broken := gpu(2)
	broken.Attributes["driver"] = resourceapi.DeviceAttribute{VersionValue: ptr.To("one")}
	if p.on("gpu.test", broken).err == nil {
		t.Error("a version that cannot be parsed fails nothing")
	}
	empty := gpu(3)
	empty.Attributes["odd"] = resourceapi.DeviceAttribute{}
	if p.on("gpu.test", empty).err == nil {
		t.Error("an attribute without a value fails nothing")
	}
	if p.on("nic.test", gpu(4)).err == nil {
		t.Error("the attribute of another driver was read")
	}
}

// A list is not the value that it has, and what is in it twice counts twice. It does
// not matter which device was asked about first.
func TestListsAreNotTheirValues(t *testing.T) {
	one := int64(1)
	attributes := map[string]resourceapi.DeviceAttribute{
		"1": {IntValue: &one}, "[1]": {IntValues: []int64{one}}, "[1 1]": {IntValues: []int64{one, one}},
		"[] or a": {IntValues: []int64{}, StringValue: ptr.To("a")}, "1 or a": {IntValue: &one, StringValue: ptr.To("a")}, "a": {StringValue: ptr.To("a")},
	}
	for _, f := range []Features{{}, {ListTypeAttributes: true}} {
		for expression, want := range map[string][]string{
			`device.attributes["gpu.test"].x == 1`:       {"1", "1 or a"},
			`device.attributes["gpu.test"].x == "a"`:     {"a"},
			`device.attributes["gpu.test"].x == [1]`:     {"[1]"},
			`device.attributes["gpu.test"].x.size() > 1`: {"[1 1]"},
		} {
			p := NewSelectors(1).compile(expression, selects, f)
			for range 3 {
				for name, a := range attributes {
					found := p.on("gpu.test", &resourceapi.Device{Name: "gpu", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"x": a}})
					if found.matches != slices.Contains(want, name) {
						t.Errorf("%s with x = %s: matches is %v", expression, name, found.matches)
					}
				}
			}
		}
	}
}

func TestResultsAreBounded(t *testing.T) {
	p := NewSelectors(1).compile(`device.attributes["gpu.test"].serial == "17"`, selects, Features{})
	for i := range programResults + 10 {
		p.on("gpu.test", gpu(i))
	}
	if len(p.results) > programResults {
		t.Errorf("%d results are kept, want at most %d", len(p.results), programResults)
	}
}
