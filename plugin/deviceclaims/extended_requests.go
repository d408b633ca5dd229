// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// requestsFor turns the pod's requests for some extended resources into requests for
// devices, ordered by name, and says which containers use which of them. The kubelet
// gives a container the devices of its requests.
//
// Containers and sidecars run at the same time, so each has devices of its own. An
// init container that ends uses those of the sidecars and containers that start
// after it; what it needs beyond them, all such init containers share, since they
// run one after the other.
func requestsFor(pod *v1.Pod, resources []served) ([]resourceapi.DeviceRequest, []v1.ContainerExtendedResourceRequest) {
	var requests []resourceapi.DeviceRequest
	var mappings []v1.ContainerExtendedResourceRequest
	for _, resource := range resources {
		w := wanted{served: resource, containers: allContainers(pod), init: len(pod.Spec.InitContainers)}
		w.lasting()
		w.passing()
		requests = append(requests, w.requests()...)
		mappings = append(mappings, w.mappings...)
	}
	slices.SortFunc(requests, func(a, b resourceapi.DeviceRequest) int { return strings.Compare(a.Name, b.Name) })
	return requests, mappings
}

// wanted is what the containers of a pod want of one resource.
type wanted struct {
	served
	// containers are all of the pod, of which the first init are init containers.
	containers []*v1.Container
	init       int
	// own has the request of each container that runs as long as the pod, nil for
	// the others. shared is the request of all others together, if they need one.
	own      []*resourceapi.DeviceRequest
	shared   *resourceapi.DeviceRequest
	mappings []v1.ContainerExtendedResourceRequest
}

// passes says whether a container ends before the next one starts.
func (w *wanted) passes(i int) bool {
	policy := w.containers[i].RestartPolicy
	return i < w.init && (policy == nil || *policy != v1.ContainerRestartPolicyAlways)
}

func (w *wanted) lasting() {
	w.own = make([]*resourceapi.DeviceRequest, len(w.containers))
	for i, c := range w.containers {
		if count := amount(c, w.name); count > 0 && !w.passes(i) {
			w.own[i] = w.request(i, count)
			w.use(c, w.own[i].Name)
		}
	}
}

func (w *wanted) passing() {
	var extra []int // containers that need more than they find
	missing := make([]int64, len(w.containers))
	uses := make([][]string, len(w.containers))
	most := -1
	for i, c := range w.containers {
		if !w.passes(i) {
			continue
		}
		missing[i] = amount(c, w.name)
		for _, later := range w.own[i:] {
			if later != nil && missing[i] > 0 {
				uses[i] = append(uses[i], later.Name)
				missing[i] -= later.Exactly.Count
			}
		}
		if missing[i] <= 0 {
			continue
		}
		extra = append(extra, i)
		if most < 0 || missing[i] > missing[most] {
			most = i
		}
	}
	if most >= 0 {
		w.shared = w.request(most, missing[most])
	}
	for i, c := range w.containers {
		for _, name := range uses[i] {
			w.use(c, name)
		}
		if slices.Contains(extra, i) {
			w.use(c, w.shared.Name)
		}
	}
}

func (w *wanted) use(c *v1.Container, request string) {
	w.mappings = append(w.mappings, v1.ContainerExtendedResourceRequest{
		ContainerName: c.Name, ResourceName: string(w.name), RequestName: request,
	})
}

// request makes the request of a container, named like Kubernetes does: by the
// places of the container in the pod and of the resource in the container.
func (w *wanted) request(container int, count int64) *resourceapi.DeviceRequest {
	names := slices.Sorted(maps.Keys(w.containers[container].Resources.Requests))
	return &resourceapi.DeviceRequest{
		Name: fmt.Sprintf("container-%d-request-%d", container, slices.Index(names, w.name)),
		Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: w.class,
			AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
			Count:           count,
		},
	}
}

func (w *wanted) requests() []resourceapi.DeviceRequest {
	var requests []resourceapi.DeviceRequest
	for _, r := range append(slices.Clone(w.own), w.shared) {
		if r != nil {
			requests = append(requests, *r)
		}
	}
	return requests
}

// amount is how much a container requests of a resource. What is not a whole number
// is refused by the API server; more than an int32 is too much for any claim.
func amount(c *v1.Container, name v1.ResourceName) int64 {
	quantity, ok := c.Resources.Requests[name]
	if !ok || quantity.Sign() <= 0 {
		return 0
	}
	return min(quantity.Value(), math.MaxInt32)
}

// allContainers are the pod's containers in the order in which requests count them.
func allContainers(pod *v1.Pod) []*v1.Container {
	var all []*v1.Container
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			all = append(all, &containers[i])
		}
	}
	return all
}
