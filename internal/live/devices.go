// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/internal/ledger"
	"github.com/berth-scheduler/berth/reason"
)

// Names of the index functions that Devices adds to the informers.
const (
	claimsByPool = "berth/claims-by-pool"
	podsByClaim  = "berth/pods-by-resource-claim"
	podsWaiting  = "berth/pods-waiting-for-devices"
	claimsByPod  = "berth/extended-resource-claims-by-pod"
)

// Devices is what the informer stores say about device claims. All methods may
// be called concurrently. Objects that it returns belong to the stores and must
// not be changed.
type Devices struct {
	claims  cache.Indexer
	pods    cache.Indexer
	ledger  *ledger.Ledger[*resourceapi.ResourceClaim]
	watches watches
	lookups Lookups

	// mutex guards the memos; each is replaced or added to, and what is in it is
	// never changed.
	mutex sync.Mutex
	pools poolMemo
	uses  map[device.PoolID]use
}

func newDevices(factory informers.SharedInformerFactory) (*Devices, error) {
	claims := factory.Resource().V1().ResourceClaims().Informer()
	if err := addIndex(claims, claimsByPool, poolsOfClaim); err != nil {
		return nil, fmt.Errorf("index ResourceClaims by pool: %w", err)
	}
	if err := addIndex(claims, claimsByPod, podOfExtended); err != nil {
		return nil, fmt.Errorf("index ResourceClaims for extended resources by pod: %w", err)
	}
	pods := factory.Core().V1().Pods().Informer()
	if err := addIndex(pods, podsByClaim, claimsOfPod); err != nil {
		return nil, fmt.Errorf("index Pods by ResourceClaim: %w", err)
	}
	if err := addIndex(pods, podsWaiting, waitingPod); err != nil {
		return nil, fmt.Errorf("index Pods that wait: %w", err)
	}
	d := &Devices{claims: claims.GetIndexer(), pods: pods.GetIndexer(), uses: map[device.PoolID]use{}}
	d.ledger = ledger.New(d.stored)
	for kind, informer := range map[string]cache.SharedIndexInformer{"ResourceClaim": claims, "Pod": pods} {
		if _, err := informer.AddEventHandler(d.watches.handler(kind)); err != nil {
			return nil, fmt.Errorf("watch every %s: %w", kind, err)
		}
	}
	return d, nil
}

// addIndex adds an index function unless an earlier Stores of the same factory
// has done so.
func addIndex(informer cache.SharedIndexInformer, name string, index cache.IndexFunc) error {
	if _, ok := informer.GetIndexer().GetIndexers()[name]; ok {
		return nil
	}
	return informer.AddIndexers(cache.Indexers{name: index})
}

func poolsOfClaim(obj any) ([]string, error) {
	claim, ok := obj.(*resourceapi.ResourceClaim)
	if !ok || claim.Status.Allocation == nil {
		return nil, nil
	}
	var keys []string
	for _, id := range poolsOf(claim) {
		keys = append(keys, id.String())
	}
	return keys, nil
}

// waitingPod puts all pods that may need devices and have no node under one key.
func waitingPod(obj any) ([]string, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok || pod.Spec.NodeName != "" || len(pod.Spec.ResourceClaims) == 0 && !requestsExtended(pod) {
		return nil, nil
	}
	return []string{podsWaiting}, nil
}

// requestsExtended says whether a container of the pod requests a resource with a
// domain, which a DeviceClass may serve.
func requestsExtended(pod *v1.Pod) bool {
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if strings.Contains(string(name), "/") {
					return true
				}
			}
		}
	}
	return false
}

// podOfExtended is the UID of the pod that a claim for extended resources was made for.
func podOfExtended(obj any) ([]string, error) {
	claim, ok := obj.(*resourceapi.ResourceClaim)
	if !ok || claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] != "true" {
		return nil, nil
	}
	if owner := metav1.GetControllerOf(claim); owner != nil && owner.Kind == "Pod" {
		return []string{string(owner.UID)}, nil
	}
	return nil, nil
}

func claimsOfPod(obj any) ([]string, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	var keys []string
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue // not generated yet; the pod's own update tells when it is
		}
		if key := pod.Namespace + "/" + *name; !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// Ledger holds the claims that were planned or written and that the store does
// not show yet.
func (d *Devices) Ledger() *ledger.Ledger[*resourceapi.ResourceClaim] { return d.ledger }

// Claim returns the newest known form of a claim, nil if there is none of that
// name. A claim that the API server has not allocated yet, but for which an
// allocation is planned or in doubt, is returned with that allocation and
// pending is true.
func (d *Devices) Claim(namespace, name string) (claim *resourceapi.ResourceClaim, pending bool) {
	stored, ok := d.stored(namespace, name)
	if !ok {
		return nil, false
	}
	known, plan, _ := d.ledger.Plan(stored)
	if known.Status.Allocation != nil || plan.Status.Allocation == nil {
		return known, false
	}
	merged := *known
	merged.Status.Allocation = plan.Status.Allocation
	return &merged, true
}

// PodsOf returns the pods that use a claim, in no particular order. A claim for
// extended resources is used by the pod that it was made for.
func (d *Devices) PodsOf(claim *resourceapi.ResourceClaim) ([]types.NamespacedName, error) {
	if claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" {
		if owner := metav1.GetControllerOf(claim); owner != nil {
			return []types.NamespacedName{{Namespace: claim.Namespace, Name: owner.Name}}, nil
		}
	}
	objs, err := d.pods.ByIndex(podsByClaim, claim.Namespace+"/"+claim.Name)
	if err != nil {
		return nil, fmt.Errorf("look up the pods of ResourceClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	names := make([]types.NamespacedName, 0, len(objs))
	for _, obj := range objs {
		if pod, ok := obj.(*v1.Pod); ok {
			names = append(names, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
	return names, nil
}

// ExtendedClaims returns the claims that the store shows for a pod's extended
// resources, in order of name. There is more than one only after a failure.
func (d *Devices) ExtendedClaims(pod *v1.Pod) ([]*resourceapi.ResourceClaim, error) {
	objs, err := d.claims.ByIndex(claimsByPod, string(pod.UID))
	if err != nil {
		return nil, fmt.Errorf("look up the ResourceClaims for extended resources of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	var claims []*resourceapi.ResourceClaim
	for _, obj := range objs {
		if claim, ok := obj.(*resourceapi.ResourceClaim); ok && claim.Namespace == pod.Namespace {
			claims = append(claims, claim)
		}
	}
	slices.SortFunc(claims, func(a, b *resourceapi.ResourceClaim) int { return cmp.Compare(a.Name, b.Name) })
	return claims, nil
}

// Waiting returns the pods that may need devices and have no node yet, by namespace/name.
func (d *Devices) Waiting() (map[string]*v1.Pod, error) {
	objs, err := d.pods.ByIndex(podsWaiting, podsWaiting)
	if err != nil {
		return nil, fmt.Errorf("look up the pods that wait for devices: %w", err)
	}
	pods := make(map[string]*v1.Pod, len(objs))
	for _, obj := range objs {
		if pod, ok := obj.(*v1.Pod); ok {
			pods[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	return pods, nil
}

// Stored returns what the store shows under a name, nil when it shows nothing.
// Whoever waits for what others write to a claim looks here: the ledger knows
// only of this process.
func (d *Devices) Stored(namespace, name string) *resourceapi.ResourceClaim {
	claim, _ := d.stored(namespace, name)
	return claim
}

// Pod returns the pod that the store shows under a name, nil when it shows none.
func (d *Devices) Pod(namespace, name string) *v1.Pod {
	obj, exists, err := d.pods.GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return nil
	}
	pod, _ := obj.(*v1.Pod)
	return pod
}

// Watch returns a channel that receives after any of the objects (of kind
// ResourceClaim or Pod) was added, changed or deleted, see [Volumes.Watch].
func (d *Devices) Watch(objects []reason.Ref) (changed <-chan struct{}, stop func()) {
	return d.watches.add(objects)
}

func (d *Devices) stored(namespace, name string) (*resourceapi.ResourceClaim, bool) {
	obj, exists, err := d.claims.GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return nil, false
	}
	claim, ok := obj.(*resourceapi.ResourceClaim)
	return claim, ok
}

// poolsOf returns the pools that a claim's allocation names, each once.
func poolsOf(claim *resourceapi.ResourceClaim) []device.PoolID {
	if claim.Status.Allocation == nil {
		return nil
	}
	var ids []device.PoolID
	for _, result := range claim.Status.Allocation.Devices.Results {
		if id := (device.PoolID{Driver: result.Driver, Pool: result.Pool}); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
