// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apps "k8s.io/kubernetes/pkg/apis/apps/install"
	batch "k8s.io/kubernetes/pkg/apis/batch/install"
	core "k8s.io/kubernetes/pkg/apis/core/install"
	policy "k8s.io/kubernetes/pkg/apis/policy/install"
	resources "k8s.io/kubernetes/pkg/apis/resource/install"
	scheduling "k8s.io/kubernetes/pkg/apis/scheduling/install"
	storage "k8s.io/kubernetes/pkg/apis/storage/install"
)

// The API server's own types, with its defaults and its conversions.
var (
	scheme  = newScheme()
	decoder = serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme){
		core.Install, apps.Install, batch.Install, policy.Install, resources.Install, scheduling.Install, storage.Install,
	} {
		install(s)
	}
	return s
}

// served says whether the scheme has the kind, in whichever version.
func served(kind schema.GroupKind) bool {
	return slices.ContainsFunc(scheme.PrioritizedVersionsForGroup(kind.Group), func(version schema.GroupVersion) bool {
		return scheme.Recognizes(version.WithKind(kind.Kind))
	})
}

// decode returns the object with the defaults of the API, in the preferred version
// of its kind. Where only fields are wrong that do not exist, or are there twice,
// it returns both the object and an error; otherwise the object is nil.
func decode(written *unstructured.Unstructured) (runtime.Object, error) {
	raw, err := written.MarshalJSON()
	if err != nil {
		return nil, err
	}
	object, kind, err := decoder.Decode(raw, nil, nil)
	_, strict := runtime.AsStrictDecodingError(err)
	switch {
	case runtime.IsNotRegisteredError(err):
		return nil, fmt.Errorf("apiVersion: there is no %s in %s", written.GetKind(), written.GetAPIVersion())
	case err != nil && !strict:
		return nil, err
	}
	scheme.Default(object)
	preferred, convertErr := convert(object, kind.GroupKind())
	if convertErr != nil {
		return nil, convertErr
	}
	return preferred, err
}

func convert(object runtime.Object, kind schema.GroupKind) (runtime.Object, error) {
	for _, version := range scheme.PrioritizedVersionsForGroup(kind.Group) {
		if !scheme.Recognizes(version.WithKind(kind.Kind)) {
			continue
		}
		internal, err := scheme.ConvertToVersion(object, schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
		if err != nil {
			return nil, fmt.Errorf("convert from %s: %w", object.GetObjectKind().GroupVersionKind().Version, err)
		}
		preferred, err := scheme.ConvertToVersion(internal, version)
		if err != nil {
			return nil, fmt.Errorf("convert to %s: %w", version, err)
		}
		return preferred, nil
	}
	return object, nil
}

// kindOf is the name of the object's kind, whether or not the object says it.
func kindOf(object runtime.Object) string {
	kinds, _, err := scheme.ObjectKinds(object)
	if err != nil {
		return object.GetObjectKind().GroupVersionKind().Kind
	}
	return kinds[0].Kind
}
