// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
)

// unserved says which extended resources of the pod nobody serves: no node has
// them by a device plugin, and no DeviceClass stands for them. Classes for a
// resource of the same domain, or of the same name in another, are told of, as one
// of them may be meant.
func unserved(s *snapshot.Snapshot, pod *v1.Pod) []string {
	if slices.Contains(s.NotAllowed, "deviceclasses.resource.k8s.io") {
		return nil
	}
	wanted := map[v1.ResourceName]bool{}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for name := range container.Resources.Requests {
			wanted[name] = strings.Contains(string(name), "/") && !strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix)
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !wanted[name] || slices.ContainsFunc(s.Nodes, func(node *v1.Node) bool { _, has := node.Status.Capacity[name]; return has }) {
			continue
		}
		near, served := classesFor(s.DeviceClasses, string(name))
		if served {
			continue
		}
		text := fmt.Sprintf("No DeviceClass serves %s, and no node has it by a device plugin.", name)
		if len(near) > 0 {
			text += " There is " + some(near, 3) + "."
		}
		all = append(all, text)
	}
	return all
}

// classesFor says whether a class serves the resource, and which ones serve a
// similar one.
func classesFor(classes []*resourceapi.DeviceClass, resource string) (near []string, served bool) {
	domain, name, _ := strings.Cut(resource, "/")
	for _, class := range classes {
		if class.Spec.ExtendedResourceName == nil {
			continue
		}
		serves := *class.Spec.ExtendedResourceName
		of, called, _ := strings.Cut(serves, "/")
		switch {
		case serves == resource:
			return nil, true
		case of == domain, called == name:
			near = append(near, fmt.Sprintf("%s of DeviceClass %s", serves, class.Name))
		}
	}
	slices.Sort(near)
	return near, false
}
