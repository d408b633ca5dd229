// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/reason"
)

// What a node sees does not grow with the number of nodes that have pools.
func TestNodeSeesItsOwnPoolsAndThoseOfAll(t *testing.T) {
	var published []*resourceapi.ResourceSlice
	add := func(pool string, node *string) {
		published = append(published, &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: pool},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: "gpu.test", NodeName: node, AllNodes: ptr.To(node == nil),
				Pool: resourceapi.ResourcePool{Name: pool, ResourceSliceCount: 1},
			},
		})
	}
	for n := range 1000 {
		add(fmt.Sprintf("pool-%d", n), ptr.To(fmt.Sprintf("node-%d", n)))
	}
	add("pool-5-shared", nil)
	view := viewOf(published, nil)
	for node, want := range map[string][]string{
		"node-7": {"gpu.test/pool-5-shared", "gpu.test/pool-7"},
		"node-4": {"gpu.test/pool-4", "gpu.test/pool-5-shared"},
		"other":  {"gpu.test/pool-5-shared"},
	} {
		var got []string
		for _, pool := range view.Node(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}).Pools {
			got = append(got, pool.Pool.ID().String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", node, diff)
		}
	}
}

func TestSolveRunsInParallel(t *testing.T) {
	w := gpuNode()
	w.hold("gpu-0", "gpu-3")
	w.claim(resourceapi.ExactDeviceRequest{Count: 3, Selectors: selectors(`device.attributes["gpu.test"].model == "H100"`)}, "gpu.test/half")
	problem := w.compile(t, device.Options{})
	node := w.view().Node(w.node)
	want := []string{
		"claim 0 gpus gpu.test/n1/gpu-1", "claim 0 gpus gpu.test/n1/gpu-5", "claim 0 gpus gpu.test/n1/gpu-7",
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				plan, refused := problem.Solve(node)
				if refused != nil {
					t.Errorf("refused: %v", refused)
					return
				}
				if diff := cmp.Diff(want, chosen(plan.Results(shareIDs()))); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
	group.Wait()
}

// A pod may use one claim under two names.
func TestSameClaimTwiceCountsOnce(t *testing.T) {
	w := gpuNode()
	w.claim(resourceapi.ExactDeviceRequest{Count: 8})
	w.claims = append(w.claims, w.claims[0])
	problem := w.compile(t, device.Options{})
	if n := len(problem.Open()); n != 1 {
		t.Fatalf("%d claims are open, want 1", n)
	}
	if _, refused := problem.Solve(w.view().Node(w.node)); refused != nil {
		t.Errorf("refused: %v", refused)
	}
}

func TestBudgetThatEndsIsItsOwnReason(t *testing.T) {
	w := gpuNode()
	w.hold("gpu-2")
	w.claim(resourceapi.ExactDeviceRequest{Count: 4}, "gpu.test/half")
	problem := w.compile(t, device.Options{Budget: 1})
	refused := problem.Explain(w.view().Node(w.node))
	if refused == nil || refused.Code != reason.SearchEnded || refused.Evictable() || refused.Facts.Steps <= 1 {
		t.Errorf("got %v with %+v, want the budget to end", refused, refused)
	}
}

// A request for all devices may find more than a claim can hold. That is the
// concern of the node that has so many.
func TestTooManyForAllConcernsOneNode(t *testing.T) {
	w := gpuNode()
	spec := &w.slices[0].Spec
	for i := range 25 {
		spec.Devices = append(spec.Devices, resourceapi.Device{Name: fmt.Sprintf("more-%d", i)})
	}
	w.claim(resourceapi.ExactDeviceRequest{AllocationMode: resourceapi.DeviceAllocationModeAll})
	problem := w.compile(t, device.Options{})
	node := w.view().Node(w.node)
	refused := problem.Explain(node)
	if refused == nil || refused.Code != reason.ClaimTooLarge || refused.Node != "n1" || refused.Facts.Wanted.Value() != 33 {
		t.Fatalf("got %v, want that 33 devices are too many", refused)
	}
	spec.Devices = spec.Devices[:32]
	if plan, refused := problem.Solve(w.view().Node(w.node)); refused != nil || len(plan.Results(shareIDs())[0].Devices.Results) != 32 {
		t.Errorf("32 devices: refused: %v", refused)
	}
}

// Results are the caller's to change.
func TestResultsShareNothing(t *testing.T) {
	w := gpuNode()
	w.claim(resourceapi.ExactDeviceRequest{Count: 1, Tolerations: []resourceapi.DeviceToleration{{Key: "sick", TolerationSeconds: ptr.To(int64(5))}}})
	w.slices[0].Spec.NodeName = nil
	w.slices[0].Spec.NodeSelector = zones("a")
	w.node.Labels = map[string]string{"zone": "a"}
	problem := w.compile(t, device.Options{})
	plan, refused := problem.Solve(w.view().Node(w.node))
	if refused != nil {
		t.Fatal(refused)
	}
	first := plan.Results(shareIDs())[0]
	*first.Devices.Results[0].Tolerations[0].TolerationSeconds = 7
	first.NodeSelector.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "b"
	second := plan.Results(shareIDs())[0]
	if got := *second.Devices.Results[0].Tolerations[0].TolerationSeconds; got != 5 {
		t.Errorf("the toleration of the claim became %d", got)
	}
	if got := second.NodeSelector.NodeSelectorTerms[0].MatchExpressions[0].Values[0]; got != "a" {
		t.Errorf("the selector of the slice became %s", got)
	}
}
