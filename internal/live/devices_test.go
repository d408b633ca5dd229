// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/device"
)

// The informers of these tests never run; a test puts into their stores what
// they show, as late as it likes.
func newTestDevices(t *testing.T) (*Devices, informers.SharedInformerFactory) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	devices, err := For(ctx, factory).Devices()
	if err != nil {
		t.Fatal(err)
	}
	return devices, factory
}

func showClaims(t *testing.T, factory informers.SharedInformerFactory, claims ...*resourceapi.ResourceClaim) {
	t.Helper()
	for _, claim := range claims {
		if err := factory.Resource().V1().ResourceClaims().Informer().GetIndexer().Add(claim); err != nil {
			t.Fatal(err)
		}
	}
}

func resourceClaim(name, version string, devices ...string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: version},
	}
	for _, name := range devices {
		if claim.Status.Allocation == nil {
			claim.Status.Allocation = &resourceapi.AllocationResult{}
		}
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: "d", Pool: "n1", Device: name})
	}
	return claim
}

func resourceSlice(node string) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "d", NodeName: ptr.To(node),
			Pool:    resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
		},
	}
}

// holders returns the claims that count as holders of devices of pool n1.
func holders(t *testing.T, d *Devices) []string {
	t.Helper()
	claims, err := d.claimsOf(device.PoolID{Driver: "d", Pool: "n1"}, newInFlight(d.ledger.InFlight()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, claim := range claims {
		names = append(names, claim.Name+"@"+claim.ResourceVersion)
	}
	return names
}

func never(_, _ *resourceapi.ResourceClaim) error { return nil }

func TestDevicesOfAClaimAreTakenFromReserveOn(t *testing.T) {
	d, factory := newTestDevices(t)
	showClaims(t, factory, resourceClaim("a", "1"))
	step := func(what string, wantAllocated, wantPending bool, want ...string) {
		t.Helper()
		if got := holders(t, d); !slices.Equal(got, want) {
			t.Errorf("%s: holders are %v, want %v", what, got, want)
		}
		claim, pending := d.Claim("default", "a")
		if allocated := claim.Status.Allocation != nil; allocated != wantAllocated || pending != wantPending {
			t.Errorf("%s: allocated %v, pending %v; want %v, %v", what, allocated, pending, wantAllocated, wantPending)
		}
	}
	step("nothing planned", false, false)

	if err := d.ledger.Reserve("pod", []*resourceapi.ResourceClaim{resourceClaim("a", "1", "gpu-0")}, never); err != nil {
		t.Fatal(err)
	}
	step("planned", true, true, "a@1")

	showClaims(t, factory, resourceClaim("a", "2"))
	step("changed by someone since", true, true, "a@1")

	d.ledger.Wrote("pod", resourceClaim("a", "4", "gpu-0"))
	step("written, not in the store", true, false, "a@4")

	showClaims(t, factory, resourceClaim("a", "4", "gpu-0"))
	step("written, in the store", true, false, "a@4")

	d.ledger.Wrote("pod", resourceClaim("a", "5"))
	step("given up, still in the store", false, false)

	showClaims(t, factory, resourceClaim("a", "5"))
	step("given up", false, false)
}

func TestPlanAndForeignAllocationBothCount(t *testing.T) {
	d, factory := newTestDevices(t)
	showClaims(t, factory, resourceClaim("a", "1"))
	if err := d.ledger.Reserve("pod", []*resourceapi.ResourceClaim{resourceClaim("a", "1", "gpu-0")}, never); err != nil {
		t.Fatal(err)
	}
	showClaims(t, factory, resourceClaim("a", "2", "gpu-1"))
	if got, want := holders(t, d), []string{"a@1", "a@2"}; !slices.Equal(got, want) {
		t.Errorf("holders are %v, want %v", got, want)
	}
	if claim, pending := d.Claim("default", "a"); pending || claim.ResourceVersion != "2" {
		t.Errorf("the claim is seen as version %s, pending %v; the API server has allocated it", claim.ResourceVersion, pending)
	}
	d.ledger.Undo("pod", "a")
	if got, want := holders(t, d), []string{"a@2"}; !slices.Equal(got, want) {
		t.Errorf("after undo holders are %v, want %v", got, want)
	}
}

func TestOnlyWhatChangedIsCompiledAgain(t *testing.T) {
	d, factory := newTestDevices(t)
	s1, s2 := resourceSlice("n1"), resourceSlice("n2")
	look := func(slices ...*resourceapi.ResourceSlice) map[string]device.PoolView {
		t.Helper()
		v := d.View(slices)
		seen := map[string]device.PoolView{}
		for _, name := range []string{"n1", "n2"} {
			view, err := v.Node(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
			if err != nil || len(view.Pools) != 1 {
				t.Fatalf("node %s: %d pools, %v", name, len(view.Pools), err)
			}
			seen[name] = view.Pools[0]
		}
		return seen
	}
	showClaims(t, factory, resourceClaim("b", "1", "gpu-1"))
	first := look(s1, s2)
	if again := look(s2, s1); !maps.Equal(again, first) {
		t.Error("something was compiled again although nothing changed")
	}

	showClaims(t, factory, resourceClaim("a", "1", "gpu-0"))
	second := look(s1, s2)
	if second["n1"].Use == first["n1"].Use {
		t.Error("the View does not show a claim that was allocated")
	}
	if second["n1"].Pool != first["n1"].Pool || second["n2"] != first["n2"] {
		t.Error("more was compiled again than the use of one pool")
	}

	third := look(s1, resourceSlice("n2"))
	if third["n2"].Pool == second["n2"].Pool {
		t.Error("the View does not show a slice that was replaced")
	}
	if third["n1"] != second["n1"] {
		t.Error("a pool was compiled again although its slices are the same")
	}
}

// A cycle pays for the pools that its nodes can see.
func TestUseIsLookedUpOnlyForPoolsThatANodeSees(t *testing.T) {
	d, factory := newTestDevices(t)
	showClaims(t, factory, resourceClaim("a", "1", "gpu-0"))
	view := d.View([]*resourceapi.ResourceSlice{resourceSlice("n1"), resourceSlice("n2")})
	for range 2 {
		if _, err := view.Node(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}); err != nil {
			t.Fatal(err)
		}
	}
	looked := 0
	view.uses.Range(func(_, _ any) bool { looked++; return true })
	if looked != 1 || len(d.uses) != 0 {
		t.Errorf("looked at the use of %d pools and compiled %d, want 1 and 0", looked, len(d.uses))
	}
}

// A claim that is committed during a cycle goes from the ledger to the store;
// whoever looks last in the cycle still has to see it.
func TestViewDoesNotMissAClaimOnItsWayToTheStore(t *testing.T) {
	d, factory := newTestDevices(t)
	showClaims(t, factory, resourceClaim("a", "1"))
	if err := d.ledger.Reserve("pod", []*resourceapi.ResourceClaim{resourceClaim("a", "1", "gpu-0")}, never); err != nil {
		t.Fatal(err)
	}
	view := d.View([]*resourceapi.ResourceSlice{resourceSlice("n1")})
	d.ledger.Wrote("pod", resourceClaim("a", "2", "gpu-0"))
	showClaims(t, factory, resourceClaim("a", "2", "gpu-0"))
	d.ledger.InFlight() // the entry leaves
	seen, err := view.Node(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	if err != nil || seen.Pools[0].Use == nil {
		t.Errorf("the device counts as free: %+v, %v", seen.Pools, err)
	}
}

func TestNodeAfterAChange(t *testing.T) {
	d, factory := newTestDevices(t)
	held := resourceClaim("a", "1", "gpu-0")
	showClaims(t, factory, held)
	view := d.View([]*resourceapi.ResourceSlice{resourceSlice("n1")})
	want := resourceClaim("w", "1")
	want.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "c", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
	}}}
	problem, rejection := device.Compile([]*resourceapi.ResourceClaim{want},
		func(string) *resourceapi.DeviceClass { return &resourceapi.DeviceClass{} }, device.Options{})
	if rejection != nil {
		t.Fatal(rejection)
	}
	for name, test := range map[string]struct {
		change Change
		want   string
	}{
		"nothing":      {Change{}, "gpu-1"},
		"a claim gone": {Change{Gone: func(c *resourceapi.ResourceClaim) bool { return c.UID == held.UID }}, "gpu-0"},
		"one more":     {Change{Extra: []*resourceapi.ResourceClaim{resourceClaim("x", "1", "gpu-1")}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			seen, err := view.NodeAfter(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, test.change)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if plan, rejection := problem.Solve(seen); rejection == nil {
				got = plan.Results(nil)[0].Devices.Results[0].Device
			}
			if got != test.want {
				t.Errorf("got device %q, want %q", got, test.want)
			}
		})
	}
}

func TestStoresAreOnePerFactory(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	stores := For(ctx, factory)
	if For(context.Background(), factory) != stores {
		t.Error("a second profile got Stores of its own")
	}
	if For(ctx, informers.NewSharedInformerFactory(fake.NewClientset(), 0)) == stores {
		t.Error("another factory got the same Stores")
	}
	devices, err := stores.Devices()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := stores.Devices(); err != nil || again != devices {
		t.Errorf("the second profile got other Devices: %v", err)
	}
	cancel()
}

func TestPodsOfAClaim(t *testing.T) {
	d, factory := newTestDevices(t)
	indexer := factory.Core().V1().Pods().Informer().GetIndexer()
	for name, claims := range map[string][]v1.PodResourceClaim{
		"names it twice": {{Name: "x", ResourceClaimName: ptr.To("a")}, {Name: "y", ResourceClaimName: ptr.To("a")}},
		"names another":  {{Name: "x", ResourceClaimName: ptr.To("b")}},
		"waits for one":  {{Name: "x", ResourceClaimTemplateName: ptr.To("a")}},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.PodSpec{ResourceClaims: claims}}
		if err := indexer.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	got, err := d.PodsOf(resourceClaim("a", "1"))
	if err != nil || len(got) != 1 || got[0].Name != "names it twice" {
		t.Errorf("got %v, %v", got, err)
	}
}

// A View that was made while a claim was planned sees it once, also when the store
// shows it, under the UID that it has got meanwhile, before the View asks.
func TestClaimThatIsCreatedDuringAViewCountsOnce(t *testing.T) {
	d, factory := newTestDevices(t)
	plan := resourceClaim("pod-extended-resources-abcde", "", "gpu-0")
	plan.UID = "made-up"
	if err := d.Ledger().Reserve("pod", []*resourceapi.ResourceClaim{plan}, never); err != nil {
		t.Fatal(err)
	}
	frozen := newInFlight(d.Ledger().InFlight())
	created := resourceClaim(plan.Name, "7", "gpu-0")
	created.UID = "real"
	d.Ledger().Replace(plan.UID, created)
	showClaims(t, factory, created)
	claims, err := d.claimsOf(device.PoolID{Driver: "d", Pool: "n1"}, frozen)
	if err != nil {
		t.Fatal(err)
	}
	if len(claims) != 1 || claims[0] != plan {
		t.Errorf("%d claims hold the device, want the planned one alone", len(claims))
	}
}

func TestClaimsForExtendedResourcesAreFoundByTheirPod(t *testing.T) {
	d, factory := newTestDevices(t)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "pod"}}
	made := func(name string, owner types.UID, annotated string) *resourceapi.ResourceClaim {
		claim := resourceClaim(name, "1")
		claim.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: annotated}
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: owner, Controller: ptr.To(true)}}
		return claim
	}
	showClaims(t, factory, made("second", "pod", "true"), made("first", "pod", "true"), made("recreated", "older", "true"), made("template", "pod", ""))
	claims, err := d.ExtendedClaims(pod)
	if err != nil {
		t.Fatal(err)
	}
	if len(claims) != 2 || claims[0].Name != "first" || claims[1].Name != "second" {
		t.Errorf("%d claims were found, want first and second: %v", len(claims), claims)
	}
	if pods, err := d.PodsOf(claims[0]); err != nil || len(pods) != 1 || pods[0].Name != "pod" {
		t.Errorf("pods of the claim: %v, %v; want the one that it was made for", pods, err)
	}
}
