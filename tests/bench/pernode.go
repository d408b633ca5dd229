// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	upstream "k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/structured"
)

// What a pod costs on one node: with everything in memory that can be kept between
// nodes and pods, with an allocator of its own, and with one that is used again.
func init() {
	for _, c := range []struct {
		name string
		ask  func() *question
	}{
		{"one-of-eight", func() *question { return onNode(1, one(request("r", 1)), eight()) }},
		{"attribute-selector", func() *question {
			return onNode(1, one(request("r", 1, `device.attributes["gpu.example.com"].model == "a100"`)), eight())
		}},
		{"four", func() *question { return onNode(4, one(request("r", 4)), eight()) }},
		{"four-match", func() *question { return onNode(4, one(request("r", 4), match("numa")), eight()) }},
		{"refuse-full", refuseFull},
		{"mig-one", func() *question { return mig(1, one(request("r", 1, ofProfile("small")))).holding(wholes(7)...) }},
		{"mig-mix", func() *question { return mig(4, halvesAndSmalls(1, 3)).holding(wholes(7)...) }},
		{"mig-refuse", func() *question { return mig(0, halvesAndSmalls(2, 3)).holding(wholes(7)...) }},
	} {
		register("device/"+c.name, "ns", func() (side, side, error) {
			q := c.ask()
			theirs, err := q.reused(upstream.NewAllocator)
			own, failed := q.solve()
			return nanoseconds(theirs), nanoseconds(own), errors.Join(err, failed)
		})
		register("structured/"+c.name, "ns", func() (side, side, error) {
			q := c.ask()
			theirs, err := q.reused(upstream.NewAllocator)
			own, failed := q.reused(structured.NewAllocator)
			return nanoseconds(theirs), nanoseconds(own), errors.Join(err, failed)
		})
		register("structured/"+c.name+"-fresh", "ns", func() (side, side, error) {
			q := c.ask()
			theirs, err := q.fresh(upstream.NewAllocator)
			own, failed := q.fresh(structured.NewAllocator)
			return nanoseconds(theirs), nanoseconds(own), errors.Join(err, failed)
		})
	}
	register("device/refuse-full-allocations", "allocs", func() (side, side, error) {
		q := refuseFull()
		theirs, err := q.reused(upstream.NewAllocator)
		own, failed := q.solve()
		return allocations(theirs), allocations(own), errors.Join(err, failed)
	})
	register("device/mig-refuse-allocations", "allocs", func() (side, side, error) {
		q := mig(0, halvesAndSmalls(2, 3)).holding(wholes(7)...)
		theirs, err := q.reused(upstream.NewAllocator)
		own, failed := q.solve()
		return allocations(theirs), allocations(own), errors.Join(err, failed)
	})
	register("device/nodes-50", "ns", func() (side, side, error) { return acrossNodes(50) })
	register("device/nodes-5000", "ns", func() (side, side, error) { return acrossNodes(5000) })
	register("device/nodes-5000-vs-50", "x", func() (side, side, error) {
		theirsMany, oursMany, err := acrossNodes(5000)
		theirsFew, oursFew, failed := acrossNodes(50)
		return growth(theirsMany, theirsFew), growth(oursMany, oursFew), errors.Join(err, failed)
	})
}

func eight() *resourceapi.ResourceSlice { return gpuSlice(nodeName(0), 8, nil) }

func refuseFull() *question {
	q := onNode(0, one(request("r", 1)), eight())
	for i := range 8 {
		q.holding(gpu(i).Name)
	}
	return q
}

// mig is a node of eight GPUs that can be partitioned.
func mig(devices int, claims []*resourceapi.ResourceClaim) *question {
	return onNode(devices, claims, migSlices(nodeName(0), 8)...)
}

func wholes(n int) []string {
	var names []string
	for g := range n {
		names = append(names, fmt.Sprintf("gpu-%d-whole-0", g))
	}
	return names
}

func halvesAndSmalls(halves, smalls int64) []*resourceapi.ResourceClaim {
	return []*resourceapi.ResourceClaim{claim("claim", []resourceapi.DeviceRequest{
		request("halves", halves, ofProfile("half")), request("smalls", smalls, ofProfile("small")),
	})}
}

// acrossNodes is one device of eight on each node in turn, in a cluster of n nodes
// that have each a pool of their own: the cost per node.
func acrossNodes(n int) (theirs, ours side, err error) {
	q := onNode(1, one(request("r", 1)))
	q.slices = nil
	var nodes []*v1.Node
	for i := range n {
		q.slices = append(q.slices, gpuSlice(nodeName(i), 8, nil))
		nodes = append(nodes, node(nodeName(i)))
	}
	upstreams := q.factory(upstream.NewAllocator)()
	problem, err := q.compile()
	if err != nil {
		return nil, nil, err
	}
	view := q.view()
	inTurn := func(visit func(*v1.Node)) side {
		next := 0
		return nanoseconds(func() {
			visit(nodes[next])
			next = (next + 1) % n
		})
	}
	// Selectors have been evaluated for all nodes when the first figure is taken.
	for _, node := range nodes {
		if _, refused := problem.Solve(view.Node(node)); refused != nil {
			return nil, nil, fmt.Errorf("solve: %w", refused)
		}
	}
	return inTurn(func(node *v1.Node) { _, _ = upstreams.Allocate(context.Background(), node, q.claims) }),
		inTurn(func(node *v1.Node) { _, _ = problem.Solve(view.Node(node)) }), nil
}
