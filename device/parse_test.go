// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func parseSlice(t *testing.T, name string, d *datadriven.TestData, lines []string) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	slice.Spec.Pool.Generation, slice.Spec.Pool.ResourceSliceCount = 1, 1
	for _, arg := range d.CmdArgs[1:] {
		switch arg.Key {
		case "pool":
			slice.Spec.Driver, slice.Spec.Pool.Name, _ = strings.Cut(arg.Vals[0], "/")
		case "node":
			slice.Spec.NodeName = ptr.To(arg.Vals[0])
		case "all":
			slice.Spec.AllNodes = ptr.To(true)
		case "zone":
			slice.Spec.NodeSelector = zones(arg.Vals...)
		case "perdevice":
			slice.Spec.PerDeviceNodeSelection = ptr.To(true)
		case "generation":
			slice.Spec.Pool.Generation = parseInt(t, arg.Vals[0])
		case "of":
			slice.Spec.Pool.ResourceSliceCount = parseInt(t, arg.Vals[0])
		case "skips":
			slice.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
		default:
			d.Fatalf(t, "unknown argument %s", arg.Key)
		}
	}
	for _, line := range lines {
		words := strings.Fields(line)
		if words[0] != "counters" {
			slice.Spec.Devices = append(slice.Spec.Devices, parseDevice(words))
			continue
		}
		set := resourceapi.CounterSet{Name: words[1], Counters: map[string]resourceapi.Counter{}}
		for _, word := range words[2:] {
			name, amount, _ := strings.Cut(word, "=")
			set.Counters[name] = resourceapi.Counter{Value: resource.MustParse(amount)}
		}
		slice.Spec.SharedCounters = append(slice.Spec.SharedCounters, set)
	}
	return slice
}

// zones is a node selector with a term per zone.
func zones(names ...string) *v1.NodeSelector {
	selector := &v1.NodeSelector{}
	for _, name := range names {
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{
			Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{name},
		}}})
	}
	return selector
}

func parseDevice(words []string) resourceapi.Device {
	d := resourceapi.Device{Name: words[0], Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
	for _, word := range words[1:] {
		key, text, _ := strings.Cut(word, "=")
		switch key {
		case "taint":
			key, rest, _ := strings.Cut(text, "=")
			value, effect, _ := strings.Cut(rest, ":")
			d.Taints = append(d.Taints, resourceapi.DeviceTaint{Key: key, Value: value, Effect: resourceapi.DeviceTaintEffect(effect)})
		case "node":
			d.NodeName = ptr.To(text)
		case "zone":
			d.NodeSelector = zones(text)
		case "uses":
			d.ConsumesCounters = append(d.ConsumesCounters, parseConsumption(text))
		case "cap":
			if d.Capacity == nil {
				d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
			}
			name, capacity := parseCapacity(text)
			d.Capacity[name] = capacity
		case "shares":
			d.AllowMultipleAllocations = ptr.To(true)
		case "binding":
			d.BindingConditions = append(d.BindingConditions, text)
		case "failing":
			d.BindingFailureConditions = append(d.BindingFailureConditions, text)
		case "binds":
			d.BindsToNode = ptr.To(true)
		case "allocatable":
			d.NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{v1.ResourceCPU: {}}
		default:
			d.Attributes[resourceapi.QualifiedName(key)] = parseAttribute(text)
		}
	}
	return d
}

// parseConsumption reads SET/NAME:AMOUNT,NAME:AMOUNT@GROUP+GROUP.
func parseConsumption(text string) resourceapi.DeviceCounterConsumption {
	text, groups, grouped := strings.Cut(text, "@")
	set, counters, _ := strings.Cut(text, "/")
	c := resourceapi.DeviceCounterConsumption{CounterSet: set, Counters: map[string]resourceapi.Counter{}}
	if grouped {
		c.CompatibilityGroups = strings.Split(groups, "+")
	}
	for _, counter := range strings.Split(counters, ",") {
		name, amount, _ := strings.Cut(counter, ":")
		c.Counters[name] = resourceapi.Counter{Value: resource.MustParse(amount)}
	}
	return c
}

// parseCapacity reads NAME:AMOUNT,default:AMOUNT,values:A+B,range:MIN-MAX/STEP.
func parseCapacity(text string) (resourceapi.QualifiedName, resourceapi.DeviceCapacity) {
	parts := strings.Split(text, ",")
	name, amount, _ := strings.Cut(parts[0], ":")
	c := resourceapi.DeviceCapacity{Value: resource.MustParse(amount)}
	for _, part := range parts[1:] {
		if c.RequestPolicy == nil {
			c.RequestPolicy = &resourceapi.CapacityRequestPolicy{}
		}
		rule, text, _ := strings.Cut(part, ":")
		switch rule {
		case "default":
			c.RequestPolicy.Default = ptr.To(resource.MustParse(text))
		case "values":
			for _, v := range strings.Split(text, "+") {
				c.RequestPolicy.ValidValues = append(c.RequestPolicy.ValidValues, resource.MustParse(v))
			}
		case "range":
			text, step, stepped := strings.Cut(text, "/")
			low, high, _ := strings.Cut(text, "-")
			r := &resourceapi.CapacityRequestPolicyRange{Min: ptr.To(resource.MustParse(low)), Max: ptr.To(resource.MustParse(high))}
			if stepped {
				r.Step = ptr.To(resource.MustParse(step))
			}
			c.RequestPolicy.ValidRange = r
		}
	}
	return resourceapi.QualifiedName(name), c
}

// parseAttribute reads 1, true, v1.2.3 and [a,b] as what they look like, and all
// else as a string.
func parseAttribute(text string) resourceapi.DeviceAttribute {
	if list, ok := strings.CutPrefix(text, "["); ok {
		var a resourceapi.DeviceAttribute
		for _, element := range strings.Split(strings.TrimSuffix(list, "]"), ",") {
			if number, err := strconv.ParseInt(element, 10, 64); err == nil {
				a.IntValues = append(a.IntValues, number)
			} else {
				a.StringValues = append(a.StringValues, element)
			}
		}
		return a
	}
	if number, err := strconv.ParseInt(text, 10, 64); err == nil {
		return resourceapi.DeviceAttribute{IntValue: &number}
	}
	if truth, err := strconv.ParseBool(text); err == nil && len(text) > 1 {
		return resourceapi.DeviceAttribute{BoolValue: &truth}
	}
	if version, ok := strings.CutPrefix(text, "v"); ok && strings.Count(version, ".") == 2 {
		return resourceapi.DeviceAttribute{VersionValue: &version}
	}
	return resourceapi.DeviceAttribute{StringValue: &text}
}

func parseClass(t *testing.T, name string, lines []string) *resourceapi.DeviceClass {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, line := range lines {
		if words := strings.Fields(line); words[0] == "config" {
			class.Spec.Config = append(class.Spec.Config, resourceapi.DeviceClassConfiguration{DeviceConfiguration: opaque(t, words[1], words[2])})
			continue
		}
		class.Spec.Selectors = append(class.Spec.Selectors, selectors(line)...)
	}
	return class
}

func opaque(t *testing.T, driver, parameters string) resourceapi.DeviceConfiguration {
	if !json.Valid([]byte(parameters)) {
		t.Fatalf("no JSON: %s", parameters)
	}
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(parameters)},
	}}
}

func parseHolder(name string, d *datadriven.TestData, lines []string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace, claim.Name, _ = strings.Cut(name, "/")
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for _, pod := range d.CmdArgs[1:] {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Key})
	}
	for _, line := range lines {
		words := strings.Fields(line)
		parts := strings.Split(words[0], "/")
		result := resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: parts[0], Pool: parts[1], Device: parts[2]}
		for _, word := range words[1:] {
			switch key, text, _ := strings.Cut(word, "="); key {
			case "admin":
				result.AdminAccess = ptr.To(true)
			case "share":
				result.ShareID = ptr.To(types.UID(text))
			default:
				if result.ConsumedCapacity == nil {
					result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{}
				}
				result.ConsumedCapacity[resourceapi.QualifiedName(key)] = resource.MustParse(text)
			}
		}
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, result)
	}
	return claim
}

func parseClaim(t *testing.T, name string, d *datadriven.TestData, lines []string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	for _, arg := range d.CmdArgs[1:] {
		claim.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: arg.Vals}},
		}}}}
	}
	spec := &claim.Spec.Devices
	var last *resourceapi.ExactDeviceRequest
	var exacts []alternative
	for _, line := range lines {
		words := strings.Fields(line)
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch words[0] {
		case "request":
			request := resourceapi.DeviceRequest{Name: strings.TrimSuffix(words[1], ":")}
			if words[2] != "first" {
				last = parseRequest(t, words[2:])
				request.Exactly = last
			}
			spec.Requests = append(spec.Requests, request)
		case "or":
			last = parseRequest(t, words[2:])
			alternatives := &spec.Requests[len(spec.Requests)-1].FirstAvailable
			*alternatives = append(*alternatives, resourceapi.DeviceSubRequest{Name: strings.TrimSuffix(words[1], ":")})
			exacts = append(exacts, alternative{request: len(spec.Requests) - 1, index: len(*alternatives) - 1, exact: last})
		case "where":
			last.Selectors = append(last.Selectors, selectors(rest)...)
		case "tolerate":
			last.Tolerations = append(last.Tolerations, resourceapi.DeviceToleration{Key: words[1], Operator: resourceapi.DeviceTolerationOpExists})
		case "derive":
			_, expression, _ := strings.Cut(rest, " ")
			last.DerivedAttributes = append(last.DerivedAttributes, resourceapi.DeviceDerivedAttribute{
				Name: resourceapi.FullyQualifiedName(words[1]), Expression: expression,
			})
		case "match":
			spec.Constraints = append(spec.Constraints, resourceapi.DeviceConstraint{
				MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(words[1])), Requests: words[2:],
			})
		case "distinct":
			spec.Constraints = append(spec.Constraints, resourceapi.DeviceConstraint{
				DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName(words[1])), Requests: words[2:],
			})
		case "config":
			spec.Config = append(spec.Config, resourceapi.DeviceClaimConfiguration{
				Requests: words[3:], DeviceConfiguration: opaque(t, words[1], words[2]),
			})
		default:
			t.Fatalf("unknown line of a claim: %s", line)
		}
	}
	for _, a := range exacts {
		sub, e := &spec.Requests[a.request].FirstAvailable[a.index], a.exact
		sub.DeviceClassName, sub.Selectors, sub.AllocationMode, sub.Count = e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count
		sub.Tolerations, sub.Capacity, sub.DerivedAttributes = e.Tolerations, e.Capacity, e.DerivedAttributes
	}
	return claim
}

// alternative is what an alternative of a request asks for, written down as if it
// were an exact request.
type alternative struct {
	request, index int
	exact          *resourceapi.ExactDeviceRequest
}

// parseRequest reads COUNT|all CLASS [FEATURE...].
func parseRequest(t *testing.T, words []string) *resourceapi.ExactDeviceRequest {
	exact := &resourceapi.ExactDeviceRequest{DeviceClassName: words[1], AllocationMode: resourceapi.DeviceAllocationModeExactCount}
	if words[0] == "all" {
		exact.AllocationMode = resourceapi.DeviceAllocationModeAll
	} else {
		exact.Count = parseInt(t, words[0])
	}
	for _, word := range words[2:] {
		switch key, text, _ := strings.Cut(word, "="); key {
		case "admin":
			exact.AdminAccess = ptr.To(true)
		case "capacity":
			name, amount, _ := strings.Cut(text, ":")
			if exact.Capacity == nil {
				exact.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{}}
			}
			exact.Capacity.Requests[resourceapi.QualifiedName(name)] = resource.MustParse(amount)
		default:
			t.Fatalf("unknown feature of a request: %s", word)
		}
	}
	return exact
}

func parseInt(t *testing.T, text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(fmt.Errorf("parsing a number: %w", err))
	}
	return number
}
