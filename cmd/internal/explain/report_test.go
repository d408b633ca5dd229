// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/cmd/internal/simulate"
	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
	"github.com/berth-scheduler/berth/plugin/deviceclaims"
	"github.com/berth-scheduler/berth/plugin/volumeclaims"
	"github.com/berth-scheduler/berth/reason"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the files in testdata")

const (
	gpuClass = "gpu.nvidia.com"
	pcieRoot = "resource.kubernetes.io/pcieRoot"
)

func TestReports(t *testing.T) {
	for name, tc := range map[string]struct {
		pod    func(*v1.Pod)
		claim  func(*resourceapi.DeviceClaim)
		result *simulate.Result
		width  int
	}{
		"more-than-exists": {
			claim: func(claim *resourceapi.DeviceClaim) { claim.Requests[0].Exactly.Count = 16 },
			result: &simulate.Result{Nodes: []simulate.Node{
				noDevices("cpu-1", lacksClass(16)),
				noDevices("gpu-1", notEnough(16, 8, 8)),
				noDevices("gpu-2", notEnough(16, 5, 8)),
				noDevices("gpu-3", notEnough(16, 8, 8)),
			}},
		},
		"constraint-and-mixed-reasons": {
			claim:  matched,
			result: &simulate.Result{Nodes: mixed()},
		},
		"narrow": {
			claim:  matched,
			result: &simulate.Result{Nodes: mixed()},
			width:  60,
		},
		"held": {
			result: &simulate.Result{Nodes: []simulate.Node{
				noDevices("gpu-1", holding(notEnough(4, 1, 8), "trainer-1", "gpu-0", "gpu-1", "gpu-2")),
				noDevices("gpu-2", holding(notEnough(4, 3, 8), "notebook-x", "gpu-7")),
			}},
		},
		"extended-unserved": {
			pod: func(pod *v1.Pod) {
				pod.Spec.ResourceClaims = nil
				pod.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
					v1.ResourceCPU: resource.MustParse("1"), "example.com/gpus": resource.MustParse("1"),
				}}}}
			},
			result: &simulate.Result{Nodes: []simulate.Node{
				{Name: "gpu-1", Refusal: &simulate.Refusal{Plugin: "NodeResourcesFit", Message: "Insufficient example.com/gpus"}},
			}},
		},
		// A node that would fit if pods ended is nearer than one that never does, and
		// only on that is waiting worth while.
		"never-fits": {
			result: &simulate.Result{Nodes: []simulate.Node{
				func() simulate.Node {
					never := noDevices("gpu-1", holding(countersShort(4, 3), "trainer-1", "gpu-0"))
					never.NeverFits = true
					return never
				}(),
				noDevices("gpu-2", holding(countersShort(4, 1), "notebook-x", "gpu-7")),
			}},
		},
		"devices-here-volumes-there": {
			pod: func(pod *v1.Pod) {
				withVolume(pod)
				pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "bound"
			},
			result: &simulate.Result{Nodes: []simulate.Node{
				noDevices("disk-1", lacksClass(4)),
				noVolumes("gpu-1", volumeElsewhere()), noVolumes("gpu-2", volumeElsewhere()),
			}},
		},
		"preemption-helps": {
			result: &simulate.Result{
				Nodes: []simulate.Node{noDevices("gpu-2", holding(notEnough(4, 3, 8), "notebook-x", "gpu-7"))},
				Preemption: &simulate.Preemption{
					Helps: true, Node: "gpu-2", Victims: []reason.Ref{{Kind: "Pod", Namespace: "ml", Name: "notebook-x"}},
					ViolatesBudgets: 1, NotTried: "the pod has preemptionPolicy Never",
				},
			},
		},
		"preemption-does-not-help": {
			result: &simulate.Result{Nodes: []simulate.Node{tainted("gpu-1")}, Preemption: &simulate.Preemption{}},
		},
		"storage": {
			pod: withVolume,
			result: &simulate.Result{Nodes: []simulate.Node{
				noVolumes("node-1", notEnoughStorage("180Gi")),
				noVolumes("node-2", notEnoughStorage("20Gi")),
			}},
		},
		"selectors": {
			claim:  selecting,
			result: &simulate.Result{Nodes: []simulate.Node{noDevices("gpu-1", notEnough(4, 2, 6))}},
		},
		"none-selected": {
			claim: selecting,
			result: &simulate.Result{Nodes: []simulate.Node{
				noDevices("cpu-1", lacksClass(4)),
				noDevices("gpu-1", func() *reason.Rejection {
					r := notEnough(4, 0, 0)
					r.Facts.Devices.InClass = 8
					return r
				}()),
			}},
		},
		"claims-missing": {
			pod: func(pod *v1.Pod) {
				withVolume(pod)
				pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "nowhere"
				pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("one-gpu")}}
			},
			result: &simulate.Result{Gate: refusedBy(deviceclaims.Name, &reason.Rejection{Code: reason.ClaimNotCreated})},
		},
		"not-for-want-of-claims": {
			result: &simulate.Result{Nodes: []simulate.Node{
				tainted("gpu-1"), tainted("gpu-2"),
				{Name: "gpu-3", Refusal: &simulate.Refusal{Plugin: "NodeResourcesFit", Message: "Insufficient cpu"}},
			}},
		},
		"gated": {
			result: &simulate.Result{Gate: refusedBy(deviceclaims.Name, &reason.Rejection{
				Code: reason.ClaimNotCreated, Claim: reason.Ref{Kind: "ResourceClaim", Namespace: "ml", Name: "trainer-gpus"},
			})},
		},
		"refused-as-a-whole": {
			result: &simulate.Result{Whole: refusedBy(deviceclaims.Name, &reason.Rejection{
				Code: reason.DeviceClassNotFound, Claim: gpusClaim(), Request: "gpus", Facts: reason.Facts{Class: gpuClass},
			})},
		},
		"fits-now": {
			pod: func(pod *v1.Pod) {
				pod.Status.Conditions = []v1.PodCondition{{
					Type: v1.PodScheduled, Status: v1.ConditionFalse, Message: "0/2 nodes are available: 2 not enough free devices.",
				}}
			},
			result: &simulate.Result{Nodes: []simulate.Node{{Name: "gpu-1"}, noDevices("gpu-2", notEnough(4, 0, 8))}},
		},
		"being-provisioned": {
			pod: func(pod *v1.Pod) {
				withVolume(pod)
				pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "under-way"
			},
			result: &simulate.Result{Nodes: []simulate.Node{{Name: "gpu-1"}, noVolumes("gpu-2", &reason.Rejection{
				Code: reason.SelectedNodeElsewhere, Node: "gpu-2", Volume: "scratch",
				Claim: reason.Ref{Kind: "PersistentVolumeClaim", Namespace: "ml", Name: "under-way"},
				Facts: reason.Facts{Object: reason.Ref{Kind: "Node", Name: "gpu-1"}},
			})}},
		},
		"no-nodes": {result: &simulate.Result{}},
		"another-scheduler": {
			pod:    func(pod *v1.Pod) { pod.Spec.SchedulerName = "batch" },
			result: &simulate.Result{Nodes: []simulate.Node{tainted("gpu-1")}},
		},
		"scheduled": {
			pod: func(pod *v1.Pod) {
				withVolume(pod)
				pod.Spec.NodeName = "gpu-1"
				pod.Status.Phase = v1.PodRunning
				pod.Spec.ResourceClaims[0].ResourceClaimName = ptr.To("shared")
				pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "bound"
			},
		},
		"devices-unsupported": {
			result: &simulate.Result{Nodes: []simulate.Node{
				noDevices("cpu-1", lacksClass(4)), noDevices("mig-1", unusableDevices(8)), noDevices("mig-2", unusableDevices(14)),
			}},
		},
		"selector-fails": {
			claim: selecting,
			result: &simulate.Result{Nodes: []simulate.Node{
				noDevices("cpu-1", lacksClass(4)), noDevices("gpu-1", selectorFails()),
			}},
		},
		// That devices are held makes no difference where too few exist.
		"constraint-never-met": {
			claim: func(claim *resourceapi.DeviceClaim) {
				matched(claim)
				claim.Requests[0].Exactly.Count = 6
			},
			result: &simulate.Result{Nodes: []simulate.Node{
				noDevices("cpu-1", lacksClass(6)),
				noDevices("gpu-1", holding(constrained(6, 2, reason.Group{Value: "pci0000:17", Free: 2}), "trainer-1", "gpu-0", "gpu-1")),
				noDevices("gpu-2", constrained(6, 4, reason.Group{Value: "pci0000:17", Free: 4})),
				noDevices("gpu-3", heldAndConstrained()),
			}},
		},
		"constraint-never-met-and-all-held": {
			claim: func(claim *resourceapi.DeviceClaim) {
				matched(claim)
				claim.Requests[0].Exactly.Count = 6
			},
			result: &simulate.Result{Nodes: []simulate.Node{
				noDevices("cpu-1", lacksClass(6)),
				noDevices("gpu-1", heldAndConstrained()),
			}},
		},
		"volume-too-large": {
			pod: withVolume,
			result: &simulate.Result{Nodes: []simulate.Node{
				noVolumes("node-1", tooLarge("100Gi")), noVolumes("node-2", tooLarge("50Gi")),
			}},
		},
		"template-missing": {
			pod: func(pod *v1.Pod) {
				pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("missing")}}
			},
			result: &simulate.Result{Gate: refusedBy(deviceclaims.Name, &reason.Rejection{Code: reason.ClaimNotCreated})},
		},
		// Other plugins may miss the claim first, in words of their own.
		"volume-claim-missing": {
			pod: func(pod *v1.Pod) {
				withVolume(pod)
				pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "missing"
			},
			result: &simulate.Result{Whole: &simulate.Refusal{
				Plugin: "VolumeRestrictions", Message: `persistentvolumeclaim "missing" not found`,
			}},
		},
		"bound-amiss": {
			pod: func(pod *v1.Pod) {
				withVolume(pod)
				pod.Spec.NodeName, pod.Status.Phase = "gone", v1.PodPending
			},
		},
		"scheduling-gates": {
			pod: func(pod *v1.Pod) {
				pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/quota"}, {Name: "example.com/review"}}
			},
			result: &simulate.Result{Gate: &simulate.Refusal{
				Plugin: "SchedulingGates", Message: "waiting for scheduling gates: [example.com/quota example.com/review]",
			}},
		},
		"claim-unsupported": {
			result: &simulate.Result{Whole: refusedBy(deviceclaims.Name, &reason.Rejection{
				Code: reason.ClaimUnsupported, Claim: gpusClaim(), Request: "gpus",
				Facts: reason.Facts{Feature: "alternatives", Field: "spec.devices.requests[0].firstAvailable"},
			})},
		},
		"ended": {
			pod: func(pod *v1.Pod) { pod.Spec.NodeName, pod.Status.Phase = "gpu-1", v1.PodSucceeded },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, pod := cluster()
			if tc.claim != nil {
				tc.claim(&s.ResourceClaims[0].Spec.Devices)
			}
			if tc.pod != nil {
				tc.pod(pod)
			}
			width := tc.width
			if width == 0 {
				width = 100
			}
			var text strings.Builder
			if err := report(s, pod, tc.result).WriteText(&text, width); err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(text.String(), "\n") {
				if utf8.RuneCountInString(line) > width {
					t.Errorf("line is wider than %d columns: %s", width, line)
				}
			}
			compare(t, filepath.Join("testdata", name+".txt"), text.String())
		})
	}
}

// Programs read the JSON form: a field that changes its name breaks them.
func TestJSON(t *testing.T) {
	s, pod := cluster()
	result := &simulate.Result{Nodes: []simulate.Node{
		noDevices("gpu-1", holding(notEnough(4, 3, 8), "notebook-x", "gpu-7")),
	}}
	text, err := json.MarshalIndent(report(s, pod, result), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, filepath.Join("testdata", "held.json"), string(text)+"\n")
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("differs from %s (-want +got), run with -rewrite if that is right:\n%s", file, diff)
	}
}

// cluster returns what surrounds pod ml/trainer: its claims and who holds devices.
func cluster() (*snapshot.Snapshot, *v1.Pod) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "trainer", UID: "trainer"},
		Spec: v1.PodSpec{
			SchedulerName:  v1.DefaultSchedulerName,
			ResourceClaims: []v1.PodResourceClaim{{Name: "gpus", ResourceClaimName: ptr.To("gpus")}},
		},
	}
	four := resourceapi.DeviceRequest{Name: "gpus", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: gpuClass, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 4,
	}}
	underWay := pvc("under-way", "")
	underWay.Annotations = map[string]string{selectedNodeAnnotation: "gpu-1"}
	return &snapshot.Snapshot{
		Nodes: []*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1"}}},
		ResourceClaimTemplates: []*resourceapi.ResourceClaimTemplate{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "one-gpu"}},
		},
		Pods: []*v1.Pod{
			pod,
			{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "notebook-x"}, Spec: v1.PodSpec{Priority: ptr.To[int32](0)}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "trainer-1"}, Spec: v1.PodSpec{Priority: ptr.To[int32](1000)}},
		},
		ResourceClaims: []*resourceapi.ResourceClaim{
			{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "gpus"},
				Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
					Requests: []resourceapi.DeviceRequest{four},
				}},
			},
			{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "shared"},
				Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{four}}},
				Status: resourceapi.ResourceClaimStatus{
					Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
						Results: []resourceapi.DeviceRequestAllocationResult{
							{Request: "gpus", Driver: gpuClass, Pool: "gpu-1", Device: "gpu-0"},
							{Request: "gpus", Driver: gpuClass, Pool: "gpu-1", Device: "gpu-1"},
						},
					}},
					ReservedFor: []resourceapi.ResourceClaimConsumerReference{
						{Resource: "pods", Name: "trainer", UID: "trainer"},
						{Resource: "pods", Name: "trainer-1", UID: "other"},
					},
				},
			},
		},
		DeviceClasses: []*resourceapi.DeviceClass{{
			ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
			Spec:       resourceapi.DeviceClassSpec{ExtendedResourceName: ptr.To("example.com/gpu")},
		}},
		StorageClasses: []*storagev1.StorageClass{{
			ObjectMeta: metav1.ObjectMeta{Name: "topolvm"}, Provisioner: "topolvm.io",
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		}},
		PersistentVolumeClaims: []*v1.PersistentVolumeClaim{
			pvc("scratch", ""), pvc("bound", "pvc-3f"), underWay,
		},
		PersistentVolumes: []*v1.PersistentVolume{{
			ObjectMeta: metav1.ObjectMeta{Name: "pvc-3f", Annotations: map[string]string{provisionedByAnnotation: "topolvm.io"}},
			Spec:       v1.PersistentVolumeSpec{Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse("200Gi")}},
		}},
	}, pod
}

func matched(claim *resourceapi.DeviceClaim) {
	claim.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(pcieRoot))}}
}

func selecting(claim *resourceapi.DeviceClaim) {
	claim.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: "device.attributes['gpu.nvidia.com'].productName\n  .startsWith('H100')",
	}}}
}

func pvc(name, volume string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("topolvm"),
			VolumeName:       volume,
			Resources: v1.VolumeResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("200Gi")},
			},
		},
	}
}

func withVolume(pod *v1.Pod) {
	pod.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "scratch"},
	}}}
}

func mixed() []simulate.Node {
	grouped := func(node string, had int64, groups ...reason.Group) simulate.Node {
		return noDevices(node, constrained(4, had, groups...))
	}
	near := grouped("gpu-7", 3, reason.Group{Value: "pci0000:17", Free: 3}, reason.Group{Value: "pci0000:9a", Free: 2})
	near.Devices = holding(near.Devices, "notebook-x", "gpu-2")
	near.Devices = holding(near.Devices, "trainer-1", "gpu-5", "gpu-6")
	near.Refusal.Rejection = near.Devices
	updating := noDevices("gpu-8", &reason.Rejection{
		Code: reason.PoolIncomplete, Claim: gpusClaim(), Request: "gpus",
		Facts: reason.Facts{Object: reason.Ref{Kind: "pool", Name: gpuClass + "/gpu-8"}, Generation: 8, Wanted: quantity(2), Had: quantity(1)},
	})
	return []simulate.Node{
		noDevices("cpu-1", lacksClass(4)),
		grouped("gpu-6", 2, reason.Group{Value: "pci0000:17", Free: 2}),
		near, updating, tainted("gpu-9"),
	}
}

func gpusClaim() reason.Ref { return reason.Ref{Kind: "ResourceClaim", Namespace: "ml", Name: "gpus"} }

func quantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }

func refusedBy(plugin string, r *reason.Rejection) *simulate.Refusal {
	return &simulate.Refusal{Plugin: plugin, Message: r.Error(), Rejection: r}
}

func noDevices(node string, r *reason.Rejection) simulate.Node {
	r.Node = node
	return simulate.Node{Name: node, Refusal: refusedBy(deviceclaims.Name, r), Devices: r}
}

func noVolumes(node string, r *reason.Rejection) simulate.Node {
	r.Node = node
	return simulate.Node{Name: node, Refusal: refusedBy(volumeclaims.Name, r), Volumes: r}
}

func tainted(node string) simulate.Node {
	return simulate.Node{Name: node, Refusal: &simulate.Refusal{
		Plugin: "TaintToleration", Message: "node(s) had untolerated taint(s) {maintenance: }",
	}}
}

func lacksClass(wanted int64) *reason.Rejection {
	return &reason.Rejection{
		Code: reason.NoDeviceOfClass, Claim: gpusClaim(), Request: "gpus",
		Facts: reason.Facts{Class: gpuClass, Wanted: quantity(wanted), Had: quantity(0), Devices: &reason.Devices{}},
	}
}

func notEnough(wanted, had int64, exist int) *reason.Rejection {
	return &reason.Rejection{
		Code: reason.NotEnoughDevices, Claim: gpusClaim(), Request: "gpus",
		Facts: reason.Facts{
			Class: gpuClass, Wanted: quantity(wanted), Had: quantity(had),
			Devices: &reason.Devices{InClass: exist, Match: exist, Free: int(had)},
		},
	}
}

// constrained is the answer of a node that has two roots of four devices.
func constrained(wanted, had int64, groups ...reason.Group) *reason.Rejection {
	r := notEnough(wanted, had, 8)
	r.Code, r.Facts.Attribute = reason.ConstraintUnmet, pcieRoot
	r.Facts.Devices.Groups, r.Facts.Devices.Most, r.Facts.Devices.Free = groups, 4, 0
	for _, g := range groups {
		r.Facts.Devices.Free += g.Free
	}
	return r
}

func countersShort(wanted, had int64) *reason.Rejection {
	r := notEnough(wanted, had, 8)
	r.Code = reason.CountersShort
	return r
}

func heldAndConstrained() *reason.Rejection {
	r := holding(constrained(6, 3, reason.Group{Value: "pci0000:17", Free: 3}), "trainer-1", "gpu-4", "gpu-5", "gpu-6")
	r.Code = reason.NotEnoughDevices
	return r
}

func unusableDevices(exist int) *reason.Rejection {
	r := notEnough(4, 0, exist)
	r.Code, r.Facts.Feature, r.Facts.Devices.Unusable = reason.DevicesUnsupported, "consume shared counters", exist
	refuse(r, "shared counters, which this version does not track")
	return r
}

func selectorFails() *reason.Rejection {
	r := notEnough(4, 0, 0)
	r.Facts.Devices.InClass, r.Facts.Expression, r.Facts.Detail = 8, "device.nosuch", "no such key: nosuchattr"
	refuse(r, "selector failed: no such key: nosuchattr")
	return r
}

func refuse(r *reason.Rejection, why string) {
	d := r.Facts.Devices
	for i := range d.InClass {
		d.Refused = append(d.Refused, reason.Refused{
			Device: reason.Device{Driver: gpuClass, Pool: "pool", Name: fmt.Sprintf("gpu-%d", i)}, Why: why,
		})
	}
}

func tooLarge(limit string) *reason.Rejection {
	r := notEnoughStorage(limit)
	r.Facts.Limit = r.Facts.Had
	return r
}

func holding(r *reason.Rejection, pod string, devices ...string) *reason.Rejection {
	for _, device := range devices {
		r.Facts.Devices.Held = append(r.Facts.Devices.Held, reason.Held{
			Device: reason.Device{Driver: gpuClass, Pool: "pool", Name: device},
			Claim:  reason.Ref{Kind: "ResourceClaim", Namespace: "ml", Name: pod + "-gpus"},
			Pods:   []reason.Ref{{Kind: "Pod", Namespace: "ml", Name: pod}},
		})
	}
	return r
}

func volumeElsewhere() *reason.Rejection {
	return &reason.Rejection{
		Code:  reason.VolumeElsewhere,
		Claim: reason.Ref{Kind: "PersistentVolumeClaim", Namespace: "ml", Name: "bound"}, Volume: "scratch",
		Facts: reason.Facts{
			Class: "topolvm", Wanted: ptr.To(resource.MustParse("200Gi")), Attribute: "topology.kubernetes.io/zone", Values: []string{"zone-a"},
			Object: reason.Ref{Kind: "PersistentVolume", Name: "pvc-3f"},
		},
	}
}

func notEnoughStorage(had string) *reason.Rejection {
	return &reason.Rejection{
		Code:  reason.NotEnoughStorage,
		Claim: reason.Ref{Kind: "PersistentVolumeClaim", Namespace: "ml", Name: "scratch"}, Volume: "scratch",
		Facts: reason.Facts{Class: "topolvm", Wanted: ptr.To(resource.MustParse("200Gi")), Had: ptr.To(resource.MustParse(had))},
	}
}
