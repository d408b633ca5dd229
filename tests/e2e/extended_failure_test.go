// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/tests/lab"
)

// extendedWrites are what a scheduler writes for a pod with extended resources.
var extendedWrites = []request{
	{method: http.MethodPost, resource: "resourceclaims"},
	{method: http.MethodPut, resource: "resourceclaims", subresource: "status"},
	{method: http.MethodPatch, resource: "pods", subresource: "status"},
	{method: http.MethodPost, resource: "pods", subresource: "binding"},
}

// trap springs on the first write of a kind after it was set.
type trap struct {
	mutex sync.Mutex
	kind  request
	set   bool
	// spring is what happens.
	spring func()
}

func (t *trap) arm(kind request, spring func()) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.kind, t.set, t.spring = kind, true, spring
}

// springs says whether the trap is set for the write, and takes it away.
func (t *trap) springs(write request) (func(), bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	write.name = ""
	if !t.set || write != t.kind {
		return nil, false
	}
	t.set = false
	return t.spring, true
}

// Whichever write of a pod with extended resources is lost, or its answer is, or is
// the last of a scheduler that dies: the pod runs with its devices, mapped to the
// only claim that there is for it.
func TestExtendedResourcesSurviveLostWrites(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "testdata/extended-resources.yaml", Scheduler: lab.None})
	client := cluster.Client
	var before, after trap
	kubeconfig := cluster.StartProxy(t, lab.Proxy{Between: func(forward http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			write := parseRequest(r)
			if spring, ok := before.springs(write); ok {
				spring()
				panic(http.ErrAbortHandler)
			}
			if _, ok := after.springs(write); ok {
				forward.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			forward.ServeHTTP(w, r)
		})
	}})
	scheduler := cluster.StartScheduler(t, "--kubeconfig="+kubeconfig)
	count := 0
	for _, write := range extendedWrites {
		for _, fate := range []string{"request lost", "answer lost", "scheduler dies"} {
			died := make(chan struct{})
			switch fate {
			case "request lost":
				before.arm(write, func() {})
			case "answer lost":
				after.arm(write, nil)
			case "scheduler dies":
				before.arm(write, func() { scheduler.Kill(t); close(died) })
			}
			count++
			name := fmt.Sprintf("pod-%d", count)
			create(ctx, t, client, newPod(name, requesting(gpu, "1")))
			if fate == "scheduler dies" {
				<-died
				scheduler = cluster.StartScheduler(t, "--kubeconfig="+kubeconfig)
			}
			eventually(ctx, t, fmt.Sprintf("%s runs (%v: %s)", name, write, fate), podRuns(client, name))
		}
	}
	wantOneClaimEach(ctx, t, client)
	checkInvariants(ctx, t, client)
}

// wantOneClaimEach checks that every pod that DRA serves has one claim for extended
// resources, the one that it is mapped to, and that there is no other.
func wantOneClaimEach(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	claims, err := client.ResourceV1().ResourceClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owner := map[string]string{}
	for _, claim := range claims.Items {
		if claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" {
			owner[claim.Name] = metav1.GetControllerOf(&claim).Name
		}
	}
	for _, pod := range listPods(ctx, t, client) {
		status := pod.Status.ExtendedResourceClaimStatus
		if status == nil {
			continue
		}
		if owner[status.ResourceClaimName] != pod.Name {
			t.Errorf("pod %s is mapped to claim %s, which is not there for it", pod.Name, status.ResourceClaimName)
		}
		delete(owner, status.ResourceClaimName)
	}
	for claim, pod := range owner {
		t.Errorf("claim %s is left of an attempt of pod %s", claim, pod)
	}
}

// A claim that somebody else's attempt has left is found and given up, and the pod
// gets a new one.
func TestExtendedClaimOfAnEarlierScheduler(t *testing.T) {
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "testdata/extended-resources.yaml", Scheduler: lab.None})
	client := cluster.Client
	create(ctx, t, client, newPod("pod", requesting(gpu, "8"), onNode("dra-1")))
	pod := getPod(ctx, t, client, "pod")
	left := newClaim("left", gpus(8))
	left.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
	left.Finalizers = []string{resourceapi.Finalizer}
	left.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}}
	create(ctx, t, client, left)
	allocateBy(ctx, t, client, "left", "dra-1", 8)
	cluster.StartScheduler(t)
	eventually(ctx, t, "the pod runs", podRuns(client, "pod"))
	if _, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, "left", metav1.GetOptions{}); !gone(err) {
		t.Errorf("the claim of the earlier attempt is still there: %v", err)
	}
	wantOneClaimEach(ctx, t, client)
	checkInvariants(ctx, t, client)
}

// allocateBy lets another scheduler allocate the first GPUs of a node to a claim.
func allocateBy(ctx context.Context, t *testing.T, client kubernetes.Interface, name, node string, count int) {
	t.Helper()
	claim, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
	for i := range count {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "gpus", Driver: gpuClass, Pool: node, Device: fmt.Sprintf("gpu-%d", i),
		})
	}
	if _, err := client.ResourceV1().ResourceClaims(namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A pod of lower priority gives its extended resources up for one of higher.
func TestPreemptionForExtendedResources(t *testing.T) {
	bothSchedulers(t, "testdata/extended-resources.yaml", func(t *testing.T, client kubernetes.Interface) {
		ctx := t.Context()
		create(ctx, t, client, newPriority("low", 10), newPriority("high", 1000),
			newPod("low-dra", requesting(gpu, "8"), priority("low"), onNode("dra-1")),
			newPod("low-plugin", requesting(gpu, "2"), priority("low"), onNode("plugin-1")))
		eventually(ctx, t, "the low pods run", running(client, 2, 0))
		create(ctx, t, client, newPod("plugin", requesting(gpu, "2"), priority("high"), onNode("plugin-1")))
		eventually(ctx, t, "the high pod has the devices of the plugin", podRuns(client, "plugin"))
		// The in-tree plugin does not take part in preemption. The pod waits there.
		create(ctx, t, client, newPod("dra", requesting(gpu, "5"), priority("high"), onNode("dra-1")))
		if t.Name() == "TestPreemptionForExtendedResources/"+string(lab.Upstream) {
			eventually(ctx, t, "the high pod waits", waitingBecause(client, "cannot allocate all claims"))
			return
		}
		eventually(ctx, t, "the high pod has the devices of DRA", podRuns(client, "dra"))
		checkInvariants(ctx, t, client)
		wantOneClaimEach(ctx, t, client)
	})
}

// Pods for all GPUs of a cluster come at once; half of the nodes serve them by device
// plugin, half by DRA. All are placed and nothing is counted twice.
func TestStormOfExtendedResources(t *testing.T) {
	nodes := 10
	if os.Getenv("BERTH_LONG") != "" {
		nodes = 100
	}
	ctx := t.Context()
	cluster := lab.Start(t, lab.Options{Profile: "testdata/half-device-plugins.yaml", Nodes: nodes})
	client := cluster.Client
	all := listNodes(ctx, t, client)
	pods := make([]*v1.Pod, 5*len(all))
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("pod-%03d", i), requesting(gpu, "1"))
	}
	createAtOnce(ctx, t, client, pods)
	eventually(ctx, t, "every pod runs", running(client, len(pods), 0))
	checkInvariants(ctx, t, client)
	wantOneClaimEach(ctx, t, client)

	served := map[string]int{}
	for _, pod := range listPods(ctx, t, client) {
		served[pod.Spec.NodeName]++
		plugin := all[pod.Spec.NodeName]
		if plugin == (pod.Status.ExtendedResourceClaimStatus != nil) {
			t.Errorf("pod %s on node %s: device plugin %v, mapping %+v", pod.Name, pod.Spec.NodeName, plugin, pod.Status.ExtendedResourceClaimStatus)
		}
	}
	for node, count := range served {
		if count != 5 {
			t.Errorf("node %s with 5 GPUs has %d pods", node, count)
		}
	}
	create(ctx, t, client, newPod("one-too-many", requesting(gpu, "1")))
	eventually(ctx, t, "one more pod knows of both kinds of nodes", waitingBecause(client, "Insufficient nvidia.com/gpu", "not enough free devices"))
	for _, pod := range pods {
		deletePod(ctx, t, client, pod.Name)
	}
	eventually(ctx, t, "one pod runs and has the only claim", podRuns(client, "one-too-many"))
	deletePod(ctx, t, client, "one-too-many")
	eventually(ctx, t, "no claim is left", noClaims(client))
}

// listNodes says of each node whether it serves GPUs by device plugin.
func listNodes(ctx context.Context, t *testing.T, client kubernetes.Interface) map[string]bool {
	t.Helper()
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	plugins := map[string]bool{}
	for _, node := range nodes.Items {
		count := node.Status.Allocatable[gpu]
		plugins[node.Name] = count.Sign() > 0
	}
	return plugins
}
