// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/faults"
	"github.com/berth-scheduler/berth/reason"
)

// extendedPod makes a pod whose only container wants so many of example.com/gpu.
func extendedPod(name string, gpus int, claims ...string) *v1.Pod {
	pod := makePod(name, claims...)
	pod.Spec.Containers = []v1.Container{wants("main", "gpu", gpus, "cpu", 1)}
	return pod
}

// pluginNode makes a node whose device plugin reports so many of example.com/gpu.
func pluginNode(name string, gpus int64) *v1.Node {
	node := makeNode(name)
	node.Status.Allocatable = v1.ResourceList{"example.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	return node
}

// extendedClaims are the claims for extended resources that the API server has.
func (c *cluster) extendedClaims() []resourceapi.ResourceClaim {
	c.t.Helper()
	return slices.DeleteFunc(c.server.all(c.t), func(claim resourceapi.ResourceClaim) bool { return !isExtended(&claim) })
}

func (c *cluster) storedPod(name string) *v1.Pod {
	c.t.Helper()
	pod, err := c.client.CoreV1().Pods(namespace).Get(c.ctx, name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return pod
}

// wantPlaced checks what is left of a pod that was placed by DRA: one claim with the
// devices, and the mapping to it.
func (c *cluster) wantPlaced(pod *v1.Pod, devices int) *resourceapi.ResourceClaim {
	c.t.Helper()
	status := c.storedPod(pod.Name).Status.ExtendedResourceClaimStatus
	var own []*resourceapi.ResourceClaim
	for _, claim := range c.extendedClaims() {
		if metav1.IsControlledBy(&claim, pod) {
			own = append(own, &claim)
		}
	}
	if len(own) != 1 || status == nil || status.ResourceClaimName != own[0].Name {
		c.t.Fatalf("pod %s has %d claims for extended resources, and status %+v", pod.Name, len(own), status)
	}
	c.wantReserved(own[0].Name, pod)
	if got := len(own[0].Status.Allocation.Devices.Results); got != devices {
		c.t.Errorf("pod %s has %d devices, want %d", pod.Name, got, devices)
	}
	return own[0]
}

func TestExtendedResourceIsServedByAClaim(t *testing.T) {
	for _, name := range []v1.ResourceName{"example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"} {
		t.Run(string(name), func(t *testing.T) {
			pod := extendedPod("pod", 2)
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{name: resource.MustParse("2")}
			c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), pod)
			a := c.reserve(pod, "n1")
			if n := len(c.server.all(t)); n != 0 {
				t.Fatalf("%d claims exist after Reserve, want none before PreBind", n)
			}
			if _, status := c.begin(extendedPod("other", 1), "n1"); status.IsSuccess() {
				t.Error("another pod fits although the devices are reserved")
			}
			if status := a.preBind(); !status.IsSuccess() {
				t.Fatalf("PreBind: %v", status)
			}
			claim := c.wantPlaced(pod, 2)
			if !strings.HasPrefix(claim.Name, "pod-extended-resources-") || claim.GenerateName != "pod-extended-resources-" ||
				!slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
				t.Errorf("claim has metadata %+v", claim.ObjectMeta)
			}
			want := v1.ContainerExtendedResourceRequest{ContainerName: "main", ResourceName: string(name), RequestName: "container-0-request-0"}
			if got := c.storedPod("pod").Status.ExtendedResourceClaimStatus.RequestMappings; len(got) != 1 || got[0] != want {
				t.Errorf("mappings %+v, want %+v", got, want)
			}
			c.wantSettled()
			if _, status := c.begin(extendedPod("other", 1), "n1"); status.IsSuccess() {
				t.Error("another pod fits although the devices are allocated")
			}
		})
	}
}

// A node serves the resource by its device plugin or by DRA, never both.
func TestWhoServesAnExtendedResource(t *testing.T) {
	pod := extendedPod("pod", 2)
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeSlice("n2", "gpu-0"), pod)
	for name, test := range map[string]struct {
		node *v1.Node
		want string // the code of the rejection, "claim" or "nothing"
	}{
		"a device plugin":                       {pluginNode("n3", 2), "nothing"},
		"a device plugin, and devices for DRA":  {pluginNode("n1", 1), "nothing"}, // how many is up to NodeResourcesFit
		"a device plugin that was uninstalled":  {pluginNode("n1", 0), "claim"},
		"devices for DRA":                       {makeNode("n1"), "claim"},
		"an uninstalled plugin and few devices": {pluginNode("n2", 0), string(reason.NotEnoughDevices)},
		"nothing":                               {makeNode("n3"), string(reason.NoDeviceOfClass)},
	} {
		t.Run(name, func(t *testing.T) {
			state := &cycleState{}
			if _, status := c.plugin.PreFilter(c.ctx, state, pod, allNodes()); !status.IsSuccess() {
				t.Fatal(status)
			}
			status := c.plugin.Filter(c.ctx, state, pod, nodeInfo{node: test.node})
			explained := c.plugin.Explain(c.ctx, state, nodeInfo{node: test.node})
			if !status.IsSuccess() {
				if rejection := rejectionOf(t, status); string(rejection.Code) != test.want || rejection.Request != "container-0-request-1" ||
					explained == nil || explained.Code != rejection.Code {
					t.Errorf("refused with %+v, explained as %+v; want %s", rejection, explained, test.want)
				}
				return
			}
			if explained != nil {
				t.Errorf("fits, and is explained as %v", explained)
			}
			a := &attempt{c: c, plugin: c.plugin, pod: pod, node: test.node, state: state}
			if status := c.plugin.Reserve(c.ctx, state, pod, test.node.Name); !status.IsSuccess() {
				t.Fatal(status)
			}
			if got := len(c.plugin.ledger.InFlight()) == 1; got != (test.want == "claim") {
				t.Errorf("a claim is planned: %v, want %s", got, test.want)
			}
			a.unreserve()
			c.wantSettled()
		})
	}
}

func rejectionOf(t *testing.T, status *fwk.Status) *reason.Rejection {
	t.Helper()
	var rejection *reason.Rejection
	if !errors.As(status.AsError(), &rejection) {
		t.Fatalf("status %v has no rejection", status)
	}
	return rejection
}

// On a node that has one of two resources itself, the claim is for the other.
func TestNodesThatServeDifferentResources(t *testing.T) {
	nics := makeClass()
	nics.Name, nics.Spec.ExtendedResourceName = "nics", ptr.To("example.com/nic")
	pod := makePod("pod")
	pod.Spec.Containers = []v1.Container{wants("main", "gpu", 1, "nic", 1)}
	c := newCluster(t, makeClass(), nics, makeSlice("n1", "d-0", "d-1"), makeSlice("n2", "d-0"), makeSlice("n3", "d-0"), pod)
	a, status := c.begin(pod, "n1")
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	for name, node := range map[string]*v1.Node{"n2": pluginNode("n2", 1), "n3": makeNode("n3")} {
		if got := c.plugin.Filter(c.ctx, a.state, pod, nodeInfo{node: node}).IsSuccess(); got != (name == "n2") {
			t.Errorf("fits on %s: %v", name, got)
		}
	}
	a.node = makeNode("n2")
	if status := c.plugin.Reserve(c.ctx, a.state, pod, "n2"); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := a.preBind(); !status.IsSuccess() {
		t.Fatal(status)
	}
	claim := c.wantPlaced(pod, 1)
	if got := claim.Spec.Devices.Requests; len(got) != 1 || got[0].Name != "container-0-request-1" || got[0].Exactly.DeviceClassName != "nics" {
		t.Errorf("the claim asks for %+v, want one NIC", got)
	}
}

// Extended resources and a claim of the pod's own are one plan: neither takes what
// the other needs.
func TestExtendedResourceBesideAClaim(t *testing.T) {
	only := makeClaim("own")
	only.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{
		CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["` + driver + `"].large`},
	}}
	slice := makeSlice("n1", "gpu-0", "gpu-1")
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"large": {BoolValue: ptr.To(i == 0)}}
	}
	pod := extendedPod("pod", 1, "own")
	c := newCluster(t, makeClass(), slice, only, pod)
	a := c.reserve(pod, "n1")
	if status := a.preBind(); !status.IsSuccess() {
		t.Fatal(status)
	}
	c.wantReserved("own", pod)
	c.wantPlaced(pod, 1)
	c.wantSettled()
}

// Undo leaves nothing, however far Commit has come.
func TestExtendedClaimIsTakenBack(t *testing.T) {
	for name, fails := range map[string]func(verb, subresource string) bool{
		"not created":   func(verb, _ string) bool { return verb == "create" },
		"not allocated": func(_, subresource string) bool { return subresource == "status" },
		"not mapped":    func(verb, _ string) bool { return verb == "patch" },
	} {
		t.Run(name, func(t *testing.T) {
			pod := extendedPod("pod", 1)
			c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), pod)
			a := c.reserve(pod, "n1")
			c.server.faults(func(verb, subresource string) error {
				if fails(verb, subresource) {
					return apierrors.NewForbidden(claimsResource.GroupResource(), "claim", errors.New("no"))
				}
				return nil
			}, nil)
			if status := a.preBind(); status.IsSuccess() {
				t.Fatal("PreBind succeeded")
			}
			a.unreserve()
			a.unreserve()
			if left := c.extendedClaims(); len(left) != 0 {
				t.Errorf("%d claims are left", len(left))
			}
			c.server.faults(nil, nil)
			c.wantSettled()
			if !c.placeEventually(pod) {
				t.Fatal("the pod cannot be placed any more")
			}
			c.wantPlaced(pod, 1)
		})
	}
}

// A pod that has been sent to its node keeps its claim, because the answer may have
// been lost; if it was not bound, the next attempt gives the claim up.
func TestClaimOfAnEarlierAttempt(t *testing.T) {
	pod := extendedPod("pod", 1)
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeSlice("n2", "gpu-0"), pod)
	a := c.reserve(pod, "n1")
	if status := a.preBind(); !status.IsSuccess() {
		t.Fatal(status)
	}
	a.unreserve() // the binding has failed
	left := c.wantPlaced(pod, 1)
	c.waitForInformers()

	again := c.storedPod("pod")
	a, status := c.begin(again, "n2")
	wantReason(t, status, fwk.UnschedulableAndUnresolvable, reason.ExtendedClaimLeft)
	bound := again.DeepCopy()
	bound.Spec.NodeName = "n1"
	if _, err := c.client.CoreV1().Pods(namespace).Update(c.ctx, bound, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, status := c.plugin.PostFilter(c.ctx, a.state, again, nil); !status.IsRejected() {
		t.Fatal(status)
	}
	c.wantPlaced(pod, 1) // it was bound after all
	if _, err := c.client.CoreV1().Pods(namespace).Update(c.ctx, again, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, status := c.plugin.PostFilter(c.ctx, a.state, again, nil); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Fatal(status)
	}
	if _, err := c.server.get(left.Name); !apierrors.IsNotFound(err) {
		t.Errorf("the claim is still there: %v", err)
	}
	if hint, err := c.plugin.afterClaim(klog.Background(), again, left, nil); err != nil || hint != fwk.Queue {
		t.Errorf("the pod is not woken by the end of its claim: %v, %v", hint, err)
	}

	// The kubelet would not start the pod on a node that needs no claim.
	c.waitForInformers()
	if a, status = c.begin(again, "n2"); !status.IsSuccess() {
		t.Fatal(status)
	}
	wantReason(t, c.plugin.Filter(c.ctx, a.state, again, nodeInfo{node: pluginNode("n3", 1)}), fwk.UnschedulableAndUnresolvable, reason.ExtendedResourceMapped)
	if status := c.plugin.Reserve(c.ctx, a.state, again, "n2"); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := a.preBind(); !status.IsSuccess() {
		t.Fatal(status)
	}
	if c.wantPlaced(pod, 1).Name == left.Name {
		t.Error("the new claim has the name of the old one")
	}
	c.wantSettled()
}

// A pod that was mapped needs a claim for the rest of its life, also when no class
// is left that could serve it and the node has the resource itself.
func TestMappedPodWhoseClassIsGone(t *testing.T) {
	pod := extendedPod("pod", 1)
	pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{
		ResourceClaimName: "pod-extended-resources-abcde",
		RequestMappings: []v1.ContainerExtendedResourceRequest{
			{ContainerName: "main", ResourceName: "example.com/gpu", RequestName: "container-0-request-0"},
		},
	}
	c := newCluster(t, makeSlice("n1", "gpu-0"), pod)
	if !c.plugin.needsDevices(pod) {
		t.Error("nobody would tell the pod of devices")
	}
	state := &cycleState{}
	if _, status := c.plugin.PreFilter(c.ctx, state, pod, allNodes()); !status.IsSuccess() {
		t.Fatal(status)
	}
	status := c.plugin.Filter(c.ctx, state, pod, nodeInfo{node: pluginNode("n3", 1)})
	wantReason(t, status, fwk.UnschedulableAndUnresolvable, reason.ExtendedResourceMapped)
	if rejection := rejectionOf(t, status); rejection.Request != "example.com/gpu" || rejection.Claim.Name != "pod-extended-resources-abcde" {
		t.Errorf("refused with %+v", rejection)
	}

	if _, err := c.client.ResourceV1().DeviceClasses().Create(c.ctx, makeClass(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the informer shows the class", func() bool { return len(c.plugin.servedOf(pod)) > 0 })
	a := c.reserve(pod, "n1")
	if status := a.preBind(); !status.IsSuccess() {
		t.Fatal(status)
	}
	c.wantPlaced(pod, 1)
	c.wantSettled()
}

// A claim that is created and deleted before anybody looks leaves nothing.
func TestExtendedClaimThatComesAndGoesUnseen(t *testing.T) {
	pod := extendedPod("pod", 1)
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), pod)
	a := c.reserve(pod, "n1")
	c.server.watched.Hold()
	if status := a.preBind(); !status.IsSuccess() {
		t.Fatal(status)
	}
	c.server.remove(t, c.wantPlaced(pod, 1).Name)
	c.server.watched.Release()
	c.wantSettled()
	c.reserve(extendedPod("next", 1), "n1").unreserve()
}

// A class that begins to serve a resource between PreFilter and Reserve has let the
// pod past NodeResourcesFit.
func TestClassThatAppearsDuringACycle(t *testing.T) {
	pod := extendedPod("pod", 1)
	c := newCluster(t, makeSlice("n1", "gpu-0"), pod)
	state := &cycleState{}
	if _, status := c.plugin.PreFilter(c.ctx, state, pod, allNodes()); status.Code() != fwk.Skip {
		t.Fatalf("PreFilter: %v, want to skip a pod that has nothing to do with devices", status)
	}
	if _, err := c.client.ResourceV1().DeviceClasses().Create(c.ctx, makeClass(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the class is known", func() bool { return len(c.plugin.servedOf(pod)) == 1 })
	c.handle.nodes = map[string]*v1.Node{"n1": makeNode("n1"), "n2": pluginNode("n2", 1)}
	if status := c.plugin.Reserve(c.ctx, state, pod, "n1"); status.Code() != fwk.Error {
		t.Errorf("Reserve on a node without the resource: %v, want an error", status)
	}
	if status := c.plugin.Reserve(c.ctx, state, pod, "n2"); !status.IsSuccess() {
		t.Errorf("Reserve on a node with a device plugin: %v", status)
	}
}

// Devices that have failed the pod are remembered although the claim is made anew.
func TestFailedDevicesOfAnExtendedResource(t *testing.T) {
	slice := makeSlice("n1", "gpu-0", "gpu-1")
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].BindingConditions = []string{"Attached"}
		slice.Spec.Devices[i].BindingFailureConditions = []string{"Broken"}
	}
	pod := extendedPod("pod", 1)
	c := newClusterWithConditions(t, makeClass(), slice, pod)
	a := c.reserve(pod, "n1")
	_, ended := a.waitFor(c.ctx)
	if mapped := c.storedPod("pod").Status.ExtendedResourceClaimStatus; mapped != nil {
		t.Errorf("the pod is mapped before its devices are ready: %+v", mapped)
	}
	first := c.extendedClaims()[0]
	c.report(first.Name, "Broken")
	if status := <-ended; status.IsSuccess() {
		t.Fatal("PreBind succeeded with a broken device")
	}
	a.unreserve()
	if left := c.extendedClaims(); len(left) != 0 {
		t.Fatalf("%d claims are left", len(left))
	}
	c.waitForInformers()
	a = c.reserve(pod, "n1")
	if got, failed := a.results()[0].Device, first.Status.Allocation.Devices.Results[0].Device; got == failed {
		t.Errorf("the pod got device %s again", got)
	}
	a.unreserve()
}

// results are the devices that are planned for an attempt.
func (a *attempt) results() []resourceapi.DeviceRequestAllocationResult {
	a.c.t.Helper()
	c, err := readCycle(a.state)
	if err != nil {
		a.c.t.Fatal(err)
	}
	var results []resourceapi.DeviceRequestAllocationResult
	for _, b := range c.bindings {
		results = append(results, b.allocation().Devices.Results...)
	}
	return results
}

// What an extended resource holds goes back when its pod is evicted.
func TestEvictionOfAPodWithExtendedResources(t *testing.T) {
	low, high := extendedPod("low", 1), extendedPod("high", 1)
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), low, high)
	a := c.reserve(low, "n1")
	if status := a.preBind(); !status.IsSuccess() {
		t.Fatal(status)
	}
	low = c.storedPod("low")
	c.waitForInformers()
	a, status := c.begin(high, "n1")
	wantReason(t, status, fwk.Unschedulable, reason.NotEnoughDevices)
	dryRun := a.state.Clone()
	if status := c.plugin.RemovePod(c.ctx, dryRun, high, podInfo{pod: low}, nodeInfo{node: a.node}); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := c.plugin.Filter(c.ctx, dryRun, high, nodeInfo{node: a.node}); !status.IsSuccess() {
		t.Errorf("after an eviction: %v", status)
	}
}

func TestExtendedResourcesKeepPodsApart(t *testing.T) {
	c := newCluster(t, makeClass())
	if _, status := c.plugin.SignPod(c.ctx, extendedPod("pod", 1)); !status.IsRejected() {
		t.Error("SignPod accepted a pod whose extended resource a class serves")
	}
	gone := extendedPod("gone", 1)
	if hint, err := c.plugin.afterPodGone(klog.Background(), makePod("other"), gone, nil); err != nil || hint != fwk.Queue {
		t.Errorf("the end of a pod with extended resources wakes nobody: %v, %v", hint, err)
	}
}

// More devices than a claim can hold is said at once, in the pod's own words.
func TestTooManyOfAnExtendedResource(t *testing.T) {
	pod := extendedPod("pod", 33)
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), pod)
	_, status := c.begin(pod, "n1")
	wantReason(t, status, fwk.UnschedulableAndUnresolvable, reason.ClaimTooLarge)
}

// Many pods and nodes: nobody gets what another one has, wherever it comes from.
func TestManyPodsWithExtendedResources(t *testing.T) {
	var objects []runtime.Object
	var pods []*v1.Pod
	for i := range 8 {
		pods = append(pods, extendedPod(fmt.Sprintf("pod-%d", i), 1))
		objects = append(objects, pods[i])
	}
	c := newCluster(t, append(objects, makeClass(), makeSlice("n1", "gpu-0", "gpu-1", "gpu-2"), makeSlice("n2", "gpu-0", "gpu-1", "gpu-2"))...)
	bound := map[types.UID]bool{}
	calls := c.breakCall(faults.Fault{}, 0)
	for round := range 3 {
		c.round(round, pods, bound, func() {}, calls)
		c.checkObjects(pods)
	}
	if len(bound) != 6 {
		t.Errorf("%d pods are placed on 6 devices", len(bound))
	}
	c.wantSettled()
}
