// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// createPatience is longer than a control plane takes to start.
const createPatience = 20 * time.Second

// createObjects creates the objects in their order.
func createObjects(ctx context.Context, config *rest.Config, client kubernetes.Interface, objects []unstructured.Unstructured) error {
	if len(objects) == 0 {
		return nil
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	resources, err := restmapper.GetAPIGroupResources(client.Discovery())
	if err != nil {
		return fmt.Errorf("ask for the served APIs: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(resources)
	for i := range objects {
		object := &objects[i]
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return fmt.Errorf("create %s %q: %w", kind.Kind, object.GetName(), err)
		}
		target := dynamic.ResourceInterface(dynamicClient.Resource(mapping.Resource))
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			namespace := object.GetNamespace()
			if namespace == "" {
				namespace = metav1.NamespaceDefault
			}
			target = dynamicClient.Resource(mapping.Resource).Namespace(namespace)
		}
		if err := create(ctx, target, object); err != nil {
			return fmt.Errorf("create %s %q: %w", kind.Kind, object.GetName(), err)
		}
	}
	return nil
}

// create tries again as long as the object is forbidden: a pod is, until its
// namespace has a service account.
func create(ctx context.Context, target dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	var err error
	// What is wrong with the object in the end is more useful than that time is up.
	_ = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, createPatience, true, func(ctx context.Context) (bool, error) {
		_, err = target.Create(ctx, object, options)
		return !apierrors.IsForbidden(err), nil
	})
	return err
}
