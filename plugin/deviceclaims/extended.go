// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/reason"
)

// extended returns the extended resources of a pod that a DeviceClass serves, in
// order of name. NodeResourcesFit lets such a pod onto a node that does not have
// the resource, and counts on the plugin for claims to find devices there.
func (p *Plugin) extended(pod *v1.Pod) []v1.ResourceName {
	resolver := p.dra.DeviceClassResolver()
	if resolver == nil {
		return nil
	}
	var served []v1.ResourceName
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for name, quantity := range containers[i].Resources.Requests {
				if !quantity.IsZero() && resolver.GetDeviceClass(name) != nil {
					served = append(served, name)
				}
			}
		}
	}
	slices.Sort(served)
	return slices.Compact(served)
}

// refuseExtended refuses a node that does not have one of the resources itself:
// this version makes no claims for extended resources, and without devices the
// pod must not run there.
func (c *cycle) refuseExtended(node fwk.NodeInfo) *reason.Rejection {
	for _, name := range c.extended {
		if node.GetAllocatable().GetScalarResources()[name] > 0 {
			continue // from a device plugin, which is NodeResourcesFit's business
		}
		return &reason.Rejection{
			Code:    reason.ExtendedResourceUnsupported,
			Node:    node.Node().Name,
			Request: string(name),
			Facts:   reason.Facts{Feature: "extended resources from a DeviceClass"},
		}
	}
	return nil
}
