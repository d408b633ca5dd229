// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// groups are the PodGroups that the scheduler knows, and how many of their pods
// are scheduled.
type groups struct {
	group     *schedulingapi.PodGroup
	scheduled int
}

type sharedLister struct {
	fwk.SharedLister
	groups *groups
	nodes  map[string]*v1.Node
}

func (l sharedLister) NodeInfos() fwk.NodeInfoLister { return nodeLister{nodes: l.nodes} }

type nodeLister struct {
	fwk.NodeInfoLister
	nodes map[string]*v1.Node
}

func (l nodeLister) Get(name string) (fwk.NodeInfo, error) {
	if node, ok := l.nodes[name]; ok {
		return nodeInfo{node: node}, nil
	}
	return nil, apierrors.NewNotFound(v1.Resource("nodes"), name)
}

func (l sharedLister) PodGroups() fwk.PodGroupLister { return groupLister{l.groups} }

func (l nodeLister) List() ([]fwk.NodeInfo, error) { return allNodes(), nil }

type groupManager struct {
	fwk.PodGroupManager
	groups *groups
}

func (m groupManager) PodGroupStates() fwk.PodGroupStateLister { return groupStateLister{m.groups} }

type groupLister struct{ *groups }

func (g groupLister) Get(_, _ string) (*schedulingapi.PodGroup, error) { return g.group, nil }

type groupStateLister struct{ *groups }

func (g groupStateLister) Get(_, _ string) (fwk.PodGroupState, error) {
	return groupState{scheduled: g.scheduled}, nil
}

type groupState struct {
	fwk.PodGroupState
	scheduled int
}

func (s groupState) ScheduledPodsCount() int { return s.scheduled }

type groupInfo struct {
	fwk.PodGroupInfo
	pods []*v1.Pod
}

func (i groupInfo) GetUnscheduledPods() []*v1.Pod { return i.pods }
func (i groupInfo) GetNamespace() string          { return namespace }
func (i groupInfo) GetName() string               { return "group" }
func (i groupInfo) GetType() fwk.EntityKeyType    { return fwk.PodGroupKeyType }

// groupCycle is the state of one cycle of a group.
type groupCycle struct {
	cycleState
}

func (*groupCycle) GetParentPlacementCycleState() fwk.PlacementCycleState { return nil }

func makeGroup(claims ...string) *schedulingapi.PodGroup {
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "group", UID: "group"}}
	for _, claim := range claims {
		group.Spec.ResourceClaims = append(group.Spec.ResourceClaims, schedulingapi.PodGroupResourceClaim{Name: claim, ResourceClaimName: ptr.To(claim)})
	}
	return group
}

func inGroup(pod *v1.Pod) *v1.Pod {
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr.To("group")}
	return pod
}

func newClusterWithGroup(t *testing.T, group *schedulingapi.PodGroup, objects ...runtime.Object) *cluster {
	t.Helper()
	c := newCluster(t, objects...)
	c.handle.groups = &groups{group: group}
	c.plugin.features.podGroupClaims = true
	return c
}

// reserveInGroup runs a pod's cycle up to Reserve within the cycle of its group.
func (c *cluster) reserveInGroup(group *groupCycle, pod *v1.Pod, node string) (*attempt, *fwk.Status) {
	a := &attempt{c: c, plugin: c.plugin, pod: pod, node: makeNode(node), state: &cycleState{group: group}}
	if _, status := c.plugin.PreFilter(c.ctx, a.state, pod, allNodes()); !status.IsSuccess() {
		return a, status
	}
	if status := c.plugin.Filter(c.ctx, a.state, pod, nodeInfo{node: a.node}); !status.IsSuccess() {
		return a, status
	}
	return a, c.plugin.Reserve(c.ctx, a.state, pod, node)
}

func reservedForGroup(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.Status.ReservedFor = append(claim.Status.ReservedFor,
		resourceapi.ResourceClaimConsumerReference{APIGroup: schedulingapi.GroupName, Resource: "podgroups", Name: "group", UID: "group"})
	return claim
}

// One reservation, for the group; a plan of the group's cycle ties the others to
// its node.
func TestPodsOfAGroupShareItsClaim(t *testing.T) {
	first, second := inGroup(makePod("first", "shared", "own")), inGroup(makePod("second", "shared"))
	c := newClusterWithGroup(t, makeGroup("shared"), makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeSlice("n2", "gpu-0"),
		makeClaim("shared"), makeClaim("own"), first, second)
	cycle := &groupCycle{}
	a, status := c.reserveInGroup(cycle, first, "n1")
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	if _, status := c.reserveInGroup(cycle, second, "n2"); status.IsSuccess() {
		t.Error("the second pod may run where the claim of its group will not be")
	}
	b, status := c.reserveInGroup(cycle, second, "n1")
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	for _, one := range []*attempt{a, b} {
		if status := one.preBind(); !status.IsSuccess() {
			t.Fatal(status)
		}
	}
	if got := c.claim("shared").Status.ReservedFor; len(got) != 1 || got[0].UID != "group" {
		t.Errorf("the claim of the group is reserved for %+v", got)
	}
	c.wantReserved("own", first)
	c.wantSettled()
}

// The framework tries a group as a whole, takes everything back, and reserves
// again what it has found.
func TestGroupIsTriedBeforeItIsReserved(t *testing.T) {
	first, second := inGroup(makePod("first", "shared")), inGroup(makePod("second", "shared"))
	c := newClusterWithGroup(t, makeGroup("shared"), makeClass(), makeSlice("n1", "gpu-0"), makeClaim("shared"), first, second)
	cycle := &groupCycle{}
	a, _ := c.reserveInGroup(cycle, first, "n1")
	b, _ := c.reserveInGroup(cycle, second, "n1")
	b.unreserve()
	a.unreserve()
	c.wantFree("shared")
	c.wantSettled()
	for _, one := range []*attempt{b, a} { // in any order
		if status := c.plugin.Reserve(c.ctx, one.state, one.pod, "n1"); !status.IsSuccess() {
			t.Fatal(status)
		}
	}
	for _, one := range []*attempt{a, b} {
		if status := one.preBind(); !status.IsSuccess() {
			t.Fatal(status)
		}
	}
	c.wantSettled()
}

// A pod that fails alone does not take back what the others of its group use.
func TestUndoKeepsTheReservationOfAGroup(t *testing.T) {
	first, second := inGroup(makePod("first", "shared", "own")), inGroup(makePod("second", "shared"))
	c := newClusterWithGroup(t, makeGroup("shared"), makeClass(), makeSlice("n1", "gpu-0", "gpu-1"),
		makeClaim("shared"), makeClaim("own"), first, second)
	cycle := &groupCycle{}
	a, _ := c.reserveInGroup(cycle, first, "n1")
	b, _ := c.reserveInGroup(cycle, second, "n1")
	if status := b.preBind(); !status.IsSuccess() {
		t.Fatal(status)
	}
	c.server.remove(t, "own")
	if status := a.preBind(); status.IsSuccess() {
		t.Fatal("PreBind succeeded without the claim")
	}
	a.unreserve()
	if got := c.claim("shared").Status; got.Allocation == nil || len(got.ReservedFor) != 1 {
		t.Errorf("the claim of the group has status %+v", got)
	}
	c.wantSettled()
}

func TestGroupThatFailsLeavesNothingBehind(t *testing.T) {
	for name, test := range map[string]struct {
		scheduled int
		users     []*v1.Pod
		want      bool
	}{
		"none of its pods is scheduled": {want: true},
		"one of its pods is":            {scheduled: 1},
		"somebody else uses the claim":  {users: []*v1.Pod{makePod("other")}},
	} {
		t.Run(name, func(t *testing.T) {
			// The claim is where there is no room for the pod's own.
			pod := inGroup(makePod("pod", "shared", "own"))
			c := newClusterWithGroup(t, makeGroup("shared"), makeClass(), makeSlice("n1", "gpu-0"), makeSlice("n2", "gpu-0", "gpu-1"),
				reservedForGroup(allocated(makeClaim("shared"), "n1", "gpu-0", test.users...)), makeClaim("own"), pod)
			c.handle.groups.scheduled = test.scheduled
			cycle := &groupCycle{}
			if _, status := c.reserveInGroup(cycle, pod, "n1"); status.IsSuccess() {
				t.Fatal("the pod fits on n1")
			}
			_, status := c.plugin.PodGroupPostFilter(c.ctx, cycle, groupInfo{pods: []*v1.Pod{pod}}, nil)
			if status.IsSuccess() || status.Code() == fwk.Error {
				t.Errorf("PodGroupPostFilter: %v", status)
			}
			if free := c.claim("shared").Status.Allocation == nil; free != test.want {
				t.Errorf("the claim was given up: %v, want %v", free, test.want)
			}
			if !test.want {
				return
			}
			if a, status := c.reserveInGroup(&groupCycle{}, pod, "n2"); !status.IsSuccess() || !a.preBind().IsSuccess() {
				t.Errorf("the next attempt fails: %v", status)
			}
		})
	}
}
