// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"bytes"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/deploy"
)

// A misspelt field in a manifest would be dropped silently by most clients.
func TestRBACIsWhatTheAPIUnderstands(t *testing.T) {
	seen := map[string]int{}
	for _, document := range bytes.Split(deploy.RBAC, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		objects := map[string]any{
			"ServiceAccount":     &v1.ServiceAccount{},
			"ClusterRole":        &rbacv1.ClusterRole{},
			"ClusterRoleBinding": &rbacv1.ClusterRoleBinding{},
			"RoleBinding":        &rbacv1.RoleBinding{},
		}
		obj, ok := objects[kind.Kind]
		if !ok {
			t.Errorf("unexpected kind %q", kind.Kind)
			continue
		}
		if err := yaml.UnmarshalStrict(document, obj); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
		seen[kind.Kind]++
		if role, ok := obj.(*rbacv1.ClusterRole); ok {
			for _, rule := range role.Rules {
				for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
					for _, value := range list {
						if value == "*" {
							t.Errorf("rule %v allows more than it names", rule)
						}
					}
				}
			}
		}
	}
	for _, kind := range []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "RoleBinding"} {
		if seen[kind] != 1 {
			t.Errorf("%d objects of kind %s, want 1", seen[kind], kind)
		}
	}
}
