// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/reason"
)

// unnamed is what the claim for extended resources is called as long as it exists
// in memory only. The SharedDRAManager knows it by this name, which is no valid one.
const unnamed = "<extended-resources>"

// extended are the extended resources of a pod that a DeviceClass serves. On a node
// that has one of them itself, from a device plugin, NodeResourcesFit counts it. For
// all others the pod gets devices, in one claim that the plugin makes for it. So what
// the claim asks for depends on the node.
type extended struct {
	// resources are in order of name. There are none if the pod is mapped and the
	// classes are gone.
	resources []served
	// claim is the claim without its requests, under the name that it will have.
	claim *resourceapi.ResourceClaim
	// mapped: the pod's status names a claim. That cannot be taken back, and the
	// kubelet starts no pod whose claim it does not find.
	mapped bool

	// mutex guards variants, of which there is one for each different set of
	// resources that some node does not have.
	mutex    sync.Mutex
	variants map[string]*variant
}

// served is an extended resource and the class that served it when the cycle began.
type served struct {
	name  v1.ResourceName
	class string
}

// variant is what the pod asks of the nodes that lack the same extended resources.
type variant struct {
	once sync.Once
	// problem is nil if there is a rejection or an error.
	problem   *device.Problem
	rejection *reason.Rejection
	err       error
	// claim is the claim for extended resources, nil on a node that has them all.
	claim    *resourceapi.ResourceClaim
	mappings []v1.ContainerExtendedResourceRequest
}

// extendedOf returns nil if no DeviceClass serves an extended resource of the pod, and
// none did when an earlier attempt mapped the pod.
func (p *Plugin) extendedOf(pod *v1.Pod) *extended {
	resources := p.servedOf(pod)
	if len(resources) == 0 && !mapped(pod) {
		return nil
	}
	return &extended{
		resources: resources,
		claim:     newExtendedClaim(pod),
		mapped:    mapped(pod),
		variants:  make(map[string]*variant),
	}
}

// mapped says whether the pod's status names a claim for its extended resources.
func mapped(pod *v1.Pod) bool { return pod.Status.ExtendedResourceClaimStatus != nil }

// needsDevices says whether the pod may take devices when it is placed.
func (p *Plugin) needsDevices(pod *v1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || mapped(pod) || len(p.servedOf(pod)) > 0
}

// servedOf returns the extended resources of a pod that a DeviceClass serves, in
// order of name. Which class that is, if several name the same resource, is for the
// resolver to say, because NodeResourcesFit asks it too.
func (p *Plugin) servedOf(pod *v1.Pod) []served {
	resolver := p.dra.DeviceClassResolver()
	if resolver == nil {
		return nil
	}
	var resources []served
	for _, c := range allContainers(pod) {
		for name := range c.Resources.Requests {
			if amount(c, name) == 0 || slices.ContainsFunc(resources, func(s served) bool { return s.name == name }) {
				continue
			}
			if class := resolver.GetDeviceClass(name); class != nil {
				resources = append(resources, served{name: name, class: class.Name})
			}
		}
	}
	slices.SortFunc(resources, func(a, b served) int { return strings.Compare(string(a.name), string(b.name)) })
	return resources
}

// Of the name of a generated claim, Kubernetes keeps this much of the base, and
// appends this many random characters.
const (
	generatedBase   = 58
	generatedSuffix = 5
)

// newExtendedClaim makes the claim as it will be created. It gets its name here,
// formed like one that the API server generates: so a creation whose answer is lost
// can be asked about. The UID is for this process only.
func newExtendedClaim(pod *v1.Pod) *resourceapi.ResourceClaim {
	base := pod.Name + "-extended-resources-"
	controller := true
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace:    pod.Namespace,
		Name:         base[:min(len(base), generatedBase)] + rand.String(generatedSuffix),
		GenerateName: base,
		UID:          uuid.NewUUID(),
		Annotations:  map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &controller,
		}},
	}}
}

// ExtendedClaim returns the claim that the plugin would make for a pod on a node that
// has none of its extended resources itself, and which containers use which of its
// requests; nil if no DeviceClass serves any of them. It goes by the name that
// rejections have for it. The caller may keep both.
func (p *Plugin) ExtendedClaim(pod *v1.Pod) (*resourceapi.ResourceClaim, []v1.ContainerExtendedResourceRequest) {
	resources := p.servedOf(pod)
	if len(resources) == 0 {
		return nil, nil
	}
	claim := inMemory(newExtendedClaim(pod))
	requests, mappings := requestsFor(pod, resources)
	claim.Spec.Devices.Requests = requests
	return claim, mappings
}

// inMemory is the claim under the name by which it goes before it is created.
func inMemory(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	known := *claim
	known.Name = unnamed
	return &known
}

// lacking returns the resources that a node does not have itself. A device plugin
// that was uninstalled leaves a 0 behind, which is the same as nothing.
func (e *extended) lacking(node *v1.Node) []served {
	var lacks []served
	for _, resource := range e.resources {
		if has := node.Status.Allocatable[resource.name]; has.Sign() <= 0 {
			lacks = append(lacks, resource)
		}
	}
	return lacks
}

// variantOn returns what the pod asks of a node, for as many nodes as ask at once.
func (p *Plugin) variantOn(c *cycle, pod *v1.Pod, node *v1.Node) *variant {
	if c.extended == nil {
		return c.own
	}
	lacks := c.extended.lacking(node)
	if len(lacks) == 0 {
		return c.onlyOwn(pod)
	}
	var key strings.Builder
	for _, resource := range lacks {
		key.WriteString(string(resource.name) + "\n")
	}
	c.extended.mutex.Lock()
	found, ok := c.extended.variants[key.String()]
	if !ok {
		found = &variant{}
		c.extended.variants[key.String()] = found
	}
	c.extended.mutex.Unlock()
	found.once.Do(func() {
		found.claim, found.mappings = c.extended.claimFor(pod, lacks)
		found.problem, found.rejection, found.err = p.compile(found.with(c.claims))
	})
	return found
}

// claimFor returns the claim as it is on nodes that lack some resources, and which
// containers use which of its requests.
func (e *extended) claimFor(pod *v1.Pod, lacks []served) (*resourceapi.ResourceClaim, []v1.ContainerExtendedResourceRequest) {
	claim := e.claim.DeepCopy()
	requests, mappings := requestsFor(pod, lacks)
	claim.Spec.Devices.Requests = requests
	return claim, mappings
}

// with adds the claim for extended resources to the pod's own, last.
func (v *variant) with(claims []podClaim) []podClaim {
	if v.claim == nil {
		return claims
	}
	return append(slices.Clone(claims), podClaim{seen: inMemory(v.claim)})
}

// onlyOwn is what a pod asks of a node that needs no claim for extended resources.
func (c *cycle) onlyOwn(pod *v1.Pod) *variant {
	if !c.extended.mapped {
		return c.own
	}
	before := pod.Status.ExtendedResourceClaimStatus
	refused := &reason.Rejection{Code: reason.ExtendedResourceMapped, Claim: claimRef(pod.Namespace, before.ResourceClaimName)}
	switch {
	case len(c.extended.resources) > 0:
		refused.Request = string(c.extended.resources[0].name)
	case len(before.RequestMappings) > 0:
		refused.Request = before.RequestMappings[0].ResourceName
	}
	return &variant{rejection: refused}
}

// claimsOn returns the claims of a pod that may come to a node, the one for extended
// resources last.
func (p *Plugin) claimsOn(pod *v1.Pod, node *v1.Node) ([]podClaim, *reason.Rejection) {
	claims, rejection := p.claimsOf(pod)
	if e := p.extendedOf(pod); rejection == nil && e != nil {
		if lacks := e.lacking(node); len(lacks) > 0 {
			claim, _ := e.claimFor(pod, lacks)
			claims = append(claims, podClaim{seen: claim})
		}
	}
	return claims, rejection
}

// overlooked says whether a class has begun to serve a resource of the pod since the
// cycle began. NodeResourcesFit may have let the pod onto the node for that.
func (p *Plugin) overlooked(c *cycle, pod *v1.Pod, nodeName string) error {
	for _, resource := range p.servedOf(pod) {
		if c != nil && c.extended != nil && slices.ContainsFunc(c.extended.resources, func(s served) bool { return s.name == resource.name }) {
			continue
		}
		node, err := p.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
		if err != nil {
			return fmt.Errorf("look up node %s: %w", nodeName, err)
		}
		if has := node.Node().Status.Allocatable[resource.name]; has.Sign() <= 0 {
			return fmt.Errorf("DeviceClass %s has just begun to serve %s, which node %s does not have", resource.class, resource.name, nodeName)
		}
	}
	return nil
}
