// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	storage "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/faults"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	local = "local" // class of static volumes
	csi   = "csi"   // class of provisioned volumes
)

var (
	claimResource  = v1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	volumeResource = v1.SchemeGroupVersion.WithResource("persistentvolumes")
)

// patience bounds how long a test waits for something that has to happen.
const patience = time.Minute

// hook stands between the plugin and the API.
type hook func(call func() (runtime.Object, error)) (runtime.Object, error)

// cluster is an API that keeps resourceVersions, the informers on it, and one
// plugin.
type cluster struct {
	t       *testing.T
	ctx     context.Context
	client  *fake.Clientset
	factory informers.SharedInformerFactory
	plugin  *Plugin

	// stop ends the plugin and its informers.
	stop func()

	// api makes a change of an object one step, as the API server does.
	api sync.Mutex
	// watched are the informers' watches.
	watched faults.Watches

	mutex   sync.Mutex
	version int
	watches int
	// onPatch and onGet, when set, are called for each patch, and each read of a
	// single object, with the function that carries it out.
	onPatch, onGet hook
	// woken are the pods that the plugin asked to be tried again.
	woken []string
}

// newCluster starts with node n1 and n2 (label host), classes local and csi, and
// the given objects.
func newCluster(t *testing.T, args runtime.Object, objects ...runtime.Object) *cluster {
	t.Helper()
	c := &cluster{t: t, version: 1}
	objects = append([]runtime.Object{node("n1"), node("n2"), class(local, storage.NotSupportedProvisioner), class(csi, "csi.example.com")}, objects...)
	for _, obj := range objects {
		c.stamp(obj)
	}
	c.client = fake.NewSimpleClientset(objects...)
	c.react()
	c.start(args)
	t.Cleanup(func() { c.stop() })
	return c
}

// start starts a plugin with informers of its own.
func (c *cluster) start(args runtime.Object) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx = ctx
	c.factory = informers.NewSharedInformerFactory(c.client, 0)
	plugin, err := New(ctx, args, handle{cluster: c, client: c.client, factory: c.factory})
	c.must(err)
	c.plugin = plugin.(*Plugin)
	c.mutex.Lock()
	c.watches = 0
	c.mutex.Unlock()
	factory := c.factory
	c.stop = func() {
		cancel()
		factory.Shutdown()
	}
	c.factory.Start(ctx.Done())
	synced := c.factory.WaitForCacheSync(ctx.Done())
	c.eventually("all watches to be open", func() bool {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		return c.watches >= len(synced)
	})
}

// stamp gives the object the next resourceVersion.
func (c *cluster) stamp(obj runtime.Object) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.version++
	accessor, err := meta.Accessor(obj)
	if err != nil {
		c.t.Fatal(err)
	}
	accessor.SetResourceVersion(strconv.Itoa(c.version))
}

func (c *cluster) react() {
	tracker := c.client.Tracker()
	c.client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := tracker.Watch(action.GetResource(), action.GetNamespace())
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.watches++
		if err != nil {
			return true, nil, err
		}
		return true, c.watched.Through(w), nil
	})
	c.client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		c.stamp(action.(clienttesting.CreateAction).GetObject())
		return false, nil, nil
	})
	c.client.PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		c.stamp(action.(clienttesting.UpdateAction).GetObject())
		return false, nil, nil
	})
	c.client.PrependReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		obj, err := c.through(&c.onGet, func() (runtime.Object, error) {
			return tracker.Get(action.GetResource(), action.GetNamespace(), action.(clienttesting.GetAction).GetName())
		})
		return true, obj, err
	})
	c.client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		obj, err := c.through(&c.onPatch, func() (runtime.Object, error) { return c.applyPatch(action.(clienttesting.PatchActionImpl)) })
		return true, obj, err
	})
}

// through makes the call, through the hook if there is one.
func (c *cluster) through(set *hook, call func() (runtime.Object, error)) (runtime.Object, error) {
	c.mutex.Lock()
	hook := *set
	c.mutex.Unlock()
	if hook == nil {
		return call()
	}
	return hook(call)
}

// applyPatch refuses a patch for another UID or resourceVersion, as the API does.
func (c *cluster) applyPatch(action clienttesting.PatchActionImpl) (runtime.Object, error) {
	c.api.Lock()
	defer c.api.Unlock()
	tracker := c.client.Tracker()
	current, err := tracker.Get(action.GetResource(), action.GetNamespace(), action.GetName())
	if err != nil {
		return nil, err
	}
	now, err := meta.Accessor(current)
	if err != nil {
		return nil, err
	}
	var patch map[string]any
	if err := json.Unmarshal(action.Patch, &patch); err != nil {
		return nil, err
	}
	metadata := patch["metadata"].(map[string]any)
	if metadata["uid"] != string(now.GetUID()) || metadata["resourceVersion"] != now.GetResourceVersion() {
		return nil, apierrors.NewConflict(action.GetResource().GroupResource(), action.GetName(), errors.New("not the object that is stored"))
	}
	c.mutex.Lock()
	c.version++
	metadata["resourceVersion"] = strconv.Itoa(c.version)
	c.mutex.Unlock()
	if action.Patch, err = json.Marshal(patch); err != nil {
		return nil, err
	}
	_, obj, err := clienttesting.ObjectReaction(tracker)(action)
	return obj, err
}

// patches sets what becomes of patches.
func (c *cluster) patches(f hook) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.onPatch = f
}

// reads sets what becomes of reads of single objects.
func (c *cluster) reads(f hook) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.onGet = f
}

// failing refuses every call.
func failing(err error) hook {
	return func(func() (runtime.Object, error)) (runtime.Object, error) { return nil, err }
}

// eventually fails the test when the condition does not come true at all.
func (c *cluster) eventually(what string, condition func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			c.t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) claim(name string) *v1.PersistentVolumeClaim {
	c.t.Helper()
	obj, err := c.client.Tracker().Get(claimResource, "default", name)
	c.must(err)
	return obj.(*v1.PersistentVolumeClaim)
}

func (c *cluster) volume(name string) *v1.PersistentVolume {
	c.t.Helper()
	obj, err := c.client.Tracker().Get(volumeResource, "", name)
	c.must(err)
	return obj.(*v1.PersistentVolume)
}

func (c *cluster) claims() []v1.PersistentVolumeClaim {
	c.t.Helper()
	list, err := c.client.Tracker().List(claimResource, v1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), "default")
	c.must(err)
	return list.(*v1.PersistentVolumeClaimList).Items
}

func (c *cluster) volumes() []v1.PersistentVolume {
	c.t.Helper()
	list, err := c.client.Tracker().List(volumeResource, v1.SchemeGroupVersion.WithKind("PersistentVolume"), "")
	c.must(err)
	return list.(*v1.PersistentVolumeList).Items
}

// addVolume adds the volume, and returns when the store has it.
func (c *cluster) addVolume(pv *v1.PersistentVolume) {
	c.t.Helper()
	_, err := c.client.CoreV1().PersistentVolumes().Create(c.ctx, pv, metav1.CreateOptions{})
	c.must(err)
	c.eventually("the store to have the volume", func() bool { return c.plugin.stores.Volume(pv.Name) != nil })
}

// updateClaim and updateVolume are what somebody else does. They go past the
// client, so that they can be used while a request of the plugin is answered.
func (c *cluster) updateClaim(name string, change func(*v1.PersistentVolumeClaim)) {
	c.t.Helper()
	c.api.Lock()
	defer c.api.Unlock()
	claim := c.claim(name).DeepCopy()
	change(claim)
	c.stamp(claim)
	c.must(c.client.Tracker().Update(claimResource, claim, "default"))
}

func (c *cluster) updateVolume(name string, change func(*v1.PersistentVolume)) {
	c.t.Helper()
	c.api.Lock()
	defer c.api.Unlock()
	pv := c.volume(name).DeepCopy()
	change(pv)
	c.stamp(pv)
	c.must(c.client.Tracker().Update(volumeResource, pv, ""))
}

// bind does what the PersistentVolume controller does for a volume that names
// its claim.
func (c *cluster) bind(volumeName string) {
	c.t.Helper()
	claimName := c.volume(volumeName).Spec.ClaimRef.Name
	c.updateVolume(volumeName, func(pv *v1.PersistentVolume) { pv.Status.Phase = v1.VolumeBound })
	c.updateClaim(claimName, func(claim *v1.PersistentVolumeClaim) {
		claim.Spec.VolumeName = volumeName
		claim.Status.Phase = v1.ClaimBound
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, storage.AnnBindCompleted, "yes")
	})
}

// attempt is one scheduling attempt of a pod.
type attempt struct {
	*cluster
	// ctx is that of the binding cycle.
	ctx   context.Context
	pod   *v1.Pod
	node  string
	state *state
}

// schedule takes the pod through PreFilter, Filter on the node and Reserve.
func (c *cluster) schedule(pod *v1.Pod, nodeName string) (*attempt, *fwk.Status) {
	c.t.Helper()
	a := &attempt{cluster: c, ctx: c.ctx, pod: pod, node: nodeName, state: &state{}}
	if _, status := c.plugin.PreFilter(c.ctx, a.state, pod, nil); !status.IsSuccess() {
		return a, status
	}
	if status := c.plugin.Filter(c.ctx, a.state, pod, nodeInfo{node: c.plugin.stores.Node(nodeName)}); !status.IsSuccess() {
		return a, status
	}
	return a, c.plugin.Reserve(c.ctx, a.state, pod, nodeName)
}

func (c *cluster) mustSchedule(pod *v1.Pod, nodeName string) *attempt {
	c.t.Helper()
	a, status := c.schedule(pod, nodeName)
	c.must(status.AsError())
	return a
}

// preBind starts PreBind and returns where its error will arrive.
func (a *attempt) preBind() <-chan error {
	done := make(chan error, 1)
	go func() { done <- a.plugin.PreBind(a.ctx, a.state, a.pod, a.node).AsError() }()
	return done
}

func (a *attempt) unreserve() { a.plugin.Unreserve(a.ctx, a.state, a.pod, a.node) }

func (c *cluster) result(done <-chan error) error {
	c.t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		c.t.Fatal("PreBind does not end")
		return nil
	}
}

// wantEnd checks that PreBind ended for the reason.
func (c *cluster) wantEnd(done <-chan error, want End) {
	c.t.Helper()
	err := c.result(done)
	var ended *EndError
	if !errors.As(err, &ended) {
		c.t.Fatalf("PreBind returned %v, want an EndError", err)
	}
	if ended.End != want {
		c.t.Fatalf("PreBind ended because %q (%v), want %q", ended.End, err, want)
	}
}

// handle is the part of a framework handle that the plugin uses.
type handle struct {
	fwk.Handle
	cluster *cluster
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
}

// Activate notes the pods that were woken.
func (h handle) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	h.cluster.mutex.Lock()
	defer h.cluster.mutex.Unlock()
	for _, pod := range pods {
		h.cluster.woken = append(h.cluster.woken, pod.Name)
	}
}

// wokenPods are the names of the pods that the plugin asked to be tried again.
func (c *cluster) wokenPods() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.woken)
}

func (h handle) ClientSet() kubernetes.Interface                        { return h.client }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }

// state is a cycle state that holds the data of one plugin.
type state struct {
	fwk.CycleState
	data fwk.StateData
}

func (s *state) Write(_ fwk.StateKey, data fwk.StateData) { s.data = data }

func (s *state) Read(fwk.StateKey) (fwk.StateData, error) {
	if s.data == nil {
		return nil, fwk.ErrNotFound
	}
	return s.data, nil
}

type nodeInfo struct {
	fwk.NodeInfo
	node *v1.Node
}

func (n nodeInfo) Node() *v1.Node { return n.node }

func node(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Labels: map[string]string{"host": name}}}
}

func class(name, provisioner string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: name},
		Provisioner:       provisioner,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
}

func claim(name, class string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("claim-" + name)},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:        v1.VolumeResourceRequirements{Requests: storageOf("1Gi")},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
}

// volumeOn is a volume of 1Gi that only the node reaches.
func volumeOn(name, class, node string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("volume-" + name)},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName:              class,
			AccessModes:                   []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Capacity:                      storageOf("1Gi"),
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: "host", Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
}

func storageOf(size string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
}

func pod(name string, claims ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("pod-" + name)}}
	for i, claim := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{
			Name:         fmt.Sprintf("v%d", i),
			VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}},
		})
	}
	return p
}
