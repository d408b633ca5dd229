// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// wants makes a container. The resources are gpu (example.com/gpu), nic and cpu.
func wants(name string, amounts ...any) v1.Container {
	c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}}}
	for i := 0; i < len(amounts); i += 2 {
		resourceName := v1.ResourceName(amounts[i].(string))
		if resourceName != v1.ResourceCPU {
			resourceName = "example.com/" + resourceName
		}
		c.Resources.Requests[resourceName] = *resource.NewQuantity(int64(amounts[i+1].(int)), resource.DecimalSI)
	}
	return c
}

func sidecar(c v1.Container) v1.Container {
	c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	return c
}

// The numbers are those of KEP-5004: what runs together adds up, what ends first
// uses what comes later.
func TestRequestsOfContainers(t *testing.T) {
	for name, test := range map[string]struct {
		init, containers []v1.Container
		requests         string // name=class×count
		mappings         string // container:resource>request
	}{
		"one container": {
			containers: []v1.Container{wants("main", "gpu", 2)},
			requests:   "container-0-request-0=gpus×2",
			mappings:   "main:gpu>container-0-request-0",
		},
		"the number of a request counts all of the container's resources by name": {
			containers: []v1.Container{wants("main", "nic", 1, "gpu", 2, "cpu", 1)},
			requests:   "container-0-request-1=gpus×2 container-0-request-2=nics×1",
			mappings:   "main:gpu>container-0-request-1 main:nic>container-0-request-2",
		},
		"containers add up, one that wants none is not mapped": {
			containers: []v1.Container{wants("a", "gpu", 2), wants("b", "gpu", 0), wants("c"), wants("d", "gpu", 1)},
			requests:   "container-0-request-0=gpus×2 container-3-request-0=gpus×1",
			mappings:   "a:gpu>container-0-request-0 d:gpu>container-3-request-0",
		},
		"an init container uses what the containers have": {
			init:       []v1.Container{wants("init", "gpu", 2)},
			containers: []v1.Container{wants("a", "gpu", 1), wants("b", "gpu", 3), wants("c", "gpu", 1)},
			requests:   "container-1-request-0=gpus×1 container-2-request-0=gpus×3 container-3-request-0=gpus×1",
			mappings: "a:gpu>container-1-request-0 b:gpu>container-2-request-0 c:gpu>container-3-request-0 " +
				"init:gpu>container-1-request-0 init:gpu>container-2-request-0",
		},
		"init containers share what the containers lack": {
			init:       []v1.Container{wants("small", "gpu", 2), wants("large", "gpu", 5), wants("also-large", "gpu", 5), wants("fits", "gpu", 1)},
			containers: []v1.Container{wants("main", "gpu", 1)},
			requests:   "container-1-request-0=gpus×4 container-4-request-0=gpus×1",
			mappings: "main:gpu>container-4-request-0 small:gpu>container-4-request-0 small:gpu>container-1-request-0 " +
				"large:gpu>container-4-request-0 large:gpu>container-1-request-0 " +
				"also-large:gpu>container-4-request-0 also-large:gpu>container-1-request-0 fits:gpu>container-4-request-0",
		},
		"a sidecar keeps its own, and only earlier init containers use it": {
			init:       []v1.Container{wants("before", "gpu", 2), sidecar(wants("sidecar", "gpu", 1)), wants("after", "gpu", 2)},
			containers: []v1.Container{wants("main", "gpu", 1)},
			requests:   "container-1-request-0=gpus×1 container-2-request-0=gpus×1 container-3-request-0=gpus×1",
			mappings: "sidecar:gpu>container-1-request-0 main:gpu>container-3-request-0 " +
				"before:gpu>container-1-request-0 before:gpu>container-3-request-0 " +
				"after:gpu>container-3-request-0 after:gpu>container-2-request-0",
		},
		"only an init container": {
			init:       []v1.Container{wants("init", "gpu", 1)},
			containers: []v1.Container{wants("main", "cpu", 1)},
			requests:   "container-0-request-0=gpus×1",
			mappings:   "init:gpu>container-0-request-0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: test.init, Containers: test.containers}}
			requests, mappings := requestsFor(pod, []served{{name: "example.com/gpu", class: "gpus"}, {name: "example.com/nic", class: "nics"}})
			var got []string
			for _, r := range requests {
				got = append(got, fmt.Sprintf("%s=%s×%d", r.Name, r.Exactly.DeviceClassName, r.Exactly.Count))
			}
			if strings.Join(got, " ") != test.requests {
				t.Errorf("requests:\n%s\nwant\n%s", strings.Join(got, " "), test.requests)
			}
			got = nil
			for _, m := range mappings {
				got = append(got, m.ContainerName+":"+strings.TrimPrefix(m.ResourceName, "example.com/")+">"+m.RequestName)
			}
			if strings.Join(got, " ") != test.mappings {
				t.Errorf("mappings:\n%s\nwant\n%s", strings.Join(got, " "), test.mappings)
			}
		})
	}
}

func TestNameOfTheClaim(t *testing.T) {
	for _, length := range []int{3, 60, 253} {
		pod := makePod(strings.Repeat("p", length))
		a, b := newExtendedClaim(pod), newExtendedClaim(pod)
		if len(a.Name) > 63 || a.Name == b.Name || a.UID == b.UID {
			t.Errorf("pod name of %d characters: names %s and %s", length, a.Name, b.Name)
		}
		if a.GenerateName != pod.Name+"-extended-resources-" {
			t.Errorf("generateName %s", a.GenerateName)
		}
	}
}
