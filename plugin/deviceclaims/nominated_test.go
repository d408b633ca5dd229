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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/reason"
)

// filterWithNominated is what the framework does with a node for which pods are
// nominated: it asks about the node with them and, if the pod fits, without.
func (c *cluster) filterWithNominated(pod *v1.Pod, node string, nominated ...*v1.Pod) (*attempt, *fwk.Status) {
	c.t.Helper()
	a := &attempt{c: c, plugin: c.plugin, pod: pod, node: makeNode(node), state: &cycleState{}}
	if _, status := c.plugin.PreFilter(c.ctx, a.state, pod, allNodes()); !status.IsSuccess() {
		c.t.Fatal(status)
	}
	with, info := a.state.Clone(), nodeInfo{node: a.node}
	for _, other := range nominated {
		if status := c.plugin.AddPod(c.ctx, with, pod, podInfo{pod: other}, info); !status.IsSuccess() {
			c.t.Fatal(status)
		}
	}
	if status := c.plugin.Filter(c.ctx, with, pod, info); !status.IsSuccess() {
		return a, status
	}
	return a, c.plugin.Filter(c.ctx, a.state, pod, info)
}

// makeModels makes the pool of a node with devices of the given models, named
// gpu-0 and so on.
func makeModels(node string, models ...string) *resourceapi.ResourceSlice {
	slice := makeSlice(node)
	for i, model := range models {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
			Name:       "gpu-" + string(rune('0'+i)),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To(model)}},
		})
	}
	return slice
}

// wanting lets a claim want so many devices, of the given models if there are any.
func wanting(claim *resourceapi.ResourceClaim, count int64, models ...string) *resourceapi.ResourceClaim {
	exactly := claim.Spec.Devices.Requests[0].Exactly
	exactly.Count = count
	if len(models) > 0 {
		exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf("device.attributes[%q].model in ['%s']", driver, strings.Join(models, "', '")),
		}}}
	}
	return claim
}

// andAny lets a claim want one more device of any model.
func andAny(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	more := makeClaim("").Spec.Devices.Requests[0]
	more.Name = "more"
	claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, more)
	return claim
}

func withPriority(pod *v1.Pod, priority int32) *v1.Pod {
	pod.Spec.Priority = &priority
	return pod
}

func terminating(pod *v1.Pod) *v1.Pod {
	pod.DeletionTimestamp, pod.Finalizers = ptr.To(metav1.Now()), []string{"x"}
	return pod
}

func TestDevicesAreLeftForNominatedPods(t *testing.T) {
	unknownClass := makeClaim("high")
	unknownClass.Spec.Devices.Requests[0].Exactly.DeviceClassName = "unknown"
	nothing := makeClaim("high")
	nothing.Spec.Devices.Requests = nil
	high := makePod("high", "high")
	for name, test := range map[string]struct {
		slice   *resourceapi.ResourceSlice
		low     *resourceapi.ResourceClaim
		others  []runtime.Object // high's claim, and whatever else there is
		high    func(*v1.Pod)
		refused reason.Code
		want    []string // devices of low
	}{
		"the only free device": {
			slice: makeModels("n1", "a"), low: makeClaim("low"), others: []runtime.Object{makeClaim("high")}, refused: reason.DevicesNominated,
		},
		"a device for each": {
			slice: makeModels("n1", "a", "a"), low: makeClaim("low"), others: []runtime.Object{makeClaim("high")}, want: []string{"gpu-0"},
		},
		"the first device is the only one for the nominated pod": {
			slice: makeModels("n1", "a", "b"), low: makeClaim("low"), others: []runtime.Object{wanting(makeClaim("high"), 1, "a")}, want: []string{"gpu-1"},
		},
		"the first device is the only one for the pod itself": {
			slice: makeModels("n1", "a", "b"), low: wanting(makeClaim("low"), 1, "a"), others: []runtime.Object{makeClaim("high")}, want: []string{"gpu-0"},
		},
		"each could have what only the other can use": {
			slice: makeModels("n1", "a", "b", "c"), low: wanting(makeClaim("low"), 1, "a", "b"),
			others: []runtime.Object{andAny(wanting(makeClaim("high"), 1, "a"))}, want: []string{"gpu-1"},
		},
		"pods are ending for the nominated pod": {
			slice: makeModels("n1", "a", "a", "a"), low: makeClaim("low"),
			others: []runtime.Object{
				wanting(makeClaim("high"), 2), terminating(makePod("going")),
				allocated(makeClaim("held"), "n1", "gpu-0", makePod("going")), allocated(makeClaim("left"), "n1", "gpu-1", makePod("gone")),
			},
			want: []string{"gpu-2"},
		},
		"pods are ending, but for nobody else": {
			slice: makeModels("n1", "a", "a"), low: makeClaim("low"),
			others:  []runtime.Object{wanting(makeClaim("high"), 2), allocated(makeClaim("left"), "n1", "gpu-1", makePod("gone"))},
			refused: reason.DevicesNominated,
		},
		"pods are about to be evicted for the nominated pod": {
			slice: makeModels("n1", "a", "a"), low: makeClaim("low"),
			others: []runtime.Object{
				wanting(makeClaim("high"), 2), makePod("running"), allocated(makeClaim("held"), "n1", "gpu-1", makePod("running")),
			},
			refused: reason.NominationPending,
		},
		"the pod can evict none of those who might go": {
			slice: makeModels("n1", "a", "a"), low: makeClaim("low"),
			others: []runtime.Object{
				wanting(makeClaim("high"), 2), withPriority(makePod("running"), 1), allocated(makeClaim("held"), "n1", "gpu-1", makePod("running")),
			},
			refused: reason.DevicesNominated,
		},
		"pods would have to be evicted for the nominated pod, which may not": {
			slice: makeModels("n1", "a", "a"), low: makeClaim("low"), high: func(pod *v1.Pod) { pod.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever) },
			others: []runtime.Object{
				wanting(makeClaim("high"), 2), makePod("running"), allocated(makeClaim("held"), "n1", "gpu-1", makePod("running")),
			},
			refused: reason.DevicesNominated,
		},
		"the nominated pod is kept out of the queue": {
			slice: makeModels("n1", "a"), low: makeClaim("low"), others: []runtime.Object{makeClaim("high")},
			high: func(pod *v1.Pod) { pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "gate"}} }, want: []string{"gpu-0"},
		},
		"the nominated pod has its device":      {slice: makeModels("n1", "a", "a"), low: makeClaim("low"), others: []runtime.Object{allocated(makeClaim("high"), "n1", "gpu-1", high)}, want: []string{"gpu-0"}},
		"the nominated pod has no claim yet":    {slice: makeModels("n1", "a"), low: makeClaim("low"), want: []string{"gpu-0"}},
		"the nominated pod can run nowhere":     {slice: makeModels("n1", "a"), low: makeClaim("low"), others: []runtime.Object{unknownClass}, want: []string{"gpu-0"}},
		"the nominated pod cannot run here":     {slice: makeModels("n1", "a"), low: makeClaim("low"), others: []runtime.Object{wanting(makeClaim("high"), 1, "b")}, want: []string{"gpu-0"}},
		"the nominated pod needs no device":     {slice: makeModels("n1", "a"), low: makeClaim("low"), others: []runtime.Object{nothing}, want: []string{"gpu-0"}},
		"the nominated pod needs the same ones": {slice: makeModels("n1", "a"), low: makeClaim("high"), want: []string{"gpu-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			low, high := withPriority(makePod("low", test.low.Name), 1), high.DeepCopy()
			if test.high != nil {
				test.high(high)
			}
			c := newCluster(t, append(test.others, makeClass(), test.slice, test.low, high)...)
			a, status := c.filterWithNominated(low, "n1", makePod("plain"), high)
			if test.refused != "" {
				code := fwk.Unschedulable
				if !test.refused.Evictable() {
					code = fwk.UnschedulableAndUnresolvable
				}
				wantReason(t, status, code, test.refused)
				var r *reason.Rejection
				if errors.As(status.AsError(), &r) && r.Facts.Object.Name != "high" {
					t.Errorf("the reason names %v, want the nominated pod", r.Facts.Object)
				}
				if _, status := c.begin(low, "n1"); !status.IsSuccess() {
					t.Errorf("without the nominated pod: %v", status)
				}
				return
			}
			if !status.IsSuccess() {
				t.Fatal(status)
			}
			if status := c.plugin.Reserve(c.ctx, a.state, low, "n1"); !status.IsSuccess() {
				t.Fatal(status)
			}
			claim, _ := c.plugin.devices.Claim(namespace, test.low.Name)
			var got []string
			for _, result := range claim.Status.Allocation.Devices.Results {
				got = append(got, result.Device)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("the pod gets %v, want %v", got, test.want)
			}
		})
	}
}

// Pods that are nominated for one node and are equally important do not wait for each
// other.
func TestNominatedPodsDoNotBlockEachOther(t *testing.T) {
	objects := []runtime.Object{makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeClaim("pod"), makeClaim("other"), makePod("low"), allocated(makeClaim("low"), "n1", "gpu-1", makePod("low"))}
	for name, test := range map[string]struct {
		nominated string
		priority  int32 // of the other
		refused   bool
	}{
		"both are":                    {nominated: "n1", priority: 5},
		"only the other is":           {priority: 5, refused: true},
		"the pod is for another node": {nominated: "n2", priority: 5, refused: true},
		"the other is more important": {nominated: "n1", priority: 6, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod, other := withPriority(makePod("pod", "pod"), 5), withPriority(makePod("other", "other"), test.priority)
			pod.Status.NominatedNodeName = test.nominated
			c := newCluster(t, append([]runtime.Object{pod, other}, objects...)...)
			if _, status := c.filterWithNominated(pod, "n1", other); status.IsSuccess() == test.refused {
				t.Errorf("refused %v, want %v: %v", !status.IsSuccess(), test.refused, status)
			}
		})
	}
}

// Two pods that are nominated for one node are both thought of, and one whose
// nomination is out of date does not hide the other.
func TestSeveralNominatedPods(t *testing.T) {
	high, higher, stale := makePod("high", "high"), makePod("higher", "higher"), makePod("stale", "stale")
	objects := func(devices ...string) []runtime.Object {
		return []runtime.Object{
			makeClass(), makeSlice("n1", devices...), makeClaim("low"), makeClaim("high"), makeClaim("higher"),
			wanting(makeClaim("stale"), 9), high, higher, stale,
		}
	}
	low := makePod("low", "low")
	c := newCluster(t, objects("gpu-0", "gpu-1")...)
	if _, status := c.filterWithNominated(low, "n1", high); !status.IsSuccess() {
		t.Errorf("beside one: %v", status)
	}
	_, status := c.filterWithNominated(low, "n1", high, higher)
	wantReason(t, status, fwk.Unschedulable, reason.DevicesNominated)
	_, status = c.filterWithNominated(low, "n1", high, higher, makePod("gone", "gone"))
	wantReason(t, status, fwk.Unschedulable, reason.DevicesNominated)
	if _, status := newCluster(t, objects("gpu-0", "gpu-1", "gpu-2")...).filterWithNominated(low, "n1", high, higher); !status.IsSuccess() {
		t.Errorf("beside two: %v", status)
	}
}

// Preemption for a second pod evicts others than those that go for the first.
func TestEvictionBesideNominatedPods(t *testing.T) {
	first, second := makePod("low-0", "low-0"), makePod("low-1", "low-1") // low-0 is gone
	high, mid := makePod("high", "high"), makePod("mid", "mid")
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeClaim("high"), makeClaim("mid"), high, second,
		allocated(makeClaim("low-0"), "n1", "gpu-0", first), allocated(makeClaim("low-1"), "n1", "gpu-1", second))
	a, status := c.begin(mid, "n1")
	wantReason(t, status, fwk.Unschedulable, reason.NotEnoughDevices)
	for _, test := range []struct {
		evicted []*v1.Pod
		want    bool
	}{{[]*v1.Pod{first}, false}, {[]*v1.Pod{second}, true}, {[]*v1.Pod{first, second}, true}} {
		dryRun, node := a.state.Clone(), nodeInfo{node: a.node}
		for _, pod := range test.evicted {
			running := pod.DeepCopy()
			running.Spec.NodeName = "n1"
			c.plugin.RemovePod(c.ctx, dryRun, mid, podInfo{pod: running}, node)
		}
		with := dryRun.Clone()
		c.plugin.AddPod(c.ctx, with, mid, podInfo{pod: high}, node)
		fits := c.plugin.Filter(c.ctx, with, mid, node).IsSuccess() && c.plugin.Filter(c.ctx, dryRun, mid, node).IsSuccess()
		if fits != test.want {
			t.Errorf("without %d pods, the first of them %s: fits %v, want %v", len(test.evicted), test.evicted[0].Name, fits, test.want)
		}
	}
}

// statuses is what Filter said of the nodes.
type statuses struct {
	fwk.NodeToStatusReader
	code   fwk.Code
	plugin string
}

func (s statuses) Get(string) *fwk.Status { return fwk.NewStatus(s.code).WithPlugin(s.plugin) }

// A pod that was evicted is gone before its claim is free.
func TestNobodyElseIsEvictedWhileDevicesAreBeingFreed(t *testing.T) {
	high := makePod("high", "high")
	high.Status.NominatedNodeName = "n1"
	unnominated := makePod("high", "high")
	victim := makePod("victim")
	for name, test := range map[string]struct {
		pod     *v1.Pod
		objects []runtime.Object
		before  func(*cluster)
		node    fwk.Code
		plugin  string
		wait    bool
	}{
		"the victim is gone":                   {pod: high, objects: []runtime.Object{allocated(makeClaim("v"), "n1", "gpu-0", victim)}, node: fwk.Unschedulable, wait: true},
		"the victim is on its way out":         {pod: high, objects: []runtime.Object{allocated(makeClaim("v"), "n1", "gpu-0", victim), terminating(makePod("victim"))}, node: fwk.Unschedulable, wait: true},
		"the victim came back":                 {pod: high, objects: []runtime.Object{allocated(makeClaim("v"), "n1", "gpu-0", victim), recreated("victim")}, node: fwk.Unschedulable, wait: true},
		"the victim is still running":          {pod: high, objects: []runtime.Object{allocated(makeClaim("v"), "n1", "gpu-0", victim), makePod("victim")}, node: fwk.Unschedulable},
		"the device has another user":          {pod: high, objects: []runtime.Object{allocated(makeClaim("v"), "n1", "gpu-0", victim, makePod("user")), makePod("user")}, node: fwk.Unschedulable},
		"a group uses the device":              {pod: high, objects: []runtime.Object{reservedForGroup(allocated(makeClaim("v"), "n1", "gpu-0"))}, node: fwk.Unschedulable},
		"no eviction can help there":           {pod: high, objects: []runtime.Object{allocated(makeClaim("v"), "n1", "gpu-0", victim)}, node: fwk.UnschedulableAndUnresolvable},
		"it is the plugin itself that says so": {pod: high, objects: []runtime.Object{allocated(makeClaim("v"), "n1", "gpu-0", victim)}, node: fwk.UnschedulableAndUnresolvable, plugin: Name, wait: true},
		"it is not devices that are few":       {pod: high, node: fwk.Unschedulable},
		"the pod was nominated just now": {
			pod: unnominated, objects: []runtime.Object{allocated(makeClaim("v"), "n1", "gpu-0", victim)}, node: fwk.Unschedulable, wait: true,
			before: func(c *cluster) { c.handle.nominated = map[string][]fwk.PodInfo{"n1": {podInfo{pod: unnominated}}} },
		},
		"the pod was not nominated":       {pod: unnominated, objects: []runtime.Object{allocated(makeClaim("v"), "n1", "gpu-0", victim)}, node: fwk.Unschedulable},
		"the device is somebody's plan":   {pod: high, objects: []runtime.Object{makeClaim("v"), makePod("v", "v")}, before: func(c *cluster) { c.reserve(makePod("v", "v"), "n1") }, node: fwk.Unschedulable},
		"a write is in doubt for a while": {pod: high, objects: []runtime.Object{makeClaim("v"), makePod("v", "v")}, before: func(c *cluster) { c.reserve(makePod("v", "v"), "n1"); c.plugin.ledger.Doubt("v") }, node: fwk.Unschedulable, wait: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, append(test.objects, makeClass(), makeSlice("n1", "gpu-0"), makeClaim("high"))...)
			if test.before != nil {
				test.before(c)
			}
			a, _ := c.begin(test.pod, "n1")
			result, status := c.plugin.PostFilter(c.ctx, a.state, test.pod, statuses{code: test.node, plugin: test.plugin})
			want := fwk.Unschedulable
			if test.wait {
				want = fwk.UnschedulableAndUnresolvable
			}
			if status.Code() != want {
				t.Errorf("PostFilter: got %v, want %v", status, want)
			}
			if test.wait && (result == nil || result.NominatedNodeName != "n1") {
				t.Errorf("the pod loses its nomination: %+v", result)
			}
		})
	}
}

func recreated(name string) *v1.Pod {
	pod := makePod(name)
	pod.UID = "again"
	return pod
}

func TestPodThatGoesElsewhereWakesThoseWhoMadeRoom(t *testing.T) {
	low, equal, higher := withPriority(makePod("low", "low"), 1), withPriority(makePod("equal", "equal"), 5), withPriority(makePod("higher", "higher"), 9)
	for node, want := range map[string]bool{"n1": false, "n2": true} {
		c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeSlice("n2", "gpu-0"), makeClaim("high"), low, equal, higher)
		high := withPriority(makePod("high", "high"), 5)
		high.Status.NominatedNodeName = "n1"
		a := c.reserve(high, node)
		if status := a.preBind(); !status.IsSuccess() {
			t.Fatal(status)
		}
		for _, pod := range []*v1.Pod{low, equal} {
			if c.handle.wasWoken(pod) != want {
				t.Errorf("%s was woken when the pod went to %s: %v, want %v", pod.Name, node, !want, want)
			}
		}
		if c.handle.wasWoken(higher) {
			t.Error("a pod was woken that had nothing to make room for")
		}
	}
}

// Nobody chooses victims for himself while those for a nominated pod are not known,
// for they would be the same. As soon as they are known he can.
func TestVictimsAreChosenOneAfterTheOther(t *testing.T) {
	for name, devices := range map[string][]string{"no device is free": {"gpu-0", "gpu-1"}, "one is free": {"gpu-0", "gpu-1", "gpu-2"}} {
		t.Run(name, func(t *testing.T) {
			first, second := makePod("first"), makePod("second")
			high, mid := withPriority(makePod("high", "high"), 9), withPriority(makePod("mid", "mid"), 5)
			c := newCluster(t, makeClass(), makeSlice("n1", devices...), wanting(makeClaim("high"), int64(len(devices)-1)), makeClaim("mid"),
				high, mid, first, second, allocated(makeClaim("first"), "n1", "gpu-0", first), allocated(makeClaim("second"), "n1", "gpu-1", second))
			a, status := c.filterWithNominated(mid, "n1", high)
			wantReason(t, status, fwk.UnschedulableAndUnresolvable, reason.NominationPending)
			if _, status := c.plugin.PostFilter(c.ctx, a.state, mid, statuses{}); status.Code() != fwk.Unschedulable {
				t.Errorf("PostFilter: %v", status)
			}
			if c.handle.wasWoken(mid) {
				t.Error("the pod was woken before anything was known")
			}
			if err := c.client.CoreV1().Pods(namespace).Delete(c.ctx, "first", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the pod tries again", func() bool { return c.handle.wasWoken(mid) })
			_, status = c.filterWithNominated(mid, "n1", high)
			if status.Code() != fwk.Unschedulable {
				t.Errorf("when it is known who goes: got %v, want that others can be evicted", status)
			}
		})
	}
}
