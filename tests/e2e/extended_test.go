// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/tests/lab"
)

// gpu is the extended resource of the lab's GPUs.
const gpu v1.ResourceName = "nvidia.com/gpu"

// bothSchedulers runs a test on a lab with our scheduler and on one with
// kube-scheduler.
func bothSchedulers(t *testing.T, profile string, test func(t *testing.T, client kubernetes.Interface)) {
	for _, scheduler := range []lab.Scheduler{lab.Berth, lab.Upstream} {
		t.Run(string(scheduler), func(t *testing.T) {
			test(t, lab.Start(t, lab.Options{Profile: profile, Scheduler: scheduler}).Client)
		})
	}
}

// container adds a container, or an init container, that requests GPUs.
func container(name string, gpus string, kind func(*v1.PodSpec, v1.Container)) podOption {
	return func(pod *v1.Pod) {
		alone := newPod(name, requesting(gpu, gpus)).Spec.Containers[0]
		alone.Name = name
		kind(&pod.Spec, alone)
	}
}

func initContainer(spec *v1.PodSpec, c v1.Container) {
	spec.InitContainers = append(spec.InitContainers, c)
}

func sidecar(spec *v1.PodSpec, c v1.Container) {
	c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	spec.InitContainers = append(spec.InitContainers, c)
}

func another(spec *v1.PodSpec, c v1.Container) { spec.Containers = append(spec.Containers, c) }

// What is left of pods with extended resources, in the API server, is what the
// in-tree plugin leaves. Which devices they are may differ, and so does the name of
// the claim, which is random.
func TestExtendedResourcesAsUpstream(t *testing.T) {
	pods := []*v1.Pod{
		newPod("explicit", requesting(gpu, "2"), onNode("dra-1")),
		newPod("implicit", requesting("deviceclass.resource.kubernetes.io/gpu.nvidia.com", "1"), onNode("dra-1")),
		newPod("containers", requesting(gpu, "2"), requesting("cpu", "1"), container("init", "5", initContainer),
			container("side", "1", sidecar), container("late", "2", initContainer), container("more", "1", another), onNode("dra-2")),
		newPod("uninstalled", requesting(gpu, "1"), onNode("uninstalled-1")),
		newPod("plugin", requesting(gpu, "2"), onNode("plugin-1")),
		newPod("beside", requesting(gpu, "1"), fromTemplate("one-gpu"), onNode("uninstalled-1")),
		newPod("p23456789-223456789-323456789-423456789-523456789-623456789-723456789", requesting(gpu, "1"), onNode("uninstalled-1")),
	}
	left := map[lab.Scheduler]map[string]string{}
	bothSchedulers(t, "testdata/extended-resources.yaml", func(t *testing.T, client kubernetes.Interface) {
		ctx := t.Context()
		create(ctx, t, client, newTemplate("one-gpu", gpus(1)))
		texts := map[string]string{}
		for _, pod := range pods {
			create(ctx, t, client, pod)
			eventually(ctx, t, "pod "+pod.Name+" runs", podRuns(client, pod.Name))
			texts[pod.Name] = renderExtended(ctx, t, client, pod.Name)
		}
		create(ctx, t, client, newPod("one-too-many", requesting(gpu, "1"), onNode("plugin-1")))
		eventually(ctx, t, "the pod that the device plugin has nothing for waits", waitingBecause(client, "Insufficient nvidia.com/gpu"))
		deletePod(ctx, t, client, "one-too-many")
		checkInvariants(ctx, t, client)
		for _, pod := range pods {
			deletePod(ctx, t, client, pod.Name)
		}
		eventually(ctx, t, "no claim is left", noClaims(client))
		left[lab.Scheduler(t.Name()[strings.LastIndex(t.Name(), "/")+1:])] = texts
	})
	for _, pod := range pods {
		if ours, theirs := left[lab.Berth][pod.Name], left[lab.Upstream][pod.Name]; ours != theirs {
			t.Errorf("pod %s: left by us\n%s\nand by kube-scheduler\n%s", pod.Name, ours, theirs)
		}
	}
	for name, want := range map[string]string{
		"explicit": "requestName: container-0-request-0", "implicit": "resourceName: deviceclass.resource.kubernetes.io/gpu.nvidia.com",
		"containers": "count: 1", "plugin": "none", "beside": "devices: [gpu gpu.nvidia.com]",
	} {
		if !strings.Contains(left[lab.Berth][name], want) {
			t.Errorf("pod %s has left\n%s\nwithout %q", name, left[lab.Berth][name], want)
		}
	}
}

// renderExtended is what is left of a pod's extended resources, without what differs
// from one run to the next.
func renderExtended(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) string {
	t.Helper()
	pod := getPod(ctx, t, client, name)
	status := pod.Status.ExtendedResourceClaimStatus
	if status == nil {
		return "none"
	}
	claim, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, status.ResourceClaimName, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get the claim of pod %s: %v", name, err)
	}
	random := func(text string) string {
		text = strings.ReplaceAll(text, claim.Name, claim.Name[:len(claim.Name)-5]+"*****")
		return strings.ReplaceAll(text, string(pod.UID), "UID")
	}
	var devices []string
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		kind, _, _ := strings.Cut(result.Device, "-")
		devices = append(devices, kind+" "+result.Driver)
		result.Device = "any"
	}
	claim.Status.Allocation.AllocationTimestamp = nil
	for i := range claim.Status.ReservedFor {
		claim.Status.ReservedFor[i].APIGroup = "" // kube-scheduler writes the same: v1.GroupName is empty
	}
	content, err := yaml.Marshal(map[string]any{
		"mapping": status,
		"claim": map[string]any{
			"name": claim.Name, "generateName": claim.GenerateName, "annotations": claim.Annotations,
			"owners": claim.OwnerReferences, "finalizers": claim.Finalizers, "labels": claim.Labels,
			"spec": claim.Spec, "status": claim.Status,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return random(string(content)) + fmt.Sprintf("devices: %v\n", devices)
}

func noClaims(client kubernetes.Interface) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		claims, err := client.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		return len(claims.Items) == 0, fmt.Sprintf("%d claims are left", len(claims.Items))
	}
}

// newClassFor is a class of NVIDIA's devices that stands for an extended resource.
func newClassFor(name string, extended *string) *resourceapi.DeviceClass {
	class := newClass("gpu.nvidia.com")
	class.Name, class.Spec.ExtendedResourceName = name, extended
	return class
}

// Classes come and change while pods wait for what they serve. Of two classes of one
// name the newer one serves it, or the first by name of the same second.
func TestExtendedResourceOfChangingClasses(t *testing.T) {
	bothSchedulers(t, "testdata/extended-resources.yaml", func(t *testing.T, client kubernetes.Interface) {
		ctx := t.Context()
		classes := client.ResourceV1().DeviceClasses()
		create(ctx, t, client, newPod("early", requesting("example.com/late", "1")))
		eventually(ctx, t, "the pod waits for a class", waitingBecause(client, "Insufficient example.com/late"))
		first, err := classes.Create(ctx, newClassFor("b-first", nil), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		first.Spec.ExtendedResourceName = ptr.To("example.com/late")
		if _, err := classes.Update(ctx, first, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, "the pod runs when the class serves it", podRuns(client, "early"))
		if class := classOf(ctx, t, client, "early"); class != "b-first" {
			t.Errorf("served by class %s, want b-first", class)
		}
		if _, err := classes.Create(ctx, newClassFor("a-second", ptr.To("example.com/late")), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, "pods are served by the newer class", func(ctx context.Context) (bool, string) {
			name := fmt.Sprintf("next-%d", len(listPods(ctx, t, client)))
			create(ctx, t, client, newPod(name, requesting("example.com/late", "1")))
			eventually(ctx, t, "the next pod runs", podRuns(client, name))
			class := classOf(ctx, t, client, name)
			return class == "a-second", class
		})
		checkInvariants(ctx, t, client)
	})
}

// classOf is the class that serves a pod's extended resource.
func classOf(ctx context.Context, t *testing.T, client kubernetes.Interface, pod string) string {
	t.Helper()
	claim, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, getPod(ctx, t, client, pod).Status.ExtendedResourceClaimStatus.ResourceClaimName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return claim.Spec.Devices.Requests[0].Exactly.DeviceClassName
}

// What a pod mixes goes into one plan: extended resources, a claim and a volume meet
// on one node, or the pod knows why they do not.
func TestExtendedResourcesBesideClaimsAndVolumes(t *testing.T) {
	bothSchedulers(t, "testdata/gpu-here-disk-there.yaml", func(t *testing.T, client kubernetes.Interface) {
		ctx := t.Context()
		const implicit = "deviceclass.resource.kubernetes.io/" + gpuClass
		create(ctx, t, client, newTemplate("one-gpu", gpus(1)), newVolumeClaim("disk", "local", "50Gi"))
		create(ctx, t, client, newPod("two-gpus", requesting(implicit, "1"), fromTemplate("one-gpu")))
		eventually(ctx, t, "the pod with both kinds of GPU runs", podRuns(client, "two-gpus"))
		create(ctx, t, client, newPod("disk", requesting(implicit, "1"), mounting("disk")))
		eventually(ctx, t, "the pod with a disk runs", podRuns(client, "disk"))
		for pod, want := range map[string]string{"two-gpus": "gpus-1", "disk": "both-1"} {
			if node := getPod(ctx, t, client, pod).Spec.NodeName; node != want {
				t.Errorf("pod %s runs on %s, want %s", pod, node, want)
			}
		}
		checkInvariants(ctx, t, client)
	})
}
