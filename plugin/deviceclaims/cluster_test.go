// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	driver    = "gpu.example.com"
	namespace = "default"
)

// cluster is an API server in memory with informers on it, and the plugin.
type cluster struct {
	t      *testing.T
	ctx    context.Context
	client *fake.Clientset
	server *server
	dra    *draManager
	handle *handle
	plugin *Plugin
	clock  *testingclock.FakeClock
	// kill ends the scheduler.
	kill func()
}

// start is when tests begin.
var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func newCluster(t *testing.T, objects ...runtime.Object) *cluster {
	t.Helper()
	client := &fake.Clientset{}
	tracker := clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())
	for _, obj := range objects {
		if err := tracker.Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	client.AddReactor("*", "*", clienttesting.ObjectReaction(tracker))
	c := &cluster{t: t, client: client, clock: testingclock.NewFakeClock(start)}
	client.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := tracker.Watch(action.GetResource(), action.GetNamespace(), action.(clienttesting.WatchActionImpl).ListOptions)
		c.server.watches.Add(1)
		return true, w, err
	})
	c.server = newServer(client, tracker)
	c.startScheduler()
	t.Cleanup(func() { c.kill() })
	return c
}

// startScheduler starts a scheduler that knows nothing but the API objects.
func (c *cluster) startScheduler() {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(c.client, 0)
	c.ctx = ctx
	c.dra = newDRAManager(factory)
	c.handle = &handle{client: c.client, factory: factory, dra: c.dra, recorder: events.NewFakeRecorder(1000)}
	c.plugin = c.newPlugin()
	watches := c.server.watches.Load()
	factory.Start(ctx.Done())
	synced := factory.WaitForCacheSync(ctx.Done())
	// What happens between a list and its watch would never be shown.
	eventually(c.t, "everything is watched", func() bool { return c.server.watches.Load() >= watches+int64(len(synced)) })
	c.kill = func() {
		cancel()
		factory.Shutdown()
	}
}

// newPlugin makes the plugin of one more profile of the same scheduler.
func (c *cluster) newPlugin() *Plugin {
	c.t.Helper()
	plugin, err := New(c.ctx, nil, c.handle)
	if err != nil {
		c.t.Fatalf("New: %v", err)
	}
	p := plugin.(*Plugin)
	p.conflicts = backoff{first: time.Millisecond, longest: time.Millisecond}
	p.settling = p.conflicts
	p.clock = c.clock
	p.failures = newFailures(c.clock)
	return p
}

// attempt is one scheduling and binding cycle of a pod.
type attempt struct {
	c      *cluster
	plugin *Plugin
	pod    *v1.Pod
	node   *v1.Node
	state  *cycleState
}

// begin runs PreFilter and Filter on one node and returns the status of the
// first that is not a success.
func (c *cluster) begin(pod *v1.Pod, node string) (*attempt, *fwk.Status) {
	return c.beginWith(c.plugin, pod, node)
}

func (c *cluster) beginWith(plugin *Plugin, pod *v1.Pod, node string) (*attempt, *fwk.Status) {
	a := &attempt{c: c, plugin: plugin, pod: pod, node: makeNode(node), state: &cycleState{}}
	if _, status := plugin.PreFilter(c.ctx, a.state, pod, allNodes()); !status.IsSuccess() {
		return a, status
	}
	return a, plugin.Filter(c.ctx, a.state, pod, nodeInfo{node: a.node})
}

func allNodes() []fwk.NodeInfo {
	var nodes []fwk.NodeInfo
	for _, name := range []string{"n1", "n2", "n3"} {
		nodes = append(nodes, nodeInfo{node: makeNode(name)})
	}
	return nodes
}

// reserve runs a cycle up to Reserve, which must succeed.
func (c *cluster) reserve(pod *v1.Pod, node string) *attempt {
	c.t.Helper()
	a, status := c.begin(pod, node)
	if !status.IsSuccess() {
		c.t.Fatalf("pod %s does not fit on %s: %v", pod.Name, node, status)
	}
	if status := a.plugin.Reserve(c.ctx, a.state, pod, node); !status.IsSuccess() {
		c.t.Fatalf("reserve for pod %s: %v", pod.Name, status)
	}
	return a
}

func (a *attempt) preBind() *fwk.Status {
	return a.plugin.PreBind(a.c.ctx, a.state, a.pod, a.node.Name)
}

func (a *attempt) unreserve() { a.plugin.Unreserve(a.c.ctx, a.state, a.pod, a.node.Name) }

func (c *cluster) claim(name string) *resourceapi.ResourceClaim {
	c.t.Helper()
	claim, err := c.server.get(name)
	if err != nil {
		c.t.Fatalf("get claim: %v", err)
	}
	return claim
}

// wantFree checks that the API server has nothing written to the claim.
func (c *cluster) wantFree(name string) {
	c.t.Helper()
	if claim := c.claim(name); claim.Status.Allocation != nil || len(claim.Status.ReservedFor) != 0 {
		c.t.Errorf("claim %s should be free, has status %+v", name, claim.Status)
	}
}

func (c *cluster) wantReserved(name string, pods ...*v1.Pod) {
	c.t.Helper()
	claim := c.claim(name)
	if claim.Status.Allocation == nil {
		c.t.Errorf("claim %s should be allocated", name)
	}
	var got, want []types.UID
	for _, r := range claim.Status.ReservedFor {
		got = append(got, r.UID)
	}
	for _, pod := range pods {
		want = append(want, pod.UID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.t.Errorf("claim %s is reserved for %v, want %v", name, got, want)
	}
}

// wantSettled checks that the ledger and the SharedDRAManager hold nothing that
// the informers do not show.
func (c *cluster) wantSettled() {
	c.t.Helper()
	eventually(c.t, "the ledger is empty", func() bool { return len(c.plugin.ledger.InFlight()) == 0 })
	eventually(c.t, "the SharedDRAManager counts no sharers of pending allocations", func() bool { return c.dra.sharers() == 0 })
}

// eventually waits until the informers or a goroutine of the plugin have made a
// condition true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for range 15000 {
		if condition() {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("it never happened that %s", what)
}

// handle is the part of a framework handle that the plugin uses.
type handle struct {
	fwk.Handle
	client   kubernetes.Interface
	factory  informers.SharedInformerFactory
	dra      *draManager
	recorder *events.FakeRecorder
	groups   *groups
	// nodes are those of the scheduler's snapshot, by name.
	nodes map[string]*v1.Node

	// nominated are the pods that the scheduling queue has nominated, by node.
	nominated map[string][]fwk.PodInfo

	mutex sync.Mutex
	woken map[string]*v1.Pod
}

func (h *handle) NominatedPodsForNode(node string) []fwk.PodInfo { return h.nominated[node] }

// Activate remembers which pods the plugin has woken.
func (h *handle) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.woken == nil {
		h.woken = map[string]*v1.Pod{}
	}
	maps.Copy(h.woken, pods)
}

func (h *handle) wasWoken(pod *v1.Pod) bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.woken[pod.Namespace+"/"+pod.Name] != nil
}

func (h *handle) ClientSet() kubernetes.Interface                        { return h.client }
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (h *handle) SharedDRAManager() fwk.SharedDRAManager                 { return h.dra }
func (h *handle) EventRecorder() events.EventRecorderLogger              { return h.recorder }

func (h *handle) SnapshotSharedLister() fwk.SharedLister {
	return sharedLister{groups: h.groups, nodes: h.nodes}
}
func (h *handle) PodGroupManager() fwk.PodGroupManager { return groupManager{groups: h.groups} }

// draManager reads from informers and counts the sharers of pending allocations.
type draManager struct {
	fwk.SharedDRAManager
	factory informers.SharedInformerFactory
	*tracker
}

type tracker struct {
	fwk.ResourceClaimTracker
	mutex   sync.Mutex
	pending map[types.UID]int
}

func newDRAManager(factory informers.SharedInformerFactory) *draManager {
	m := &draManager{factory: factory, tracker: &tracker{pending: map[types.UID]int{}}}
	factory.Resource().V1().ResourceSlices().Informer()
	factory.Resource().V1().DeviceClasses().Informer()
	return m
}

func (m *draManager) ResourceClaims() fwk.ResourceClaimTracker { return m.tracker }
func (m *draManager) ResourceSlices() fwk.ResourceSliceLister  { return sliceLister{m.factory} }
func (m *draManager) DeviceClasses() fwk.DeviceClassLister     { return classLister{m.factory} }
func (m *draManager) DeviceClassResolver() fwk.DeviceClassResolver {
	return classResolver{classLister{m.factory}}
}

func (t *tracker) sharers() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	n := 0
	for _, count := range t.pending {
		n += count
	}
	return n
}

func (t *tracker) SignalClaimPendingAllocation(uid types.UID, _ *resourceapi.ResourceClaim) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.pending[uid]++
	return nil
}

func (t *tracker) MaybeRemoveClaimPendingAllocation(uid types.UID, force bool) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.pending[uid]--; force || t.pending[uid] == 0 {
		delete(t.pending, uid)
		return true
	}
	return false
}

func (t *tracker) AssumeClaimAfterAPICall(*resourceapi.ResourceClaim) error { return nil }
func (t *tracker) AssumedClaimRestore(string, string)                       {}

type sliceLister struct {
	factory informers.SharedInformerFactory
}

func (l sliceLister) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return l.factory.Resource().V1().ResourceSlices().Lister().List(labels.Everything())
}

type classLister struct {
	factory informers.SharedInformerFactory
}

func (l classLister) List() ([]*resourceapi.DeviceClass, error) {
	return l.factory.Resource().V1().DeviceClasses().Lister().List(labels.Everything())
}

func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	return l.factory.Resource().V1().DeviceClasses().Lister().Get(name)
}

// classResolver serves the extended resources that classes name.
type classResolver struct{ classLister }

func (r classResolver) GetDeviceClass(name v1.ResourceName) *resourceapi.DeviceClass {
	classes, err := r.List()
	if err != nil {
		return nil
	}
	for _, class := range classes {
		if named := ptr.Deref(class.Spec.ExtendedResourceName, ""); named == string(name) || resourceapi.ResourceDeviceClassPrefix+class.Name == string(name) {
			return class
		}
	}
	return nil
}

// podInfo is a pod on a node.
type podInfo struct {
	fwk.PodInfo
	pod *v1.Pod
}

func (p podInfo) GetPod() *v1.Pod { return p.pod }

type nodeInfo struct {
	fwk.NodeInfo
	node *v1.Node
}

func (n nodeInfo) Node() *v1.Node { return n.node }

type cycleState struct {
	fwk.CycleState
	data  sync.Map
	group fwk.PodGroupCycleState
}

// group is nil outside the cycle of a PodGroup.
func (s *cycleState) GetPodGroupSchedulingCycle() fwk.PodGroupCycleState { return s.group }

func (s *cycleState) Clone() fwk.CycleState {
	clone := &cycleState{group: s.group}
	s.data.Range(func(key, value any) bool {
		clone.data.Store(key, value.(fwk.StateData).Clone())
		return true
	})
	return clone
}

func (s *cycleState) Read(key fwk.StateKey) (fwk.StateData, error) {
	if data, ok := s.data.Load(key); ok {
		return data.(fwk.StateData), nil
	}
	return nil, fwk.ErrNotFound
}

func (s *cycleState) Write(key fwk.StateKey, data fwk.StateData) { s.data.Store(key, data) }

func makeNode(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
}

func makeClass() *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: ptr.To("example.com/gpu"), Selectors: []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}},
		}},
	}
}

// makeSlice makes the pool of a node with devices of the given names.
func makeSlice(node string, devices ...string) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus", UID: types.UID(node + "-gpus"), ResourceVersion: "1"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver:   driver,
			NodeName: ptr.To(node),
			Pool:     resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for _, name := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: name})
	}
	return slice
}

// makeClaim makes a claim for one GPU.
func makeClaim(name string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), ResourceVersion: "10"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu",
			Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			},
		}}}},
	}
}

func allocated(claim *resourceapi.ResourceClaim, node, device string, pods ...*v1.Pod) *resourceapi.ResourceClaim {
	claim.Finalizers = []string{resourceapi.Finalizer}
	claim.Status.Allocation = &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "gpu", Driver: driver, Pool: node, Device: device},
		}},
		NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}},
			},
		}}},
	}
	for _, pod := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer(pod))
	}
	return claim
}

// makePod makes a pod that uses the named claims.
func makePod(name string, claims ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims,
			v1.PodResourceClaim{Name: claim, ResourceClaimName: ptr.To(claim)})
	}
	return pod
}
