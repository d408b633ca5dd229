// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/reason"
)

func wantReason(t *testing.T, status *fwk.Status, code fwk.Code, want reason.Code) {
	t.Helper()
	var rejection *reason.Rejection
	if !errors.As(status.AsError(), &rejection) || rejection.Code != want || status.Code() != code {
		t.Errorf("got status %v %q, want %v because of %s", status.Code(), status.Message(), code, want)
	}
}

func TestPodWaitsForItsClaims(t *testing.T) {
	template := makePod("pod")
	template.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("t")}}
	generated := template.DeepCopy()
	generated.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("a")}}

	deleting := makeClaim("a")
	deleting.DeletionTimestamp, deleting.Finalizers = ptr.To(metav1.Now()), []string{"x"}
	full := allocated(makeClaim("a"), "n1", "gpu-0")
	for i := range resourceapi.ResourceClaimReservedForMaxSize {
		full.Status.ReservedFor = append(full.Status.ReservedFor, consumer(makePod(fmt.Sprint("other-", i))))
	}
	fullWithPod := full.DeepCopy()
	fullWithPod.Status.ReservedFor[0] = consumer(makePod("pod"))
	owned := makeClaim("a")
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "pod", UID: "pod", Controller: ptr.To(true)}}

	for name, test := range map[string]struct {
		pod   *v1.Pod
		claim *resourceapi.ResourceClaim
		want  reason.Code // empty: the pod need not wait
	}{
		"no claims":                     {pod: makePod("pod")},
		"claim exists":                  {pod: makePod("pod", "a"), claim: makeClaim("a")},
		"not generated":                 {pod: template, want: reason.ClaimNotCreated},
		"generated, not seen yet":       {pod: generated, want: reason.ClaimNotFound},
		"generated for the pod":         {pod: generated, claim: owned},
		"generated for another pod":     {pod: generated, claim: makeClaim("a"), want: reason.ClaimNotOwned},
		"missing":                       {pod: makePod("pod", "a"), want: reason.ClaimNotFound},
		"being deleted":                 {pod: makePod("pod", "a"), claim: deleting, want: reason.ClaimDeleting},
		"full":                          {pod: makePod("pod", "a"), claim: full, want: reason.ClaimFull},
		"full, reserved for the pod":    {pod: makePod("pod", "a"), claim: fullWithPod},
		"source of claims that is none": {pod: &v1.Pod{Spec: v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{{Name: "x"}}}}, want: reason.ClaimUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{makeClass(), makeSlice("n1", "gpu-0")}
			if test.claim != nil {
				objects = append(objects, test.claim)
			}
			c := newCluster(t, objects...)
			_, preFilter := c.plugin.PreFilter(c.ctx, &cycleState{}, test.pod, allNodes())
			preEnqueue := c.plugin.PreEnqueue(c.ctx, test.pod)
			if test.want == "" {
				if !preEnqueue.IsSuccess() || preFilter.IsRejected() {
					t.Errorf("the pod was made to wait: %v, %v", preEnqueue, preFilter)
				}
				return
			}
			if missing := test.want == reason.ClaimNotCreated || test.want == reason.ClaimNotFound; missing {
				wantReason(t, preEnqueue, fwk.UnschedulableAndUnresolvable, test.want)
			} else if !preEnqueue.IsSuccess() {
				t.Errorf("the pod is kept out of the queue, where nobody sees why: %v", preEnqueue)
			}
			wantReason(t, preFilter, fwk.UnschedulableAndUnresolvable, test.want)
		})
	}
}

func TestPodWithoutClaimsIsLeftAlone(t *testing.T) {
	c := newCluster(t)
	pod, state := makePod("pod"), &cycleState{}
	if _, status := c.plugin.PreFilter(c.ctx, state, pod, nil); !status.IsSkip() {
		t.Errorf("PreFilter: got %v, want Skip", status.Code())
	}
	if _, status := c.plugin.PreBindPreFlight(c.ctx, state, pod, "n1"); !status.IsSkip() {
		t.Errorf("PreBindPreFlight: got %v, want Skip", status.Code())
	}
	if status := c.plugin.Reserve(c.ctx, state, pod, "n1"); !status.IsSuccess() {
		t.Errorf("Reserve: %v", status)
	}
	if fragments, status := c.plugin.SignPod(c.ctx, pod); !status.IsSuccess() || len(fragments) != 0 {
		t.Errorf("SignPod: got %v, %v", fragments, status)
	}
	if _, status := c.plugin.SignPod(c.ctx, makePod("pod", "a")); !status.IsRejected() {
		t.Error("SignPod accepted a pod with claims")
	}
}

func TestFilterSaysWhy(t *testing.T) {
	pod := makePod("pod", "a")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeSlice("n2", "gpu-0"),
		makeClaim("a"), allocated(makeClaim("b"), "n1", "gpu-0", makePod("other")))
	a, status := c.begin(pod, "n1")
	wantReason(t, status, fwk.Unschedulable, reason.NotEnoughDevices)
	explained := c.plugin.Explain(c.ctx, a.state, nodeInfo{node: makeNode("n1")})
	if explained == nil || explained.Facts.Devices == nil || len(explained.Facts.Devices.Held) != 1 ||
		explained.Facts.Devices.Held[0].Claim.Name != "b" {
		t.Errorf("the explanation does not name the claim that holds the device: %+v", explained)
	}
	if _, status := c.begin(pod, "n2"); !status.IsSuccess() {
		t.Errorf("a node with a free device was refused: %v", status)
	}
	_, status = c.begin(pod, "n3")
	if status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("a node without devices: got %v, want that eviction cannot help", status.Code())
	}
}

// A running pod that waits to be resized passes through the scheduler and keeps what
// it has.
func TestPodThatWaitsToBeResizedIsLeftAlone(t *testing.T) {
	pod := makePod("pod", "missing")
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonDeferred}}
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), pod)
	if _, status := c.begin(pod, "n1"); status.IsSkip() {
		t.Error("a pod was skipped although pods do not wait to be resized")
	}
	c.plugin.features.deferredResize = true
	if _, status := c.begin(pod, "n1"); !status.IsSkip() {
		t.Errorf("PreFilter returned %v, want Skip", status)
	}
	if status := c.plugin.Reserve(c.ctx, &cycleState{}, pod, "n1"); !status.IsSuccess() {
		t.Errorf("Reserve: %v", status)
	}
}

func TestMissingClass(t *testing.T) {
	c := newCluster(t, makeSlice("n1", "gpu-0"), makeClaim("a"))
	_, status := c.begin(makePod("pod", "a"), "n1")
	wantReason(t, status, fwk.UnschedulableAndUnresolvable, reason.DeviceClassNotFound)
}

func TestPostFilterGivesUpTheFirstClaimByName(t *testing.T) {
	pod, other := makePod("pod", "d", "c", "b", "a"), makePod("other")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeSlice("n2", "gpu-0"), makeSlice("n3", "gpu-0"),
		allocated(makeClaim("a"), "n2", "gpu-0"),        // reachable from the node that is asked
		allocated(makeClaim("b"), "n2", "gpu-1", other), // so is this one, which somebody uses
		allocated(makeClaim("c"), "n1", "gpu-0", pod),
		allocated(makeClaim("d"), "n3", "gpu-0"))
	a, status := c.begin(pod, "n2")
	wantReason(t, status, fwk.UnschedulableAndUnresolvable, reason.ClaimElsewhere)

	for _, want := range []string{"c", "d"} {
		if _, status = c.plugin.PostFilter(c.ctx, a.state, pod, nil); status.Code() != fwk.UnschedulableAndUnresolvable {
			t.Fatalf("PostFilter: got %v, want that preemption is not tried", status)
		}
		c.wantFree(want)
		if seen, _ := c.plugin.devices.Claim(namespace, want); seen.Status.Allocation != nil {
			t.Errorf("claim %s still counts as allocated", want)
		}
		a, _ = c.begin(pod, "n2")
	}
	if _, status = c.plugin.PostFilter(c.ctx, a.state, pod, nil); status.Code() != fwk.Unschedulable {
		t.Errorf("nothing left to give up: got %v, want Unschedulable", status)
	}
	for _, name := range []string{"a", "b"} {
		if c.claim(name).Status.Allocation == nil {
			t.Errorf("claim %s was given up", name)
		}
	}
}

func TestPostFilterGivesUpOnlyWhatHelps(t *testing.T) {
	pod, other := makePod("pod", "a", "b"), makePod("other")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeSlice("n2", "gpu-0"), makeSlice("n3", "gpu-0"),
		allocated(makeClaim("a"), "n1", "gpu-0"),
		allocated(makeClaim("b"), "n2", "gpu-0", other))
	for _, node := range []string{"n1", "n3"} { // b stays on n2, whatever becomes of a
		a, _ := c.begin(pod, node)
		if _, status := c.plugin.PostFilter(c.ctx, a.state, pod, nil); status.Code() != fwk.Unschedulable {
			t.Errorf("PostFilter after %s: got %v, want Unschedulable", node, status.Code())
		}
	}
	c.wantReserved("a")
	a, _ := c.begin(pod, "n2")
	if _, status := c.plugin.PostFilter(c.ctx, a.state, pod, nil); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("PostFilter after n2: got %v", status.Code())
	}
	c.wantFree("a")
	c.wantReserved("b", other)
}

func TestHints(t *testing.T) {
	pod := makePod("pod", "a")
	free, taken := makeClaim("a"), allocated(makeClaim("a"), "n1", "gpu-0")
	finalized := makeClaim("a")
	finalized.Finalizers = []string{"x"}
	other, otherTaken := makeClaim("b"), allocated(makeClaim("b"), "n1", "gpu-0")
	again := makeClaim("b")
	again.UID = "again"
	for name, test := range map[string]struct {
		before, after any
		want          fwk.QueueingHint
		all           bool
	}{
		"own claim created":             {nil, free, fwk.Queue, false},
		"own claim allocated":           {free, taken, fwk.Queue, false},
		"own claim deallocated":         {taken, free, fwk.Queue, true},
		"own claim got a finalizer":     {free, finalized, fwk.QueueSkip, false},
		"own claim deleted":             {free, nil, fwk.QueueSkip, false},
		"another claim created":         {nil, other, fwk.QueueSkip, false},
		"another claim allocated":       {other, otherTaken, fwk.QueueSkip, false},
		"another claim deallocated":     {otherTaken, other, fwk.Queue, true},
		"another claim deleted":         {otherTaken, nil, fwk.Queue, true},
		"another claim replaced":        {otherTaken, again, fwk.Queue, true},
		"free claim deleted":            {other, nil, fwk.QueueSkip, false},
		"deletion that was not watched": {struct{}{}, nil, fwk.Queue, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, pod.DeepCopy())
			got, err := c.plugin.afterClaim(klog.Background(), pod, test.before, test.after)
			if err != nil || got != test.want {
				t.Errorf("hint: got %v, %v; want %v", got, err, test.want)
			}
			pods, err := c.plugin.podsForClaim(klog.Background(), test.before, test.after)
			if err != nil || pods.AllPods != test.all {
				t.Errorf("pods: got %+v, %v; want all: %v", pods, err, test.all)
			}
		})
	}
}

func TestEveryPodThatWaitsForAClaimIsWoken(t *testing.T) {
	var objects []runtime.Object
	for i := range 50 {
		objects = append(objects, makePod(fmt.Sprint("pod-", i), "a"))
	}
	c := newCluster(t, append(objects, makePod("unconcerned", "b"))...)
	for _, obj := range objects {
		wantReason(t, c.plugin.PreEnqueue(c.ctx, obj.(*v1.Pod)), fwk.UnschedulableAndUnresolvable, reason.ClaimNotFound)
	}
	claim := makeClaim("a")
	c.server.add(t, claim)
	eventually(t, "the informer shows the claim", func() bool {
		seen, _ := c.plugin.devices.Claim(namespace, "a")
		return seen != nil
	})
	woken, err := c.plugin.podsForClaim(klog.Background(), nil, claim)
	if err != nil || woken.AllPods || len(woken.Pods) != len(objects) {
		t.Errorf("the event reaches %d pods (%v), want %d", len(woken.Pods), err, len(objects))
	}
	for _, obj := range objects {
		pod := obj.(*v1.Pod)
		if hint, err := c.plugin.afterClaim(klog.Background(), pod, nil, claim); hint != fwk.Queue || err != nil {
			t.Errorf("pod %s is not woken: %v", pod.Name, err)
		}
		if status := c.plugin.PreEnqueue(c.ctx, pod); !status.IsSuccess() {
			t.Errorf("pod %s is kept out of the queue: %v", pod.Name, status)
		}
	}
}

func TestGeneratedClaimWakesItsPod(t *testing.T) {
	before := makePod("pod")
	before.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("t")}}
	after := before.DeepCopy()
	after.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("a")}}
	claim := makeClaim("a")
	claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "pod", UID: "pod", Controller: ptr.To(true)}}

	c := newCluster(t)
	if hint, _ := c.plugin.afterGeneratedClaim(klog.Background(), before, before, after); hint != fwk.QueueSkip {
		t.Error("the pod is woken before its claim exists")
	}
	c = newCluster(t, claim)
	if hint, _ := c.plugin.afterGeneratedClaim(klog.Background(), before, before, after); hint != fwk.Queue {
		t.Error("the pod is not woken although its claim exists")
	}
}

// The pod is told whether or not it finds other devices.
func TestSelectorThatFailsIsAWarning(t *testing.T) {
	for name, model := range map[string]string{"placed": "x", "refused": "y"} {
		t.Run(name, func(t *testing.T) {
			claim := makeClaim("a")
			claim.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{
				{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].model == "x"`}},
			}
			slice := makeSlice("n1", "gpu-0", "gpu-1", "gpu-2")
			slice.Spec.Devices[2].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}
			c := newCluster(t, makeClass(), slice, claim)
			pod := makePod("pod", "a")
			a, status := c.begin(pod, "n1")
			if placed := model == "x"; placed != status.IsSuccess() {
				t.Fatalf("Filter: %v", status)
			}
			c.plugin.Filter(c.ctx, a.state, pod, nodeInfo{node: makeNode("n1")})
			select {
			case event := <-c.handle.recorder.Events:
				if !strings.Contains(event, "Warning DeviceSelectorFailed") || !strings.Contains(event, "gpu.example.com/n1/gpu-") {
					t.Errorf("event: %s", event)
				}
			default:
				t.Error("no event")
			}
			if n := len(c.handle.recorder.Events); n != 0 {
				t.Errorf("%d more events about the same selector in one cycle", n)
			}
		})
	}
}

// Devices that skip operations of their node can be used only where the node
// declares to know of that. An allocation that no node can use is given up.
func TestAllocationThatSkipsOperationsOfTheNode(t *testing.T) {
	claim := allocated(makeClaim("a"), "n1", "gpu-0")
	claim.Status.Allocation.NodeSelector = nil
	claim.Status.Allocation.Devices.Results[0].SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
	pod, node := makePod("pod", "a"), makeNode("n1")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), claim)
	a, status := c.begin(pod, "n1")
	wantReason(t, status, fwk.UnschedulableAndUnresolvable, reason.ClaimElsewhere)
	explained := c.plugin.Explain(c.ctx, a.state, nodeInfo{node: node})
	if want := "they skip operations of the node (the node does not declare the feature DRAOptionalNodeOperations)"; explained == nil || !strings.HasSuffix(explained.Sentence(), want) {
		t.Errorf("explained as %v, want %q", explained, want)
	}
	node.Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
	if status := c.plugin.Filter(c.ctx, a.state, pod, nodeInfo{node: node}); !status.IsSuccess() {
		t.Errorf("a node that declares the feature is refused: %v", status)
	}
	if _, status := c.plugin.PostFilter(c.ctx, a.state, pod, nil); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("PostFilter: %v, want that the allocation is given up", status)
	}
	c.wantFree("a")
}
