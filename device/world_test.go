// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/internal/property"
)

func TestMain(m *testing.M) { property.Main(m) }

// features are those that random worlds make use of.
var features = device.Features{DeviceTaints: true, PartitionableDevices: true}

// world is all that one answer depends on: one node, its pools, who holds what,
// and the claims of one pod.
type world struct {
	node    *v1.Node
	slices  []*resourceapi.ResourceSlice
	holding []*resourceapi.ResourceClaim
	classes map[string]*resourceapi.DeviceClass
	claims  []*resourceapi.ResourceClaim
}

func (w *world) class(name string) *resourceapi.DeviceClass { return w.classes[name] }

func (w *world) view() *device.View { return viewOf(w.slices, w.holding) }

func (w *world) compile(t interface {
	Fatalf(format string, args ...any)
	Helper()
}, o device.Options,
) *device.Problem {
	t.Helper()
	problem, refused := device.Compile(w.claims, w.class, o)
	if refused != nil {
		t.Fatalf("the claims do not compile: %v, %+v", refused, refused.Facts)
	}
	return problem
}

// viewOf compiles pools and use from objects, as a caller does from its stores.
func viewOf(published []*resourceapi.ResourceSlice, holding []*resourceapi.ResourceClaim) *device.View {
	var ids []device.PoolID
	byPool := map[device.PoolID][]*resourceapi.ResourceSlice{}
	for _, s := range published {
		id := device.PoolID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name}
		if byPool[id] == nil {
			ids = append(ids, id)
		}
		byPool[id] = append(byPool[id], s)
	}
	var pools []device.PoolView
	for _, id := range ids {
		pools = append(pools, device.PoolView{Pool: device.CompilePool(byPool[id]), Use: device.CompileUse(id, holding)})
	}
	return device.NewView(pools)
}

// size bounds a random world.
type size struct {
	pools, devicesPerSlice, claims, requests, count int
}

var attributeNames = []resourceapi.FullyQualifiedName{"gpu.test/root", "gpu.test/numa", "gpu.test/fast", "gpu.test/version"}

// drawWorld makes a world of devices that are often alike, with claims that are
// often just possible or just not.
func drawWorld(t *rapid.T, most size) *world {
	w := &world{
		node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}},
		classes: map[string]*resourceapi.DeviceClass{
			"gpu": {
				ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
				Spec:       resourceapi.DeviceClassSpec{Selectors: selectors(`device.driver == "gpu.test"`)},
			},
			"any": {ObjectMeta: metav1.ObjectMeta{Name: "any"}},
		},
	}
	for p := range rapid.IntRange(1, most.pools).Draw(t, "pools") {
		w.drawPool(t, fmt.Sprintf("pool-%d", p), most)
	}
	w.drawHolders(t)
	for c := range rapid.IntRange(1, most.claims).Draw(t, "claims") {
		w.claims = append(w.claims, drawClaim(t, fmt.Sprintf("claim-%d", c), most))
	}
	return w
}

func (w *world) drawPool(t *rapid.T, name string, most size) {
	driver := rapid.SampledFrom([]string{"gpu.test", "gpu.test", "gpu.test", "nic.test"}).Draw(t, "driver")
	count := rapid.IntRange(1, 2).Draw(t, "slices")
	missing := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}).Draw(t, "missing slices")
	for s := range count {
		slice := &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, s)},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: driver,
				Pool:   resourceapi.ResourcePool{Name: name, Generation: 2, ResourceSliceCount: int64(count + missing)},
			},
		}
		perDevice := drawScope(t, &slice.Spec.NodeName, &slice.Spec.AllNodes, &slice.Spec.NodeSelector)
		// IntRange prefers few, which makes most worlds impossible.
		for d := range rapid.SampledFrom(upTo(most.devicesPerSlice)).Draw(t, "devices") {
			dev := drawDevice(t, fmt.Sprintf("dev-%d-%d", s, d))
			if perDevice {
				for drawScope(t, &dev.NodeName, &dev.AllNodes, &dev.NodeSelector) {
				}
			}
			slice.Spec.Devices = append(slice.Spec.Devices, dev)
		}
		if perDevice {
			slice.Spec.PerDeviceNodeSelection = ptr.To(true)
		}
		w.slices = append(w.slices, slice)
		if rapid.IntRange(0, 9).Draw(t, "stale") == 0 {
			stale := slice.DeepCopy()
			stale.Name = "stale-" + stale.Name
			stale.Spec.Pool.Generation = 1
			w.slices = append(w.slices, stale)
		}
	}
}

// upTo are the numbers from 0 to n.
func upTo(n int) []int {
	all := make([]int, n+1)
	for i := range all {
		all[i] = i
	}
	return all
}

// drawScope sets one of the three, or none and says that each device decides.
func drawScope(t *rapid.T, node **string, all **bool, selector **v1.NodeSelector) bool {
	switch rapid.SampledFrom([]string{"n1", "n1", "n1", "n1", "n1", "n2", "all", "selector", "device", "device"}).Draw(t, "scope") {
	case "n1":
		*node = ptr.To("n1")
	case "n2":
		*node = ptr.To("n2")
	case "all":
		*all = ptr.To(true)
	case "selector":
		*selector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{
			Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "zone")},
		}}}}}
	default:
		return true
	}
	return false
}

func drawDevice(t *rapid.T, name string) resourceapi.Device {
	d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"gpu.test/model": {StringValue: ptr.To(rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "model"))},
	}}
	seldom := rapid.SampledFrom([]bool{true, true, true, true, true, true, true, false})
	if seldom.Draw(t, "has root") {
		d.Attributes["gpu.test/root"] = resourceapi.DeviceAttribute{StringValue: ptr.To(rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "root"))}
	}
	if seldom.Draw(t, "has numa") {
		d.Attributes["gpu.test/numa"] = resourceapi.DeviceAttribute{IntValue: ptr.To(rapid.Int64Range(0, 1).Draw(t, "numa"))}
	}
	if seldom.Draw(t, "has fast") {
		d.Attributes["gpu.test/fast"] = resourceapi.DeviceAttribute{BoolValue: ptr.To(rapid.Bool().Draw(t, "fast"))}
	}
	d.Attributes["gpu.test/version"] = resourceapi.DeviceAttribute{VersionValue: ptr.To(rapid.SampledFrom([]string{"1.0.0", "1.0.1"}).Draw(t, "version"))}
	if !seldom.Draw(t, "healthy") {
		d.Taints = []resourceapi.DeviceTaint{{
			Key:    "sick",
			Value:  "yes",
			Effect: rapid.SampledFrom([]resourceapi.DeviceTaintEffect{"NoSchedule", "NoExecute", "None"}).Draw(t, "effect"),
		}}
	}
	return d
}

func (w *world) drawHolders(t *rapid.T) {
	for _, s := range w.slices {
		for _, d := range s.Spec.Devices {
			if rapid.IntRange(0, 7).Draw(t, "held") != 0 {
				continue
			}
			result := resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d.Name}
			w.holding = append(w.holding, &resourceapi.ResourceClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: fmt.Sprintf("holder-%d", len(w.holding))},
				Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
					Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}},
				}},
			})
		}
	}
}

func drawClaim(t *rapid.T, name string, most size) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	var names []string
	for r := range rapid.IntRange(1, most.requests).Draw(t, "requests") {
		request := resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", r), Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: rapid.SampledFrom([]string{"gpu", "gpu", "any"}).Draw(t, "class"),
			AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
			Count:           rapid.Int64Range(1, int64(most.count)).Draw(t, "count"),
		}}
		if rapid.IntRange(0, 9).Draw(t, "all") == 0 {
			request.Exactly.AllocationMode, request.Exactly.Count = resourceapi.DeviceAllocationModeAll, 0
		}
		if model := rapid.SampledFrom([]string{"", "", "", "a", "b"}).Draw(t, "wants model"); model != "" {
			request.Exactly.Selectors = selectors(fmt.Sprintf(`device.attributes["gpu.test"].model == %q`, model))
		}
		if rapid.IntRange(0, 3).Draw(t, "tolerant") == 0 {
			request.Exactly.Tolerations = []resourceapi.DeviceToleration{{Key: "sick", Operator: resourceapi.DeviceTolerationOpExists}}
		}
		names = append(names, request.Name)
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	}
	for range rapid.SampledFrom([]int{0, 0, 1, 1, 2, 3}).Draw(t, "constraints") {
		constraint := resourceapi.DeviceConstraint{MatchAttribute: ptr.To(rapid.SampledFrom(attributeNames).Draw(t, "attribute"))}
		if rapid.Bool().Draw(t, "scoped") {
			constraint.Requests = slices.Clone(names[rapid.IntRange(0, len(names)-1).Draw(t, "first request"):])
		}
		claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, constraint)
	}
	return claim
}

func selectors(expressions ...string) []resourceapi.DeviceSelector {
	var all []resourceapi.DeviceSelector
	for _, expression := range expressions {
		all = append(all, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return all
}

// shareIDs makes IDs that count from one.
func shareIDs() func() types.UID {
	n := 0
	return func() types.UID { n++; return types.UID(fmt.Sprint("share-", n)) }
}

// chosen lists the devices of a plan, one line per result.
func chosen(results []resourceapi.AllocationResult) []string {
	var lines []string
	for i := range results {
		for _, r := range results[i].Devices.Results {
			lines = append(lines, fmt.Sprintf("claim %d %s %s/%s/%s", i, r.Request, r.Driver, r.Pool, r.Device))
		}
	}
	return lines
}
