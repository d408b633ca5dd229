// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/reason"
)

// Preemption takes pods off a copy of the cycle's state and asks Filter again.
func TestEvictionGivesBackWhatNobodyElseUses(t *testing.T) {
	low, lowToo, elsewhere := makePod("low", "low"), makePod("low-too", "low"), makePod("elsewhere", "low")
	for name, test := range map[string]struct {
		users   []*v1.Pod
		evicted []*v1.Pod
		spared  []*v1.Pod // after they were evicted
		want    bool
	}{
		"its only user":                     {users: []*v1.Pod{low}, evicted: []*v1.Pod{low}, want: true},
		"nobody":                            {users: []*v1.Pod{low}},
		"a pod without claims":              {users: []*v1.Pod{low}, evicted: []*v1.Pod{makePod("plain")}},
		"both of its users":                 {users: []*v1.Pod{low, lowToo}, evicted: []*v1.Pod{low, lowToo}, want: true},
		"one of its users":                  {users: []*v1.Pod{low, elsewhere}, evicted: []*v1.Pod{low}},
		"its user, who is spared again":     {users: []*v1.Pod{low}, evicted: []*v1.Pod{low}, spared: []*v1.Pod{low}},
		"a claim that is idle is not freed": {evicted: []*v1.Pod{low}},
	} {
		t.Run(name, func(t *testing.T) {
			high := makePod("high", "high")
			c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeClaim("high"), allocated(makeClaim("low"), "n1", "gpu-0", test.users...))
			a, status := c.begin(high, "n1")
			wantReason(t, status, fwk.Unschedulable, reason.NotEnoughDevices)

			node := nodeInfo{node: a.node}
			dryRun := a.state.Clone()
			for _, pod := range test.evicted {
				if status := c.plugin.RemovePod(c.ctx, dryRun, high, podInfo{pod: pod}, node); !status.IsSuccess() {
					t.Fatal(status)
				}
			}
			for _, pod := range test.spared {
				if status := c.plugin.AddPod(c.ctx, dryRun, high, podInfo{pod: pod}, node); !status.IsSuccess() {
					t.Fatal(status)
				}
			}
			if status := c.plugin.Filter(c.ctx, dryRun, high, node); status.IsSuccess() != test.want {
				t.Errorf("Filter in the dry run: got %v, want success %v", status, test.want)
			}
			if status := c.plugin.Filter(c.ctx, a.state, high, node); status.IsSuccess() {
				t.Error("the dry run changed the cycle itself")
			}
			if status := c.plugin.Reserve(c.ctx, a.state, high, "n1"); status.IsSuccess() {
				t.Error("a plan that takes an eviction can be reserved")
			}
		})
	}
}

// What a pod that is being bound has is not its own to give back before it is bound.
// Whoever is more important is tried again then, and nobody else is.
func TestPodIsTriedAgainWhenAnotherIsBound(t *testing.T) {
	low, equal, high := makePod("low", "low"), makePod("equal", "equal"), makePod("high", "high")
	high.Spec.Priority = ptr.To[int32](10)
	never := makePod("never", "never")
	never.Spec.Priority, never.Spec.PreemptionPolicy = ptr.To[int32](10), ptr.To(v1.PreemptNever)
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeClaim("low"), makeClaim("equal"), makeClaim("high"), makeClaim("never"), low, equal, high, never)
	binding := c.reserve(low, "n1")
	for _, pod := range []*v1.Pod{equal, high, never} {
		a, status := c.begin(pod, "n1")
		wantReason(t, status, fwk.Unschedulable, reason.NotEnoughDevices)
		if _, status := c.plugin.PostFilter(c.ctx, a.state, pod, nil); status.Code() != fwk.Unschedulable {
			t.Errorf("PostFilter: %v", status)
		}
	}
	if status := binding.preBind(); !status.IsSuccess() {
		t.Fatal(status)
	}
	bound := c.registered(fwk.AssignedPod, fwk.Add)
	// With a function that narrows, the queue would ask no other plugin about the
	// pods that it does not name.
	if bound.PreQueueingHintFn != nil {
		t.Error("the event is kept from the pods of other plugins")
	}
	for pod, want := range map[*v1.Pod]fwk.QueueingHint{high: fwk.Queue, equal: fwk.QueueSkip, never: fwk.QueueSkip} {
		if hint, err := bound.QueueingHintFn(klog.Background(), pod, nil, low); err != nil || hint != want {
			t.Errorf("%s: got %v, %v, want %v", pod.Name, hint, err, want)
		}
	}
	if hint, err := bound.QueueingHintFn(klog.Background(), high, nil, makePod("other")); err != nil || hint != fwk.QueueSkip {
		t.Errorf("a pod without devices was bound: got %v, %v", hint, err)
	}
	a, status := c.begin(high, "n1")
	wantReason(t, status, fwk.Unschedulable, reason.NotEnoughDevices)
	if _, status := c.plugin.PostFilter(c.ctx, a.state, high, nil); status.Code() != fwk.Unschedulable {
		t.Errorf("PostFilter: %v", status)
	}
	if c.plugin.overtaken.has(high.UID) {
		t.Error("the pod waits for others to be bound, and none is")
	}
}

// registered is what the plugin wants to know of when something happens.
func (c *cluster) registered(resource fwk.EventResource, action fwk.ActionType) fwk.ClusterEventWithHint {
	c.t.Helper()
	events, err := c.plugin.EventsToRegister(c.ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, event := range events {
		if event.Event.Resource == resource && event.Event.ActionType&action != 0 {
			return event
		}
	}
	c.t.Fatalf("%s of %s is not registered", action, resource)
	return fwk.ClusterEventWithHint{}
}

// The pod's own claim stays where it is, whoever is evicted beside it.
func TestEvictionDoesNotMoveASharedClaim(t *testing.T) {
	low, high := makePod("low", "shared"), makePod("high", "shared", "own")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"),
		allocated(makeClaim("shared"), "n1", "gpu-0", low), makeClaim("own"))
	a, status := c.begin(high, "n1")
	wantReason(t, status, fwk.Unschedulable, reason.NotEnoughDevices)
	dryRun := a.state.Clone()
	c.plugin.RemovePod(c.ctx, dryRun, high, podInfo{pod: low}, nodeInfo{node: a.node})
	if status := c.plugin.Filter(c.ctx, dryRun, high, nodeInfo{node: a.node}); status.IsSuccess() {
		t.Error("the device of a claim that the pod uses itself counts as free")
	}
}

// A claim that others use ties the pod to the nodes of its devices: no eviction
// elsewhere would help, and preemption need not try.
func TestPreFilterNarrowsToTheNodesOfSharedClaims(t *testing.T) {
	pod, other := makePod("pod", "a", "b"), makePod("other")
	for name, test := range map[string]struct {
		a, b runtime.Object
		want []string // nil: all
		none bool
	}{
		"both free":                {a: makeClaim("a"), b: makeClaim("b")},
		"one is idle":              {a: allocated(makeClaim("a"), "n1", "gpu-0"), b: makeClaim("b")},
		"one is the pod's":         {a: allocated(makeClaim("a"), "n1", "gpu-0", pod), b: makeClaim("b")},
		"one is used":              {a: allocated(makeClaim("a"), "n2", "gpu-0", other), b: makeClaim("b"), want: []string{"n2"}},
		"one is used, one is idle": {a: allocated(makeClaim("a"), "n2", "gpu-0", other), b: allocated(makeClaim("b"), "n1", "gpu-0"), want: []string{"n2"}},
		"used on different nodes": {
			a: allocated(makeClaim("a"), "n1", "gpu-0", other), b: allocated(makeClaim("b"), "n2", "gpu-0", other), none: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeSlice("n2", "gpu-0"), test.a, test.b)
			result, status := c.plugin.PreFilter(c.ctx, &cycleState{}, pod, allNodes())
			if test.none {
				wantReason(t, status, fwk.UnschedulableAndUnresolvable, reason.ClaimElsewhere)
				return
			}
			if !status.IsSuccess() {
				t.Fatal(status)
			}
			if test.want == nil {
				if !result.AllNodes() {
					t.Errorf("narrowed to %v", result.NodeNames)
				}
				return
			}
			if result.AllNodes() || !result.NodeNames.HasAll(test.want...) || result.NodeNames.Len() != len(test.want) {
				t.Errorf("narrowed to %+v, want %v", result, test.want)
			}
		})
	}
}
