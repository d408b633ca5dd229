// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// CheckVolumes reads the API objects, and nothing else, and reports what may never
// be: a volume of two claims, a claim on two volumes, a claim on a volume that
// names another.
func CheckVolumes(ctx context.Context, t testing.TB, client kubernetes.Interface) {
	t.Helper()
	// Claims first: a volume names its claim before the claim names the volume.
	claims, err := client.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list PersistentVolumeClaims: %v", err)
	}
	volumes, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list PersistentVolumes: %v", err)
	}
	names := map[string]bool{}
	volumeOf := map[types.UID]string{}
	for _, volume := range volumes.Items {
		names[volume.Name] = true
		ref := volume.Spec.ClaimRef
		if ref == nil || ref.UID == "" {
			continue
		}
		if other, taken := volumeOf[ref.UID]; taken {
			t.Errorf("claim %s/%s has the volumes %s and %s", ref.Namespace, ref.Name, other, volume.Name)
		}
		volumeOf[ref.UID] = volume.Name
	}
	claimOf := map[string]string{}
	for _, claim := range claims.Items {
		name := claim.Spec.VolumeName
		if name == "" {
			continue
		}
		if other, taken := claimOf[name]; taken {
			t.Errorf("volume %s is that of the claims %s and %s/%s", name, other, claim.Namespace, claim.Name)
		}
		claimOf[name] = claim.Namespace + "/" + claim.Name
		if names[name] && volumeOf[claim.UID] != name {
			t.Errorf("claim %s/%s is bound to volume %s, which does not name it", claim.Namespace, claim.Name, name)
		}
	}
}
