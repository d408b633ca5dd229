// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/tests/lab"
)

// Cases in which the in-tree plugin gives another answer, or none. Each has a
// driver, and a DeviceClass of the same name, to itself.
func TestWhereInTreeAnswersOtherwise(t *testing.T) {
	cluster := lab.Start(t, lab.Options{Profile: "testdata/bare-nodes.yaml"})
	for name, test := range map[string]func(context.Context, *testing.T, kubernetes.Interface){
		"a counter that a vanished device may still use":        vanishedDeviceKeepsItsCounter,
		"admin access to a device whose counter is used up":     adminAccessConsumesNothing,
		"all devices of a node, beside nodes with broken pools": brokenPoolConcernsItsNode,
		"a selector that fails on some devices":                 failingSelectorConcernsItsDevice,
		"two claims on different nodes":                         claimsOnDifferentNodesConverge,
	} {
		t.Run(name, func(t *testing.T) {
			test(t.Context(), t, cluster.Client)
			checkInvariants(t.Context(), t, cluster.Client)
		})
	}
}

// A driver publishes its pool anew, without a device that is in use. What is left of
// the pool's counters cannot be known until that device is released.
func vanishedDeviceKeepsItsCounter(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	const driver = "republished.example.com"
	counter := map[string]resourceapi.Counter{"units": {Value: resource.MustParse("4")}}
	consuming := func(name string) resourceapi.Device {
		return resourceapi.Device{Name: name, ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "set", Counters: counter}}}
	}
	counters, devices := newSlice(driver, "node-1", "counters"), newSlice(driver, "node-1", "devices", consuming("d1"))
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "set", Counters: counter}}
	counters.Spec.Pool.ResourceSliceCount, devices.Spec.Pool.ResourceSliceCount = 2, 2
	create(ctx, t, client, newClass(driver), counters, devices, newClaim("vanishing", one(driver)), newClaim("remaining", one(driver)),
		newPod("owner", sharing("vanishing")))
	eventually(ctx, t, "the device is taken", podRuns(client, "owner"))

	republish(ctx, t, client, counters.Name, nil)
	republish(ctx, t, client, devices.Name, []resourceapi.Device{consuming("d2")})
	create(ctx, t, client, newPod("heir", sharing("remaining")))
	eventually(ctx, t, "the heir waits", waitingFor(client, "heir", "a device in use that its driver no longer publishes may still consume shared counters"))
	deletePod(ctx, t, client, "owner")
	eventually(ctx, t, "the heir runs", podRuns(client, "heir"))
	if got := getClaim(ctx, t, client, "remaining").Status.Allocation.Devices.Results[0].Device; got != "d2" {
		t.Errorf("the heir has device %s", got)
	}
}

func adminAccessConsumesNothing(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	const driver = "counted.example.com"
	counters := newSlice(driver, "node-1", "counters")
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "set", Counters: map[string]resourceapi.Counter{"units": {Value: resource.MustParse("1")}}}}
	devices := newSlice(driver, "node-1", "devices", resourceapi.Device{Name: "d1", ConsumesCounters: []resourceapi.DeviceCounterConsumption{{
		CounterSet: "set", Counters: map[string]resourceapi.Counter{"units": {Value: resource.MustParse("1")}},
	}}})
	counters.Spec.Pool.ResourceSliceCount, devices.Spec.Pool.ResourceSliceCount = 2, 2
	observe := one(driver)
	observe.Devices.Requests[0].Exactly.AdminAccess = ptr.To(true)
	label := []byte(`{"metadata":{"labels":{"` + resourceapi.DRAAdminNamespaceLabelKey + `":"true"}}}`)
	if _, err := client.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	create(ctx, t, client, newClass(driver), counters, devices, newClaim("counted", one(driver)), newClaim("observing", observe), newClaim("counted-too", one(driver)),
		newPod("holder", sharing("counted")))
	eventually(ctx, t, "the device is taken", podRuns(client, "holder"))

	create(ctx, t, client, newPod("observer", sharing("observing")))
	eventually(ctx, t, "the observer runs", podRuns(client, "observer"))
	if result := getClaim(ctx, t, client, "observing").Status.Allocation.Devices.Results[0]; result.Device != "d1" || !ptr.Deref(result.AdminAccess, false) {
		t.Errorf("the observer got %+v", result)
	}
	create(ctx, t, client, newPod("next", sharing("counted-too")))
	eventually(ctx, t, "the next one waits", waitingFor(client, "next", "not enough free devices"))
	deletePod(ctx, t, client, "holder")
	eventually(ctx, t, "the next one has the device", podRuns(client, "next"))
	if getPod(ctx, t, client, "observer").Status.Phase != v1.PodRunning {
		t.Error("the observer does not run any more")
	}
}

func brokenPoolConcernsItsNode(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	const driver = "broken.example.com"
	incomplete := newSlice(driver, "node-1", "first", resourceapi.Device{Name: "a"})
	incomplete.Spec.Pool.ResourceSliceCount = 2
	invalid, again := newSlice(driver, "node-3", "first", resourceapi.Device{Name: "a"}), newSlice(driver, "node-3", "second", resourceapi.Device{Name: "a"})
	invalid.Spec.Pool.ResourceSliceCount, again.Spec.Pool.ResourceSliceCount = 2, 2
	create(ctx, t, client, newClass(driver), incomplete, invalid, again,
		newSlice(driver, "node-2", "all", resourceapi.Device{Name: "a"}, resourceapi.Device{Name: "b"}), newTemplate("all-of-them", all(driver)),
		newPod("first", fromTemplate("all-of-them"), onNode("node-1")),
		newPod("anywhere", fromTemplate("all-of-them")),
		newPod("third", fromTemplate("all-of-them"), onNode("node-3")))
	eventually(ctx, t, "the pod that may go anywhere runs", podRuns(client, "anywhere"))
	if node := getPod(ctx, t, client, "anywhere").Spec.NodeName; node != "node-2" {
		t.Errorf("it runs on %s, want the node with the healthy pool", node)
	}
	eventually(ctx, t, "the pool is incomplete", waitingFor(client, "first", "a pool of devices is being updated by its driver"))
	eventually(ctx, t, "the pool is invalid", waitingFor(client, "third", "a pool of devices is invalid"))

	create(ctx, t, client, newSliceOf(incomplete, "second", resourceapi.Device{Name: "b"}))
	eventually(ctx, t, "the pod runs when its pool is complete", podRuns(client, "first"))
}

func failingSelectorConcernsItsDevice(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	const driver, expression = "mixed.example.com", `device.attributes["mixed.example.com"].model == "x"`
	x := resourceapi.Device{Name: "b", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To("x")}}}
	selector := []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	some, every := one(driver), all(driver)
	some.Devices.Requests[0].Exactly.Selectors, every.Devices.Requests[0].Exactly.Selectors = selector, selector
	create(ctx, t, client, newClass(driver), newSlice(driver, "node-1", "all", resourceapi.Device{Name: "a"}, x), newSlice(driver, "node-2", "all", x),
		newClaim("some", some), newTemplate("every", every), newPod("one-of-them", sharing("some"), onNode("node-1")))
	eventually(ctx, t, "the pod runs", podRuns(client, "one-of-them"))
	if got := getClaim(ctx, t, client, "some").Status.Allocation.Devices.Results[0].Device; got != "b" {
		t.Errorf("the pod got device %s", got)
	}
	eventually(ctx, t, "the pod is warned", eventOn(client, "one-of-them", "DeviceSelectorFailed", strconv.Quote(expression), "mixed.example.com/node-1/a"))

	create(ctx, t, client, newPod("all-there", fromTemplate("every"), onNode("node-1")), newPod("all-anywhere", fromTemplate("every")))
	eventually(ctx, t, "the node is refused", waitingFor(client, "all-there", "a device selector failed on a device of the node"))
	eventually(ctx, t, "another one is taken", podRuns(client, "all-anywhere"))
	if node := getPod(ctx, t, client, "all-anywhere").Spec.NodeName; node != "node-2" {
		t.Errorf("it runs on %s, want the node where the selector does not fail", node)
	}
}

// Of two allocations that cannot be used together the first by name is given up,
// whichever of the pods that share them comes first.
func claimsOnDifferentNodesConverge(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	const driver = "torn.example.com"
	devices := []resourceapi.Device{{Name: "a"}, {Name: "b"}}
	create(ctx, t, client, newClass(driver), newSlice(driver, "node-1", "all", devices...), newSlice(driver, "node-2", "all", devices...))
	for round := range 3 {
		here, there := fmt.Sprintf("torn-%d-a", round), fmt.Sprintf("torn-%d-b", round)
		create(ctx, t, client, newClaim(here, one(driver)), newClaim(there, one(driver)))
		allocate(ctx, t, client, here, driver, "node-1", "a")
		allocate(ctx, t, client, there, driver, "node-2", "a")
		pods := []string{fmt.Sprintf("torn-%d-0", round), fmt.Sprintf("torn-%d-1", round)}
		createAtOnce(ctx, t, client, []*v1.Pod{newPod(pods[0], sharing(here), alsoSharing(there)), newPod(pods[1], sharing(there), alsoSharing(here))})
		for _, name := range pods {
			eventually(ctx, t, "pod "+name+" runs", podRuns(client, name))
			if node := getPod(ctx, t, client, name).Spec.NodeName; node != "node-2" {
				t.Errorf("round %d: pod %s runs on %s, want node-2, where the second claim was", round, name, node)
			}
		}
		for _, name := range pods {
			deletePod(ctx, t, client, name)
		}
		eventually(ctx, t, "the claims are free again", func(ctx context.Context) (bool, string) {
			return getClaim(ctx, t, client, here).Status.Allocation == nil && getClaim(ctx, t, client, there).Status.Allocation == nil, ""
		})
	}
}

// A node on which the search would take too long is left aside, others are still
// tried, and nobody is evicted to make the search simpler.
func TestNodeWhereTheSearchEnds(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "testdata/bare-nodes.yaml", Scheduler: lab.None})
	client := cluster.Client
	cluster.StartScheduler(t, "--config="+configWithKubeconfig(t, "testdata/small-budget.yaml", cluster.Kubeconfigs["berth-scheduler"]))

	// On node-1 the two devices that go together come late.
	const driver, root = "many.example.com", "many.example.com/root"
	rooted := func(roots ...string) []resourceapi.Device {
		devices := make([]resourceapi.Device, len(roots))
		for i := range roots {
			devices[i] = resourceapi.Device{Name: fmt.Sprintf("d%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"root": {StringValue: &roots[i]}}}
		}
		return devices
	}
	pair := many(driver, 2)
	pair.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To[resourceapi.FullyQualifiedName](root)}}
	create(ctx, t, client, newPriority("low", 10), newPriority("high", 1000), newClass(driver),
		newSlice(driver, "node-1", "all", rooted("c", "c", "a", "b", "a")...), newSlice(driver, "node-2", "all", rooted("a", "a")...),
		newClaim("held", one(driver)), newTemplate("pair", pair))
	allocate(ctx, t, client, "held", driver, "node-1", "d0")
	create(ctx, t, client, newPod("low", sharing("held"), priority("low")))
	eventually(ctx, t, "the low pod runs", podRuns(client, "low"))

	create(ctx, t, client, newPod("there", fromTemplate("pair"), priority("high"), onNode("node-1")), newPod("anywhere", fromTemplate("pair"), priority("high")))
	eventually(ctx, t, "the pod that may go anywhere runs", podRuns(client, "anywhere"))
	if node := getPod(ctx, t, client, "anywhere").Spec.NodeName; node != "node-2" {
		t.Errorf("it runs on %s, want node-2", node)
	}
	eventually(ctx, t, "the other knows why it waits", waitingFor(client, "there", "the search for devices used up its budget"))
	if pod := getPod(ctx, t, client, "low"); pod.DeletionTimestamp != nil || pod.Status.Phase != v1.PodRunning {
		t.Errorf("the low pod was evicted: %+v", pod.Status)
	}
	checkInvariants(ctx, t, client)
}

// A claim serves as many pods as the API allows. One more is told so, and gets its
// turn when another one ends.
func TestClaimForTheMostPods(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "testdata/bare-nodes.yaml"})
	client := cluster.Client
	const driver, most = "shared.example.com", resourceapi.ResourceClaimReservedForMaxSize
	create(ctx, t, client, newClass(driver), newSlice(driver, "node-2", "all", resourceapi.Device{Name: "a"}), newClaim("shared", one(driver)))
	pods := make([]*v1.Pod, most)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("sharer-%03d", i), sharing("shared"))
	}
	// All at once they would mostly get in each other's way.
	for some := range slices.Chunk(pods, 32) {
		createAtOnce(ctx, t, client, some)
		last := some[len(some)-1].Name
		eventually(ctx, t, "sharers up to "+last+" run", running(client, slices.IndexFunc(pods, func(pod *v1.Pod) bool { return pod.Name == last })+1, 0))
	}

	create(ctx, t, client, newPod("late", sharing("shared")))
	eventually(ctx, t, "one more is told why it waits", waitingFor(client, "late", "ResourceClaim is already reserved for the most pods it may have"))
	deletePod(ctx, t, client, pods[7].Name)
	eventually(ctx, t, "it gets its turn", podRuns(client, "late"))
	checkInvariants(ctx, t, client)
}
