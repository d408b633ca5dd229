// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// twoOfFive is a claim for two alike devices, where the first two are the plan.
// The others are each wrong in one way.
func twoOfFive(t *testing.T) (*Problem, NodeView, Plan) {
	t.Helper()
	root := func(name string) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
		return map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"root": {StringValue: &name}}
	}
	published := func(name, node string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: "gpu.test", NodeName: &node, Devices: devices,
				Pool: resourceapi.ResourcePool{Name: "pool", ResourceSliceCount: 2},
			},
		}
	}
	pool := CompilePool([]*resourceapi.ResourceSlice{
		published("here", "n1",
			resourceapi.Device{Name: "good-0", Attributes: root("x")},
			resourceapi.Device{Name: "good-1", Attributes: root("x")},
			resourceapi.Device{Name: "held", Attributes: root("x")},
			resourceapi.Device{Name: "tainted", Attributes: root("x"), Taints: []resourceapi.DeviceTaint{{Key: "sick", Effect: "NoSchedule"}}},
			resourceapi.Device{Name: "other-root", Attributes: root("y")},
			resourceapi.Device{Name: "rootless"},
			resourceapi.Device{Name: "unwanted", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"root": {StringValue: ptr.To("x")}, "slow": {BoolValue: ptr.To(true)},
			}},
			resourceapi.Device{Name: "partition", Attributes: root("x"), ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "set"}}},
		),
		published("there", "n2", resourceapi.Device{Name: "elsewhere", Attributes: root("x")}),
	})
	holder := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "holder"}}
	holder.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "gpu.test", Pool: "pool", Device: "held"}},
	}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim"}}
	claim.Spec.Devices = resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{{Name: "gpus", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu", Count: 2,
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `!("slow" in device.attributes["gpu.test"])`}}},
		}}},
		Constraints: []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.test/root"))}},
	}
	classes := func(name string) *resourceapi.DeviceClass {
		return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	problem, refused := Compile([]*resourceapi.ResourceClaim{claim}, classes, Options{Features: Features{DeviceTaints: true}})
	if refused != nil {
		t.Fatal(refused)
	}
	view := NewView([]PoolView{{Pool: pool, Use: CompileUse(pool.ID(), []*resourceapi.ResourceClaim{holder})}})
	node := view.Node(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	plan, refused := problem.Solve(node)
	if refused != nil {
		t.Fatal(refused)
	}
	return problem, node, plan
}

func TestVerifyFindsWhatIsBroken(t *testing.T) {
	problem, node, plan := twoOfFive(t)
	if err := Verify(problem, node, plan); err != nil {
		t.Fatalf("the plan is right: %v", err)
	}
	pool := node.Pools[0].Pool
	at := func(name string) pick {
		for i := range pool.devices {
			if pool.devices[i].api.Name == name {
				return pick{place: place{device: int32(i)}}
			}
		}
		t.Fatalf("no device %s", name)
		return pick{}
	}
	for second, want := range map[string]string{
		"good-0":     "is used for request gpus and again",
		"held":       "is in use",
		"tainted":    "taint",
		"other-root": "device other-root has another gpu.test/root than the others",
		"rootless":   "has no attribute gpu.test/root",
		"unwanted":   "a selector does not accept it",
		"partition":  "needs what is switched off",
		"elsewhere":  "the node cannot reach it",
	} {
		broken := plan
		broken.picks = []pick{at("good-0"), at(second)}
		if err := Verify(problem, node, broken); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("good-0 and %s: got %v, want %q", second, err, want)
		}
	}
	for name, picks := range map[string][]pick{"one device": {at("good-0")}} {
		broken := plan
		broken.picks = picks
		if err := Verify(problem, node, broken); err == nil || !strings.Contains(err.Error(), "wants 2") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSelectorsAreBounded(t *testing.T) {
	s := NewSelectors(2)
	first := s.compile("true", selects, Features{})
	s.compile("false", selects, Features{})
	if s.compile("true", selects, Features{}) != first {
		t.Error("an expression was compiled twice")
	}
	s.compile("true && false", selects, Features{})
	if len(s.programs) != 2 || s.recent.Len() != 2 {
		t.Errorf("%d and %d expressions are kept, want 2", len(s.programs), s.recent.Len())
	}
	if s.compile("true", selects, Features{}) != first {
		t.Error("the expression that was used last is gone")
	}
}

func TestMemosAreBoundedAndKept(t *testing.T) {
	var m memo[int, string]
	if m.keep(1, "first") != "first" || m.keep(1, "second") != "first" {
		t.Error("what was made first is not kept")
	}
	for i := range 2 * memoSize {
		m.keep(i, "")
	}
	if len(m.known) != memoSize || len(m.order) != memoSize {
		t.Errorf("%d and %d results are kept, want %d", len(m.known), len(m.order), memoSize)
	}
}

// A slice that names a node and has its devices select theirs as well is not for the
// node that it names: an incomplete pool of it does not keep all devices from that.
func TestVerifyReadsNodesAsSolveDoes(t *testing.T) {
	published := func(pool string, perDevice bool, announced int64) *Pool {
		return CompilePool([]*resourceapi.ResourceSlice{{
			ObjectMeta: metav1.ObjectMeta{Name: pool},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: "gpu.test", NodeName: ptr.To("n1"), PerDeviceNodeSelection: &perDevice,
				Devices: []resourceapi.Device{{Name: "gpu"}}, Pool: resourceapi.ResourcePool{Name: pool, ResourceSliceCount: announced},
			},
		}})
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "all", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeAll,
	}}}
	problem, refused := Compile([]*resourceapi.ResourceClaim{claim}, func(name string) *resourceapi.DeviceClass {
		return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}, Options{})
	if refused != nil {
		t.Fatal(refused)
	}
	node := NewView([]PoolView{{Pool: published("whole", false, 1)}, {Pool: published("odd", true, 2)}}).
		Node(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	plan, refused := problem.Solve(node)
	if refused != nil {
		t.Fatal(refused)
	}
	if err := Verify(problem, node, plan); err != nil {
		t.Error(err)
	}
}

// oneOf compiles a claim for devices of any class, and the slices of one pool each.
func oneOf(t *testing.T, mode resourceapi.DeviceAllocationMode, pools ...[]*resourceapi.ResourceSlice) (*Problem, []PoolView) {
	t.Helper()
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim"}}
	request := resourceapi.ExactDeviceRequest{DeviceClassName: "any", AllocationMode: mode}
	if mode == resourceapi.DeviceAllocationModeExactCount {
		request.Count = 1
	}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "devices", Exactly: &request}}
	classes := func(name string) *resourceapi.DeviceClass {
		return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	problem, refused := Compile([]*resourceapi.ResourceClaim{claim}, classes, Options{Features: Features{PartitionableDevices: true}})
	if refused != nil {
		t.Fatal(refused)
	}
	var views []PoolView
	for _, slices := range pools {
		views = append(views, PoolView{Pool: CompilePool(slices)})
	}
	return problem, views
}

// Mode All needs to see every device that the node may use, whichever way a slice
// says so.
func TestVerifyMissesNoPoolInModeAll(t *testing.T) {
	published := func(pool string, count int64, change func(*resourceapi.ResourceSliceSpec)) []*resourceapi.ResourceSlice {
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: pool}, Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.test", Devices: []resourceapi.Device{{Name: "gpu"}},
			Pool: resourceapi.ResourcePool{Name: pool, ResourceSliceCount: count},
		}}
		change(&slice.Spec)
		return []*resourceapi.ResourceSlice{slice}
	}
	named := func(name string) func(*resourceapi.ResourceSliceSpec) {
		return func(s *resourceapi.ResourceSliceSpec) { s.NodeName = &name }
	}
	for name, test := range map[string]struct {
		reach func(*resourceapi.ResourceSliceSpec)
		wrong bool
	}{
		"this node":    {named("n1"), true},
		"another node": {named("n2"), false},
		"all nodes":    {func(s *resourceapi.ResourceSliceSpec) { s.AllNodes = ptr.To(true) }, true},
		"a device for this node": {func(s *resourceapi.ResourceSliceSpec) {
			s.PerDeviceNodeSelection, s.Devices[0].NodeName = ptr.To(true), ptr.To("n1")
		}, true},
		"a device for another node": {func(s *resourceapi.ResourceSliceSpec) {
			s.PerDeviceNodeSelection, s.Devices[0].NodeName = ptr.To(true), ptr.To("n2")
		}, false},
	} {
		problem, pools := oneOf(t, resourceapi.DeviceAllocationModeAll, published("a", 1, named("n1")), published("b", 2, test.reach))
		n1 := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		plan, refused := problem.Solve(NewView(pools[:1]).Node(n1))
		if refused != nil {
			t.Fatal(refused)
		}
		all := NewView(pools).Node(n1)
		// That a device of it is missing from the plan is another error.
		if err := Verify(problem, all, plan); (err != nil && strings.Contains(err.Error(), "pool gpu.test/b: ")) != test.wrong {
			t.Errorf("a slice is missing of a pool for %s: got %v", name, err)
		}
		if _, refused := problem.Solve(all); (refused != nil) != test.wrong {
			t.Errorf("a slice is missing of a pool for %s: Solve says %v", name, refused)
		}
	}
}

// Where others have taken more than there is, a device that takes nothing is refused
// too, as by Kubernetes' own allocator.
func TestNothingIsTakenOfAnOverdrawnCounter(t *testing.T) {
	consumes := func(amount string) []resourceapi.DeviceCounterConsumption {
		return []resourceapi.DeviceCounterConsumption{{
			CounterSet: "set", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(amount)}},
		}}
	}
	pool := resourceapi.ResourcePool{Name: "pool", ResourceSliceCount: 2}
	problem, pools := oneOf(t, resourceapi.DeviceAllocationModeExactCount, []*resourceapi.ResourceSlice{
		{ObjectMeta: metav1.ObjectMeta{Name: "counters"}, Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.test", Pool: pool, AllNodes: ptr.To(true),
			SharedCounters: []resourceapi.CounterSet{{Name: "set", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("2")}}}},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "devices"}, Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.test", Pool: pool, AllNodes: ptr.To(true),
			Devices: []resourceapi.Device{
				{Name: "frugal", ConsumesCounters: consumes("0")}, {Name: "greedy", ConsumesCounters: consumes("3")},
			},
		}},
	})
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	plan, refused := problem.Solve(NewView(pools).Node(node))
	if refused != nil {
		t.Fatal(refused)
	}
	holder := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "holder"}}
	holder.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "gpu.test", Pool: "pool", Device: "greedy"}},
	}}
	pools[0].Use = CompileUse(pools[0].Pool.ID(), []*resourceapi.ResourceClaim{holder})
	overdrawn := NewView(pools).Node(node)
	if _, refused := problem.Solve(overdrawn); refused == nil {
		t.Error("Solve takes a device of an overdrawn counter")
	}
	if err := Verify(problem, overdrawn, plan); err == nil || !strings.Contains(err.Error(), "overdrawn by 1") {
		t.Errorf("Verify: %v", err)
	}
}
