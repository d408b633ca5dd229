// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const defaultRegion = "lab"

// Node is one node with all that it carries.
type Node struct {
	Node    *corev1.Node
	Pools   []Pool
	Volumes []*corev1.PersistentVolume
}

// Pool is what one driver publishes on one node.
type Pool struct {
	Driver string
	Slices []resourceslice.Slice
}

// Size is the number of nodes that the profile describes.
func (p *Profile) Size() int {
	size := 0
	for _, group := range p.Nodes {
		size += group.Count
	}
	return size
}

// Expand lists the nodes of a cluster of the given size, in the order of the
// profile. The result shares nothing with the profile.
func (p *Profile) Expand(size int) ([]Node, error) {
	var sequence []*NodeGroup
	for i := range p.Nodes {
		for range p.Nodes[i].Count {
			sequence = append(sequence, &p.Nodes[i])
		}
	}
	inGroup := make(map[*NodeGroup]int, len(p.Nodes))
	nodes := make([]Node, size)
	for i := range nodes {
		group := sequence[i%len(sequence)]
		node, err := group.node(inGroup[group])
		if err != nil {
			return nil, fmt.Errorf("nodes of group %q: %w", group.Name, err)
		}
		nodes[i] = node
		inGroup[group]++
	}
	return nodes, nil
}

// node is the n-th node of the group, from 0.
func (g *NodeGroup) node(n int) (Node, error) {
	name := fmt.Sprintf("%s-%d", g.Name, n+1)
	labels := map[string]string{
		corev1.LabelHostname:       name,
		corev1.LabelOSStable:       "linux",
		corev1.LabelArchStable:     "amd64",
		corev1.LabelTopologyRegion: defaultRegion,
	}
	if g.Region != "" {
		labels[corev1.LabelTopologyRegion] = g.Region
	}
	zone := ""
	if len(g.Zones) > 0 {
		zone = g.Zones[n%len(g.Zones)]
		labels[corev1.LabelTopologyZone] = zone
	}
	maps.Copy(labels, g.Labels)
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{
			Capacity:    g.Allocatable.DeepCopy(),
			Allocatable: g.Allocatable.DeepCopy(),
		},
	}
	for _, taint := range g.Taints {
		object.Spec.Taints = append(object.Spec.Taints, *taint.DeepCopy())
	}
	node := Node{Node: object}
	for _, driver := range g.Drivers {
		pool, err := driver.pool(place{node: name, zone: zone, driver: driver.Name})
		if err != nil {
			return Node{}, fmt.Errorf("driver %q: %w", driver.Name, err)
		}
		node.Pools = append(node.Pools, pool)
	}
	for _, volumes := range g.LocalVolumes {
		for range volumes.Count {
			name := fmt.Sprintf("local-pv-%s-%d", name, len(node.Volumes))
			node.Volumes = append(node.Volumes, volumes.volume(name, labels[corev1.LabelHostname]))
		}
	}
	return node, nil
}

func (d *Driver) pool(at place) (Pool, error) {
	pool := Pool{Driver: d.Name}
	for _, template := range d.Slices {
		for i := range max(1, template.Repeat) {
			at.slice = i
			slice, err := template.slice(at)
			if err != nil {
				return Pool{}, err
			}
			pool.Slices = append(pool.Slices, slice)
		}
	}
	return pool, nil
}

func (s *Slice) slice(at place) (resourceslice.Slice, error) {
	var slice resourceslice.Slice
	for _, template := range s.SharedCounters {
		for range max(1, template.Repeat) {
			at.index = len(slice.SharedCounters)
			set, err := expand[resourceapi.CounterSet](template.CounterSet, at)
			if err != nil {
				return slice, fmt.Errorf("counter set %q: %w", template.Name, err)
			}
			slice.SharedCounters = append(slice.SharedCounters, set)
		}
	}
	for _, template := range s.Devices {
		for range max(1, template.Repeat) {
			at.index = len(slice.Devices)
			device, err := expand[resourceapi.Device](template.Device, at)
			if err != nil {
				return slice, fmt.Errorf("device %q: %w", template.Name, err)
			}
			slice.Devices = append(slice.Devices, device)
		}
	}
	return slice, nil
}

func (v *LocalVolumes) volume(name, hostname string) *corev1.PersistentVolume {
	mode := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: v.Capacity},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeMode:                    &mode,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			StorageClassName:              v.StorageClass,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/" + name}},
			NodeAffinity:                  &corev1.VolumeNodeAffinity{Required: requireLabel(corev1.LabelHostname, hostname)},
		},
	}
}

func requireLabel(key, value string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
		}},
	}}}
}
