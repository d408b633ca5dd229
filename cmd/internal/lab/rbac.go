// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// createRBAC creates the roles and bindings in a manifest.
func createRBAC(ctx context.Context, client kubernetes.Interface, manifest []byte) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read RBAC rules: %w", err)
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if runtime.IsMissingKind(err) {
			// A document of comments only.
			continue
		}
		if err != nil {
			return fmt.Errorf("decode RBAC rules: %w", err)
		}
		if err := createRBACObject(ctx, client, object); err != nil {
			return err
		}
	}
}

func createRBACObject(ctx context.Context, client kubernetes.Interface, object runtime.Object) error {
	var err error
	rbac := client.RbacV1()
	options := metav1.CreateOptions{}
	switch o := object.(type) {
	case *rbacv1.ClusterRole:
		_, err = rbac.ClusterRoles().Create(ctx, o, options)
	case *rbacv1.ClusterRoleBinding:
		_, err = rbac.ClusterRoleBindings().Create(ctx, o, options)
	case *rbacv1.Role:
		_, err = rbac.Roles(o.Namespace).Create(ctx, o, options)
	case *rbacv1.RoleBinding:
		_, err = rbac.RoleBindings(o.Namespace).Create(ctx, o, options)
	case *corev1.ServiceAccount:
		// For clusters where the scheduler is a pod; here it has a certificate.
	default:
		err = fmt.Errorf("unexpected kind %T", object)
	}
	if err != nil {
		return fmt.Errorf("create RBAC rules: %w", err)
	}
	return nil
}
