// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/berth-scheduler/berth/examples"
)

// applyExamples creates every object of the examples, file by file in the order
// of their names, and returns the names.
func applyExamples(ctx context.Context, config *rest.Config) ([]string, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	discover, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	groups, err := restmapper.GetAPIGroupResources(discover)
	if err != nil {
		return nil, fmt.Errorf("asking the server what it serves: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)

	files, err := fs.Glob(examples.Manifests, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		content, err := fs.ReadFile(examples.Manifests, file)
		if err != nil {
			return nil, err
		}
		if err := create(ctx, client, mapper, content); err != nil {
			return nil, fmt.Errorf("examples/%s: %w", file, err)
		}
	}
	return files, nil
}

func create(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, manifests []byte) error {
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		var object unstructured.Unstructured
		if err := documents.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading YAML: %w", err)
		}
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
		}
		if _, err := client.Resource(mapping.Resource).Namespace(namespace).Create(ctx, &object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating %s %s: %w", kind.Kind, object.GetName(), err)
		}
	}
}
