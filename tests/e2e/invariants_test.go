// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/tests/lab"
)

// checkInvariants reads the API objects, and nothing else, and reports what may
// never be: a device in two claims, a reservation for a pod that is gone, a
// running pod without its reservation, and what lab.CheckVolumes knows.
func checkInvariants(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list pods: %v", err)
	}
	claims, err := client.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list ResourceClaims: %v", err)
	}
	for _, problem := range deviceProblems(pods.Items, claims.Items) {
		t.Error(problem)
	}
	lab.CheckVolumes(ctx, t, client)
}

func deviceProblems(pods []v1.Pod, claims []resourceapi.ResourceClaim) []string {
	var problems []string
	podByUID := map[types.UID]*v1.Pod{}
	for i := range pods {
		podByUID[pods[i].UID] = &pods[i]
	}
	reserved := map[types.UID]map[string]bool{}
	holder := map[string]string{}
	for _, claim := range claims {
		name := claim.Namespace + "/" + claim.Name
		if claim.Status.Allocation == nil {
			if len(claim.Status.ReservedFor) > 0 {
				problems = append(problems, fmt.Sprintf("claim %s is reserved and not allocated", name))
			}
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			device := result.Driver + "/" + result.Pool + "/" + result.Device
			if other, taken := holder[device]; taken {
				problems = append(problems, fmt.Sprintf("device %s is in the claims %s and %s", device, other, name))
			}
			holder[device] = name
		}
		for _, consumer := range claim.Status.ReservedFor {
			if podByUID[consumer.UID] == nil {
				problems = append(problems, fmt.Sprintf("claim %s is reserved for pod %s, which does not exist", name, consumer.Name))
			}
			if reserved[consumer.UID] == nil {
				reserved[consumer.UID] = map[string]bool{}
			}
			reserved[consumer.UID][claim.Name] = true
		}
	}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			continue
		}
		for _, status := range pod.Status.ResourceClaimStatuses {
			if status.ResourceClaimName != nil && !reserved[pod.UID][*status.ResourceClaimName] {
				problems = append(problems, fmt.Sprintf("pod %s is bound and its claim %s is not reserved for it", pod.Name, *status.ResourceClaimName))
			}
		}
		if status := pod.Status.ExtendedResourceClaimStatus; status != nil && !reserved[pod.UID][status.ResourceClaimName] {
			problems = append(problems, fmt.Sprintf("pod %s is bound and its claim for extended resources %s is not reserved for it", pod.Name, status.ResourceClaimName))
		}
		for _, claim := range pod.Spec.ResourceClaims {
			if claim.ResourceClaimName != nil && !reserved[pod.UID][*claim.ResourceClaimName] {
				problems = append(problems, fmt.Sprintf("pod %s is bound and its claim %s is not reserved for it", pod.Name, *claim.ResourceClaimName))
			}
		}
	}
	return problems
}

// noAllocations says whether nothing holds a device any more.
func noAllocations(ctx context.Context, client kubernetes.Interface) (bool, string) {
	claims, err := client.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err.Error()
	}
	for _, claim := range claims.Items {
		if claim.Status.Allocation != nil || len(claim.Status.ReservedFor) > 0 {
			return false, fmt.Sprintf("claim %s/%s still holds devices", claim.Namespace, claim.Name)
		}
	}
	return true, ""
}

// gone says whether the object of a get is not there any more.
func gone(err error) bool { return apierrors.IsNotFound(err) }
