// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/structured"
)

// world is all that one answer depends on.
type world struct {
	node     *v1.Node
	features structured.Features
	slices   []*resourceapi.ResourceSlice
	classes  map[string]*resourceapi.DeviceClass
	state    structured.AllocatedState
	claims   []*resourceapi.ResourceClaim
}

// String shows what a case that failed was about.
func (w *world) String() string {
	var b strings.Builder
	show := func(name string, spec any) {
		text, err := yaml.Marshal(spec)
		fmt.Fprintf(&b, "--- %s\n%s", name, text)
		if err != nil {
			fmt.Fprintln(&b, err)
		}
	}
	for _, s := range w.slices {
		show("slice "+s.Name, s.Spec)
	}
	for _, claim := range w.claims {
		show("claim "+claim.Name, claim.Spec)
	}
	fmt.Fprintf(&b, "features %+v\nstate %+v\nnode declares %v\n", w.features, w.state, w.node.Status.DeclaredFeatures)
	return b.String()
}

func (w *world) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }

func (w *world) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := w.classes[name]; class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclasses"}, name)
}

// all are the features that differ in what they do. CompatibilityGroups is asked for
// because of upstream's allocators only the one that has them knows all the others.
var all = structured.Features{
	AdminAccess: true, CompatibilityGroups: true, ConsumableCapacity: true, DerivedAttributes: true, DeviceBindingAndStatus: true,
	DeviceTaints: true, FractionalCapacityRange: true, ListTypeAttributes: true, OptionalNodeOperations: true,
	PartitionableDevices: true, PrioritizedList: true,
}

// seldom is true once in n times.
func seldom(t *rapid.T, n int, label string) bool { return rapid.IntRange(1, n).Draw(t, label) == n }

// of draws one of several.
func of[T any](t *rapid.T, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, label)
}

func drawWorld(t *rapid.T) *world {
	w := &world{
		node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}},
		classes: map[string]*resourceapi.DeviceClass{
			"gpu": {ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{Selectors: selectors(`device.driver == "gpu.test"`)}},
			"any": {ObjectMeta: metav1.ObjectMeta{Name: "any"}},
		},
		state: structured.AllocatedState{
			AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity: structured.NewConsumedCapacityCollection(),
		},
		features: all,
	}
	if seldom(t, 4, "fewer features") {
		w.features.ListTypeAttributes = rapid.Bool().Draw(t, "lists")
		w.features.DeviceTaints = rapid.Bool().Draw(t, "taints")
		w.features.OptionalNodeOperations = rapid.Bool().Draw(t, "operations")
		w.features.DeviceBindingAndStatus = rapid.Bool().Draw(t, "conditions")
	}
	if rapid.Bool().Draw(t, "declares") {
		w.node.Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
	}
	// Upstream charges counters and capacity for a use with adminAccess, and keeps other
	// claims from the device, so those do not meet.
	admin := seldom(t, 3, "world with admin access")
	for p := range rapid.IntRange(1, 3).Draw(t, "pools") {
		w.drawPool(t, fmt.Sprintf("pool-%d", p), !admin, !admin && rapid.Bool().Draw(t, "partitioned"))
	}
	claims := 1
	if !admin {
		claims = rapid.IntRange(1, 2).Draw(t, "claims")
	}
	for c := range claims {
		w.claims = append(w.claims, drawClaim(t, fmt.Sprintf("claim-%d", c), admin))
	}
	if !w.features.ListTypeAttributes {
		// Upstream lets the first device of a constraint have any value.
		for _, s := range w.slices {
			for i := range s.Spec.Devices {
				delete(s.Spec.Devices[i].Attributes, "gpu.test/links")
			}
		}
	}
	return w
}

func (w *world) drawPool(t *rapid.T, name string, shareable, partitioned bool) {
	driver := of(t, "driver", "gpu.test", "gpu.test", "gpu.test", "nic.test")
	left, peers := map[string]int64{}, map[string][]string{}
	count := rapid.IntRange(1, 2).Draw(t, "slices")
	total := int64(count)
	if partitioned {
		total++
		w.slices = append(w.slices, poolSlice(driver, name, "counters", total))
		for set := range 2 {
			w.slices[len(w.slices)-1].Spec.SharedCounters = append(w.slices[len(w.slices)-1].Spec.SharedCounters, resourceapi.CounterSet{
				Name: fmt.Sprint("set-", set), Counters: map[string]resourceapi.Counter{
					"memory": counter(t, "memory", 4, 12), "units": counter(t, "units", 2, 6),
				},
			})
			for name, c := range w.slices[len(w.slices)-1].Spec.SharedCounters[set].Counters {
				left[fmt.Sprint("set-", set, name)] = c.Value.Value()
			}
		}
	}
	if seldom(t, 30, "missing slice") {
		total++
	}
	for s := range count {
		slice := poolSlice(driver, name, fmt.Sprint("slice-", s), total)
		slice.Spec.Pool.ResourceSliceCount = total
		scope := of(t, "scope", "n1", "n1", "n1", "n1", "n1", "all", "zone", "device", "n2")
		setScope(scope, &slice.Spec.NodeName, &slice.Spec.AllNodes, &slice.Spec.NodeSelector)
		if scope == "device" {
			slice.Spec.PerDeviceNodeSelection = ptr.To(true)
		}
		if seldom(t, 8, "skips operations") {
			slice.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
		}
		for d := range rapid.IntRange(2, 7).Draw(t, "devices") {
			device := drawDevice(t, fmt.Sprintf("dev-%d-%d", s, d), shareable, partitioned)
			if scope == "device" {
				setScope(of(t, "device scope", "n1", "n1", "n2", "all", "zone"), &device.NodeName, &device.AllNodes, &device.NodeSelector)
			}
			slice.Spec.Devices = append(slice.Spec.Devices, device)
			if seldom(t, 6, "in use") && charge(left, peers, &device) {
				w.use(t, slice, &device)
			}
		}
		w.slices = append(w.slices, slice)
	}
	for _, s := range w.slices {
		if s.Spec.Pool.Name == name {
			s.Spec.Pool.ResourceSliceCount = total
		}
	}
}

func poolSlice(driver, pool, name string, total int64) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: pool + "-" + name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To("n1"),
			Pool: resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: total},
		},
	}
}

func setScope(scope string, node **string, all **bool, selector **v1.NodeSelector) {
	*node = nil
	switch scope {
	case "n1", "n2":
		*node = &scope
	case "all":
		*all = ptr.To(true)
	case "zone":
		*selector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{
			Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"a"},
		}}}}}
	}
}

func quantity(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }

func counter(t *rapid.T, label string, least, most int) resourceapi.Counter {
	return resourceapi.Counter{Value: quantity(rapid.IntRange(least, most).Draw(t, label))}
}

func drawDevice(t *rapid.T, name string, shareable, partitioned bool) resourceapi.Device {
	d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"gpu.test/model": {StringValue: ptr.To(of(t, "model", "a", "a", "b"))},
		"gpu.test/numa":  {IntValue: ptr.To(int64(rapid.IntRange(0, 2).Draw(t, "numa")))},
	}}
	if !seldom(t, 6, "no root") {
		d.Attributes["gpu.test/root"] = resourceapi.DeviceAttribute{StringValue: ptr.To(of(t, "root", "x", "y", "z"))}
	}
	if !seldom(t, 6, "no links") {
		links := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"p", "q", "r"}), 1, 2, rapid.ID).Draw(t, "links")
		d.Attributes["gpu.test/links"] = resourceapi.DeviceAttribute{StringValues: links}
	}
	if seldom(t, 8, "tainted") {
		d.Taints = []resourceapi.DeviceTaint{{Key: "sick", Value: "yes", Effect: of(t, "effect", resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute, "None")}}
	}
	if seldom(t, 8, "binds") {
		d.BindingConditions, d.BindingFailureConditions = []string{"attached"}, []string{"failed"}
		d.BindsToNode = ptr.To(rapid.Bool().Draw(t, "to node"))
	}
	if shareable && seldom(t, 3, "shareable") {
		d.AllowMultipleAllocations = ptr.To(true)
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": drawCapacity(t)}
	}
	if partitioned && !seldom(t, 5, "no counters") {
		for set := range rapid.IntRange(1, 2).Draw(t, "sets") {
			consumes := resourceapi.DeviceCounterConsumption{
				CounterSet: fmt.Sprint("set-", (set+rapid.IntRange(0, 1).Draw(t, "set"))%2), Counters: map[string]resourceapi.Counter{"memory": counter(t, "takes memory", 0, 4)},
			}
			if slices.ContainsFunc(d.ConsumesCounters, func(c resourceapi.DeviceCounterConsumption) bool { return c.CounterSet == consumes.CounterSet }) {
				continue
			}
			if rapid.Bool().Draw(t, "takes units") {
				consumes.Counters["units"] = counter(t, "units taken", 0, 2)
			}
			if seldom(t, 4, "grouped") {
				consumes.CompatibilityGroups = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"g", "h"}), 1, 2, rapid.ID).Draw(t, "groups")
			}
			d.ConsumesCounters = append(d.ConsumesCounters, consumes)
		}
	}
	return d
}

func drawCapacity(t *rapid.T) resourceapi.DeviceCapacity {
	c := resourceapi.DeviceCapacity{Value: quantity(rapid.IntRange(4, 10).Draw(t, "capacity"))}
	switch of(t, "policy", "", "default", "values", "range") {
	case "default":
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: ptr.To(quantity(2))}
	case "values":
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: ptr.To(quantity(2)), ValidValues: []resource.Quantity{quantity(2), quantity(4)}}
	case "range":
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: ptr.To(quantity(3)), ValidRange: &resourceapi.CapacityRequestPolicyRange{
			Min: ptr.To(quantity(1)), Max: ptr.To(quantity(5)), Step: ptr.To(quantity(2)),
		}}
	}
	return c
}

// charge takes what the device consumes from the counters that are left, if there
// is enough, and if it gets on with its peers.
func charge(left map[string]int64, peers map[string][]string, d *resourceapi.Device) bool {
	after := maps.Clone(left)
	for _, consumes := range d.ConsumesCounters {
		if groups, ok := peers[consumes.CounterSet]; ok && !slices.Equal(groups, consumes.CompatibilityGroups) {
			return false
		}
		for name, c := range consumes.Counters {
			after[consumes.CounterSet+name] -= c.Value.Value()
			if after[consumes.CounterSet+name] < 0 {
				return false
			}
		}
	}
	maps.Copy(left, after)
	for _, consumes := range d.ConsumesCounters {
		peers[consumes.CounterSet] = consumes.CompatibilityGroups
	}
	return true
}

// use has the device used already: as a whole, or in shares.
func (w *world) use(t *rapid.T, s *resourceapi.ResourceSlice, d *resourceapi.Device) {
	id := structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name)
	if !ptr.Deref(d.AllowMultipleAllocations, false) {
		w.state.AllocatedDevices.Insert(id)
		return
	}
	share := types.UID("share of " + d.Name)
	w.state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, &share))
	w.state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, map[resourceapi.QualifiedName]resource.Quantity{
		"memory": quantity(rapid.IntRange(0, 4).Draw(t, "consumed")),
	}))
}

func drawClaim(t *rapid.T, name string, admin bool) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	var names []string
	for r := range rapid.IntRange(1, 3).Draw(t, "requests") {
		request := resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", r)}
		names = append(names, request.Name)
		if seldom(t, 3, "alternatives") {
			for a := range rapid.IntRange(2, 3).Draw(t, "how many") {
				sub := drawRequest(t)
				sub.Name = fmt.Sprintf("a%d", a)
				request.FirstAvailable = append(request.FirstAvailable, sub)
				names = append(names, request.Name+"/"+sub.Name)
			}
		} else {
			d := drawRequest(t)
			request.Exactly = &resourceapi.ExactDeviceRequest{
				DeviceClassName: d.DeviceClassName, Selectors: d.Selectors, AllocationMode: d.AllocationMode, Count: d.Count,
				Tolerations: d.Tolerations, Capacity: d.Capacity, DerivedAttributes: d.DerivedAttributes,
			}
			if admin && seldom(t, 6, "admin") {
				request.Exactly.AdminAccess = ptr.To(true)
			}
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	}
	some := func(label string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, label)
	}
	for range of(t, "constraints", 0, 0, 0, 1, 1, 2) {
		attribute := ptr.To(of[resourceapi.FullyQualifiedName](t, "attribute", "gpu.test/root", "gpu.test/numa", "gpu.test/links", "derived.test/spot"))
		constraint := resourceapi.DeviceConstraint{Requests: some("constrained")}
		if rapid.Bool().Draw(t, "match") {
			constraint.MatchAttribute = attribute
		} else {
			constraint.DistinctAttribute = attribute
		}
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, constraint)
	}
	for range of(t, "configs", 0, 0, 1) {
		claim.Spec.Devices.Config = append(claim.Spec.Devices.Config, resourceapi.DeviceClaimConfiguration{
			Requests:            some("configured"),
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "gpu.test"}},
		})
	}
	return claim
}

func drawRequest(t *rapid.T) resourceapi.DeviceSubRequest {
	r := resourceapi.DeviceSubRequest{
		DeviceClassName: of(t, "class", "gpu", "gpu", "any"),
		AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
		Count:           rapid.Int64Range(1, 3).Draw(t, "count"),
	}
	if seldom(t, 10, "all") {
		r.AllocationMode, r.Count = resourceapi.DeviceAllocationModeAll, 0
	}
	if model := of(t, "wants model", "", "", "", "", "", "a", "b"); model != "" {
		r.Selectors = selectors(fmt.Sprintf(`device.attributes["gpu.test"].model == %q`, model))
	}
	if seldom(t, 15, "wants shareable") {
		r.Selectors = append(r.Selectors, selectors(`device.allowMultipleAllocations == true`)...)
	}
	if seldom(t, 3, "tolerates") {
		r.Tolerations = []resourceapi.DeviceToleration{{Key: "sick", Operator: resourceapi.DeviceTolerationOpExists}}
	}
	if seldom(t, 8, "wants capacity") {
		r.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
			"memory": quantity(rapid.IntRange(1, 6).Draw(t, "wants memory")),
		}}
	}
	if seldom(t, 3, "derives") {
		r.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{
			Name:       "derived.test/spot",
			Expression: of(t, "expression", `device.attributes["gpu.test"].model`, `device.driver`, `device.attributes["gpu.test"].numa`),
		}}
	}
	return r
}

func selectors(expressions ...string) []resourceapi.DeviceSelector {
	var all []resourceapi.DeviceSelector
	for _, expression := range expressions {
		all = append(all, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return all
}
