// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package drivers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/device"
)

// everything switches all features on.
var everything = device.Features{
	AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, ConsumableCapacity: true, FractionalCapacityRange: true,
	DeviceTaints: true, DeviceBindingConditions: true, ListTypeAttributes: true, DerivedAttributes: true,
	DeviceCompatibilityGroups: true, OptionalNodeOperations: true, NodeAllocatableResources: true,
}

// cluster is one file while one namespace of it is scheduled.
type cluster struct {
	*objects
	// held are the claims that have been allocated.
	held   []*resourceapi.ResourceClaim
	shares int
	// made are the claims of templates and those of the file, by name.
	made  map[types.NamespacedName]*resourceapi.ResourceClaim
	print strings.Builder
	only  string
}

// variant changes what a file asks.
type variant struct {
	// again is how many more pods like the last one there are.
	again int
	// on puts all pods on the node of that name, whatever they select.
	on string
	// change is made to the pods, or to the claims, that come again.
	pod   func(*v1.Pod)
	claim func(*resourceapi.DeviceClaim)
}

// placed says where a pod went and what its claims got: "node request=device ..."
// or, for a pod that goes nowhere, the codes of all nodes: "none Code Code".
type placed map[string]string

// run places the pods of a namespace in order, each on the first node that takes
// it, then the claims that no pod has used.
func (o *objects) run(t *testing.T, namespace string, v variant) (string, placed) {
	c := &cluster{objects: o, made: map[types.NamespacedName]*resourceapi.ResourceClaim{}, only: v.on}
	for name, claim := range o.claims {
		c.made[name] = claim.DeepCopy()
	}
	answers := placed{}
	fmt.Fprintf(&c.print, "%s\n", namespace)
	for _, pod := range o.pods[namespace] {
		if claims := c.claimsOf(t, pod); len(claims) > 0 {
			answers[pod.Name] = c.place(t, "pod "+pod.Name, pod, claims)
		}
	}
	for i := range v.again {
		pods := o.pods[namespace]
		pod := pods[len(pods)-1].DeepCopy()
		pod.Name = fmt.Sprintf("again-%d", i)
		if v.pod != nil {
			v.pod(pod)
		}
		claims := c.claimsOf(t, pod)
		for _, claim := range claims {
			if v.claim != nil {
				v.claim(&claim.Spec.Devices)
			}
		}
		answers[pod.Name] = c.place(t, "pod "+pod.Name, pod, claims)
	}
	for _, claim := range o.loose[namespace] {
		if made := c.made[key(claim)]; made.Status.Allocation == nil && !c.used(namespace, claim.Name) {
			answers[claim.Name] = c.place(t, "claim "+claim.Name, &v1.Pod{}, []*resourceapi.ResourceClaim{made})
		}
	}
	if len(answers) == 0 {
		return "", nil
	}
	return c.print.String(), answers
}

// used says whether a pod of the namespace names the claim.
func (c *cluster) used(namespace, claim string) bool {
	return slices.ContainsFunc(c.pods[namespace], func(p *v1.Pod) bool {
		return slices.ContainsFunc(p.Spec.ResourceClaims, func(r v1.PodResourceClaim) bool {
			return ptr.Deref(r.ResourceClaimName, "") == claim
		})
	})
}

// claimsOf are the pod's claims; one of a template is made for the pod or, if its
// group has the same entry, once for the group (PodGroupSpec.ResourceClaims).
func (c *cluster) claimsOf(t *testing.T, pod *v1.Pod) []*resourceapi.ResourceClaim {
	var claims []*resourceapi.ResourceClaim
	for _, entry := range pod.Spec.ResourceClaims {
		name := types.NamespacedName{Namespace: pod.Namespace, Name: ptr.Deref(entry.ResourceClaimName, "")}
		if entry.ResourceClaimTemplateName != nil {
			name.Name = c.owner(pod, entry) + "-" + entry.Name
			template := c.templates[types.NamespacedName{Namespace: pod.Namespace, Name: *entry.ResourceClaimTemplateName}]
			if template == nil {
				t.Fatalf("pod %s: there is no template %s", pod.Name, *entry.ResourceClaimTemplateName)
			}
			if c.made[name] == nil {
				claim := &resourceapi.ResourceClaim{Spec: *template.Spec.Spec.DeepCopy()}
				claim.Namespace, claim.Name = name.Namespace, name.Name
				c.made[name] = claim
			}
		}
		if c.made[name] == nil {
			t.Fatalf("pod %s: there is no claim %s", pod.Name, name)
		}
		claims = append(claims, c.made[name])
	}
	if extended := c.extended(pod); len(extended.Spec.Devices.Requests) > 0 {
		claims = append(claims, extended)
	}
	return claims
}

// extended is the claim for the extended resources of the pod that a class has
// (DeviceClassSpec.ExtendedResourceName), as a scheduler makes it.
func (c *cluster) extended(pod *v1.Pod) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace, claim.Name = pod.Namespace, pod.Name+"-extended-resources"
	for i := range pod.Spec.Containers {
		limits := pod.Spec.Containers[i].Resources.Limits
		for j, name := range sorted(limits) {
			for _, class := range sorted(c.classes) {
				if string(name) != resourceapi.ResourceDeviceClassPrefix+class && string(name) != ptr.Deref(c.classes[class].Spec.ExtendedResourceName, "") {
					continue
				}
				count := limits[name]
				claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{
					Name: fmt.Sprintf("container-%d-request-%d", i, j),
					Exactly: &resourceapi.ExactDeviceRequest{
						DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count.Value(),
					},
				})
				break
			}
		}
	}
	return claim
}

func (c *cluster) owner(pod *v1.Pod, entry v1.PodResourceClaim) string {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return pod.Name
	}
	name := *pod.Spec.SchedulingGroup.PodGroupName
	group := c.groups[types.NamespacedName{Namespace: pod.Namespace, Name: name}]
	if group == nil {
		return pod.Name
	}
	for _, shared := range group.Spec.ResourceClaims {
		if shared.Name == entry.Name && ptr.Equal(shared.ResourceClaimTemplateName, entry.ResourceClaimTemplateName) {
			return name
		}
	}
	return pod.Name
}

func (c *cluster) place(t *testing.T, title string, pod *v1.Pod, claims []*resourceapi.ResourceClaim) string {
	fmt.Fprintf(&c.print, "  %s", title)
	classes := func(name string) *resourceapi.DeviceClass { return c.classes[name] }
	problem, refused := device.Compile(claims, classes, device.Options{Features: everything, Strategy: device.InOrder})
	if refused != nil {
		fmt.Fprintf(&c.print, ": nowhere\n    %s: %s\n", refused.Code, refused.Sentence())
		return "none " + string(refused.Code)
	}
	var notes strings.Builder
	answer := "none"
	for _, node := range c.nodes {
		if c.only != "" && node.Name != c.only || c.only == "" && !admits(t, node, pod) {
			fmt.Fprintf(&notes, "    %s: not for this pod\n", node.Name)
			continue
		}
		here := c.view().Node(node)
		plan, refused := problem.Solve(here)
		if refused != nil {
			r := problem.Explain(here)
			answer += " " + string(r.Code)
			fmt.Fprintf(&notes, "    %s: %s: %s\n", r.Node, r.Code, r.Sentence())
			continue
		}
		if err := device.Verify(problem, here, plan); err != nil {
			t.Errorf("%s on %s: %v", title, node.Name, err)
		}
		return node.Name + c.commit(problem, plan, node)
	}
	fmt.Fprintf(&c.print, ": nowhere\n%s", &notes)
	return answer
}

// admits says whether the pod may run on the node at all: what node selectors and
// the taints of nodes decide in other plugins of a scheduler.
func admits(t *testing.T, node *v1.Node, pod *v1.Pod) bool {
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil {
		t.Fatalf("pod %s: %v", pod.Name, err)
	}
	_, tainted := corev1.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, func(taint *v1.Taint) bool {
		return taint.Effect != v1.TaintEffectPreferNoSchedule
	}, false)
	return matches && !tainted
}

// commit allocates the claims as planned and prints what they got.
func (c *cluster) commit(problem *device.Problem, plan device.Plan, node *v1.Node) string {
	fmt.Fprintf(&c.print, ": %s\n", node.Name)
	answer := ""
	results := plan.Results(c.share)
	for i, claim := range problem.Open() {
		claim.Status.Allocation = &results[i]
		c.held = append(c.held, claim)
		for _, r := range results[i].Devices.Results {
			answer += " " + r.Request + "=" + r.Device
			fmt.Fprintf(&c.print, "    %s: %s/%s/%s", r.Request, r.Driver, r.Pool, r.Device)
			if ptr.Deref(r.AdminAccess, false) {
				fmt.Fprint(&c.print, ", admin")
			}
			for _, name := range sorted(r.ConsumedCapacity) {
				quantity := r.ConsumedCapacity[name]
				fmt.Fprintf(&c.print, ", %s %s", name, quantity.String())
			}
			if len(r.BindingConditions) > 0 {
				fmt.Fprintf(&c.print, ", binds on %s", strings.Join(r.BindingConditions, " "))
			}
			fmt.Fprintln(&c.print)
		}
	}
	for _, w := range plan.Warnings() {
		fmt.Fprintf(&c.print, "    warning: %s on %s: %s\n", w.Expression, w.Device, w.Error)
	}
	return answer
}

func (c *cluster) share() types.UID {
	c.shares++
	return types.UID(fmt.Sprint("share-", c.shares))
}

func sorted[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (c *cluster) view() *device.View {
	byPool := map[device.PoolID][]*resourceapi.ResourceSlice{}
	for _, s := range c.slices {
		id := device.PoolID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name}
		byPool[id] = append(byPool[id], s)
	}
	var pools []device.PoolView
	for id, published := range byPool {
		pools = append(pools, device.PoolView{Pool: device.CompilePool(published), Use: device.CompileUse(id, c.held)})
	}
	return device.NewView(pools)
}
