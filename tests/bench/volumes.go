// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"github.com/berth-scheduler/berth/internal/live"
	"github.com/berth-scheduler/berth/volume"
)

const (
	// nodesAsked is how many nodes of a cluster take turns, spread evenly.
	nodesAsked = 20
	// nodesAtOnce is how many nodes a pod is tried on in one turn. What is done once
	// per pod is done for as few nodes, which is to our disadvantage.
	nodesAtOnce = 4
)

// What a pod with volumes costs per node: everything from reading the informer
// stores to the answer, with the work that is done once per pod shared out over
// nodesAtOnce nodes.
func init() {
	for _, c := range []struct {
		name string
		make func(nodes int) *storageCluster
	}{
		{"local-one", func(n int) *storageCluster { return localCluster(n, true, "50Gi") }},
		{"local-four", func(n int) *storageCluster { return localCluster(n, true, "50Gi", "50Gi", "50Gi", "50Gi") }},
		{"local-too-small", func(n int) *storageCluster { return localCluster(n, false, "200Gi") }},
		{"capacity-enough", func(n int) *storageCluster { return capacityCluster(n, true, "500Gi", "500Gi") }},
		{"capacity-elsewhere", func(n int) *storageCluster { return capacityCluster(n, false, "50Gi", "500Gi") }},
		{"capacity-too-small", func(n int) *storageCluster { return capacityCluster(n, false, "50Gi", "50Gi") }},
	} {
		name := func(suffix string) string { return "volume/" + c.name + "-" + suffix }
		for _, nodes := range []int{50, 5000} {
			register(name(fmt.Sprint(nodes)), "ns", func() (side, side, error) { return c.make(nodes).sides() })
		}
		register(name("5000-vs-50"), "x", func() (side, side, error) {
			theirsMany, oursMany, err := c.make(5000).sides()
			theirsFew, oursFew, failed := c.make(50).sides()
			return growth(theirsMany, theirsFew), growth(oursMany, oursFew), errors.Join(err, failed)
		})
	}
}

// storageCluster is what both sides read, and the question.
type storageCluster struct {
	stores informers.SharedInformerFactory
	ours   *live.Volumes
	theirs volumebinding.SchedulerVolumeBinder

	nodes []*v1.Node
	pod   *v1.Pod
	// asked are the nodes that take turns, fits says what they answer.
	asked []*v1.Node
	fits  bool
	next  int
	err   error
}

func newStorageCluster(nodes int, fits bool) *storageCluster {
	client := fake.NewClientset()
	c := &storageCluster{stores: informers.NewSharedInformerFactory(client, 0), fits: fits}
	// Before the stores are filled, so that they have our indexes from the start.
	c.ours, c.err = live.For(context.Background(), c.stores).Volumes()
	core, store := c.stores.Core().V1(), c.stores.Storage().V1()
	binder, err := volumebinding.NewVolumeBinder(klog.Background(), client,
		feature.Features{EnableVolumeAttributesClass: true},
		core.Pods(), core.Nodes(), store.CSINodes(), core.PersistentVolumeClaims(), core.PersistentVolumes(), store.StorageClasses(),
		volumebinding.CapacityCheck{CSIDriverInformer: store.CSIDrivers(), CSIStorageCapacityInformer: store.CSIStorageCapacities()},
		10*time.Second)
	c.theirs, c.err = binder, errors.Join(c.err, err)
	for _, class := range storageClasses() {
		c.add(store.StorageClasses().Informer().GetIndexer(), class)
	}
	c.add(store.CSIDrivers().Informer().GetIndexer(), storageDriver())
	for i := range nodes {
		c.nodes = append(c.nodes, storageNode(i))
		c.add(core.Nodes().Informer().GetIndexer(), c.nodes[i])
	}
	for i := range nodesAsked {
		c.asked = append(c.asked, c.nodes[i*nodes/nodesAsked])
	}
	return c
}

func (c *storageCluster) add(store interface{ Add(obj any) error }, obj any) {
	c.err = errors.Join(c.err, store.Add(obj))
}

// claim adds claims of the sizes, which the pod uses.
func (c *storageCluster) claim(class string, sizes ...string) {
	for i, size := range sizes {
		c.add(c.stores.Core().V1().PersistentVolumeClaims().Informer().GetIndexer(), storageClaim(i, class, size))
	}
	c.pod = storagePod(len(sizes))
}

// localCluster has four local volumes of 100Gi on each node.
func localCluster(nodes int, fits bool, sizes ...string) *storageCluster {
	c := newStorageCluster(nodes, fits)
	for i := range nodes {
		for j := range 4 {
			c.add(c.stores.Core().V1().PersistentVolumes().Informer().GetIndexer(), localVolume(i, j))
		}
	}
	c.claim(localClass, sizes...)
	return c
}

// capacityCluster has a CSIStorageCapacity for each node, and a claim of 100Gi. The
// nodes that are asked have so much storage here, the others elsewhere.
func capacityCluster(nodes int, fits bool, here, elsewhere string) *storageCluster {
	c := newStorageCluster(nodes, fits)
	for i, node := range c.nodes {
		size := elsewhere
		if slices.Contains(c.asked, node) {
			size = here
		}
		c.add(c.stores.Storage().V1().CSIStorageCapacities().Informer().GetIndexer(), storageCapacity(i, size))
	}
	c.claim(provisionedClass, "100Gi")
	return c
}

// turn returns the nodes whose turn it is.
func (c *storageCluster) turn() []*v1.Node {
	if c.next+nodesAtOnce > len(c.asked) {
		c.next = 0
	}
	c.next += nodesAtOnce
	return c.asked[c.next-nodesAtOnce : c.next]
}

// sides checks both answers and returns what a node costs each.
func (c *storageCluster) sides() (upstream, ours side, err error) {
	perNode := func(answer func([]*v1.Node) (int, error)) side {
		return func(m *meter) (float64, error) {
			took := m.time(func() { _, _ = answer(c.turn()) })
			return float64(took) / nodesAtOnce, nil
		}
	}
	want := 0
	if c.fits {
		want = nodesAtOnce
	}
	for who, answer := range map[string]func([]*v1.Node) (int, error){"upstream": c.askTheirs, "ours": c.askOurs} {
		fitting, err := answer(c.turn())
		if c.err = errors.Join(c.err, err); fitting != want {
			c.err = errors.Join(c.err, fmt.Errorf("%s: fits on %d of %d nodes, want %d", who, fitting, nodesAtOnce, want))
		}
	}
	return perNode(c.askTheirs), perNode(c.askOurs), c.err
}

func (c *storageCluster) askTheirs(nodes []*v1.Node) (fitting int, err error) {
	claims, err := c.theirs.GetPodVolumeClaims(klog.Background(), c.pod)
	if err != nil {
		return 0, err
	}
	for _, node := range nodes {
		_, reasons, err := c.theirs.FindPodVolumes(klog.Background(), c.pod, claims, node)
		if err != nil {
			return 0, err
		}
		if len(reasons) == 0 {
			fitting++
		}
	}
	return fitting, nil
}

func (c *storageCluster) askOurs(nodes []*v1.Node) (fitting int, err error) {
	problem, rejection := volume.Compile(c.pod, c.ours.View(), volume.Options{})
	if rejection != nil {
		return 0, rejection
	}
	problem.Narrow()
	for _, node := range nodes {
		if _, rejection := problem.Solve(node); rejection == nil {
			fitting++
		}
	}
	return fitting, nil
}
