// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/tests/lab"
)

// matching is the claim with one value of the attribute for all devices.
func matching(spec resourceapi.ResourceClaimSpec, attribute resourceapi.FullyQualifiedName) resourceapi.ResourceClaimSpec {
	spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &attribute}}
	return spec
}

// What is alpha in Kubernetes 1.37 works where its feature gates are on, with the
// devices that the in-tree plugin finds. Devices that stand for resources of their
// node are the exception: the scheduler's core counts those for its own plugin only,
// so ours refuses them.
func TestAlphaFeatures(t *testing.T) {
	bothSchedulers(t, "testdata/alpha.yaml", func(t *testing.T, client kubernetes.Interface) {
		ctx := t.Context()
		pairs := matching(many("lists", 2), "pairs.example.com/pair")
		pairs.Devices.Requests[0].Exactly.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{
			Name: "pairs.example.com/pair", Expression: `device.attributes["lists.example.com"].slot / 2`,
		}}
		declare(ctx, t, client, "ops-2", "DRAOptionalNodeOperations")
		declare(ctx, t, client, "cpus-1", "DRANodeAllocatableResources")
		for _, node := range []string{"ops-1", "ops-2"} {
			slice := newSlice("ops.example.com", node, "all", resourceapi.Device{Name: node})
			slice.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
			create(ctx, t, client, slice)
		}
		cpus := newSlice("cpus.example.com", "cpus-1", "all", resourceapi.Device{Name: "cpus-1"})
		cpus.Spec.Devices[0].NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{
			v1.ResourceCPU: {Mapping: &resourceapi.NodeAllocatableMapping{DeviceMultiplier: ptr.To(resource.MustParse("1"))}},
		}
		create(ctx, t, client, cpus)
		for _, test := range []struct {
			claim string
			spec  resourceapi.ResourceClaimSpec
			want  string
		}{
			{"lists", matching(many("lists", 2), "lists.example.com/roots"), "d-0 d-2"},
			{"derived", pairs, "d-1 d-2"},
			{"groups", many("groups", 2), "mig-0 mig-1"},
			{"operations", many("ops", 1), "ops-2"},
		} {
			create(ctx, t, client, newClaim(test.claim, test.spec), newPod(test.claim, sharing(test.claim)))
			eventually(ctx, t, "the pod with "+test.claim+" runs", podRuns(client, test.claim))
			if got := devicesOf(ctx, t, client, test.claim); got != test.want {
				t.Errorf("%s: got devices %s, want %s", test.claim, got, test.want)
			}
			checkInvariants(ctx, t, client)
			deletePod(ctx, t, client, test.claim)
			eventually(ctx, t, "the devices are free", func(ctx context.Context) (bool, string) { return noAllocations(ctx, client) })
		}
		create(ctx, t, client, newClaim("cpu", many("cpus", 1)), newPod("cpu", sharing("cpu")))
		if strings.HasSuffix(t.Name(), string(lab.Upstream)) {
			eventually(ctx, t, "the pod with a device that stands for CPU runs", podRuns(client, "cpu"))
			return
		}
		eventually(ctx, t, "the pod knows why it waits", waitingBecause(client, "devices of the class need something that is not supported"))
	})
}

// declare lets a node declare a feature, as its kubelet would.
func declare(ctx context.Context, t *testing.T, client kubernetes.Interface, name, feature string) {
	t.Helper()
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.DeclaredFeatures = []string{feature}
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// devicesOf are the names of a claim's devices, in order.
func devicesOf(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) string {
	t.Helper()
	claim, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, result := range ptr.Deref(claim.Status.Allocation, resourceapi.AllocationResult{}).Devices.Results {
		names = append(names, result.Device)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
