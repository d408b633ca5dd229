// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
)

// Reading is what files hold.
type Reading struct {
	Snapshot *Snapshot
	// Problems are objects and fields that an API server would not take, each with
	// the file and the object. A field that does not exist leaves the rest of its
	// object in the snapshot; anything else leaves the object out.
	Problems []error
	// Ignored counts the objects of kinds that are no part of a snapshot.
	Ignored map[schema.GroupKind]int
}

// Read reads a snapshot from files: manifests as people write them, or what
// [Snapshot.Write] wrote, in any version of the API that Kubernetes serves. What
// has no UID was seen by no API server, and gets what that and the controllers of
// Kubernetes would give it; see complete.go. Objects that name no namespace belong
// to the one given.
//
// The error is about a file that cannot be read at all.
func Read(flags genericclioptions.RESTClientGetter, files resource.FilenameOptions, namespace string) (*Reading, error) {
	infos, err := resource.NewBuilder(flags).Unstructured().Local().ContinueOnError().FilenameParam(false, &files).Do().Infos()
	if err != nil {
		return nil, oneByOne(err)
	}
	r := &reader{namespace: namespace, seen: map[string]string{}}
	r.Snapshot, r.Ignored = &Snapshot{}, map[schema.GroupKind]int{}
	for _, info := range infos {
		r.read(info.Source, info.Object)
	}
	c := &completion{Snapshot: r.Snapshot}
	c.complete(&r.workloads)
	r.Problems = append(r.Problems, c.problems...)
	return &r.Reading, nil
}

// oneByOne takes a list of errors apart, so that each has a line.
func oneByOne(err error) error {
	var all utilerrors.Aggregate
	if errors.As(err, &all) {
		return errors.Join(all.Errors()...)
	}
	return err
}

// reader puts objects where they belong.
type reader struct {
	Reading
	namespace string
	// workloads are no part of a snapshot, but their pods are.
	workloads workloads
	// seen is where each object was found.
	seen map[string]string
}

func (r *reader) read(source string, object runtime.Object) {
	if list, ok := object.(*unstructured.UnstructuredList); ok {
		for i := range list.Items {
			r.read(source, &list.Items[i])
		}
		return
	}
	written, ok := object.(*unstructured.Unstructured)
	if !ok {
		r.problem(source, fmt.Sprintf("%T", object), errors.New("this is no object of the API"))
		return
	}
	kind := written.GroupVersionKind()
	name := fmt.Sprintf("%s %q", kind.Kind, written.GetName())
	if !served(kind.GroupKind()) {
		r.Ignored[kind.GroupKind()]++
		return
	}
	typed, problem := decode(written)
	if problem != nil {
		r.problem(source, name, problem)
	}
	if typed == nil {
		return
	}
	if err := r.identify(source, kind, typed); err != nil {
		r.problem(source, name, err)
		return
	}
	if !r.Snapshot.add(typed) && !r.workloads.add(typed) {
		r.Ignored[kind.GroupKind()]++
	}
}

func (r *reader) problem(source, object string, err error) {
	// The decoder says of itself that it is strict.
	message := strings.TrimPrefix(err.Error(), "strict decoding error: ")
	r.Problems = append(r.Problems, fmt.Errorf("%s: %s: %s", source, object, message))
}

// identify sees to it that the object has a name, a namespace if its kind has one,
// and both to itself.
func (r *reader) identify(source string, kind schema.GroupVersionKind, object runtime.Object) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	if accessor.GetName() == "" {
		return errors.New("metadata.name: Required value")
	}
	switch {
	case clusterScoped(object):
		accessor.SetNamespace("")
	case accessor.GetNamespace() == "":
		accessor.SetNamespace(r.namespace)
	}
	id := fmt.Sprintf("%s %s/%s", kind.GroupKind(), accessor.GetNamespace(), accessor.GetName())
	if where, twice := r.seen[id]; twice {
		return fmt.Errorf("metadata.name: another one of this name is in %s", where)
	}
	r.seen[id] = source
	return nil
}

// clusterScoped says whether objects of this kind belong to no namespace.
func clusterScoped(object runtime.Object) bool {
	switch object.(type) {
	case *v1.Node, *v1.Namespace, *v1.PersistentVolume,
		*storagev1.StorageClass, *storagev1.CSINode, *storagev1.CSIDriver, *storagev1.VolumeAttachment,
		*resourceapi.ResourceSlice, *resourceapi.DeviceClass, *resourceapi.DeviceTaintRule,
		*schedulingv1.PriorityClass:
		return true
	}
	return false
}
