// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/berth-scheduler/berth/device"
)

// NewAllocator returns an allocator for the devices of these slices, of which those
// of the state are taken. It is for many claims and nodes, and safe for concurrent
// use. It never returns an error.
//
// What is compiled is kept with celCache, for all allocators that are made with the
// same one, and is gone when it is; nil is allowed and keeps nothing. So slices,
// classes and claims have to be what informers hand out: objects that never change,
// and that are replaced by others when there is news. The state may not change while
// the allocator is used.
func NewAllocator(_ context.Context, features Features, state AllocatedState, classes DeviceClassLister,
	slices []*resourceapi.ResourceSlice, celCache *cel.Cache,
) (Allocator, error) {
	memory := memoryOf(celCache)
	return &allocator{
		features: features, classes: classes, memory: memory,
		catalog: memory.catalogOf(slices), usage: usage{state: state},
	}, nil
}

type allocator struct {
	features Features
	classes  DeviceClassLister
	memory   *memory
	catalog  *catalog

	mu    sync.Mutex
	usage usage
}

// Allocate implements [Allocator].
func (a *allocator) Allocate(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("filter operation aborted: %w", context.Cause(ctx))
	}
	asked, err := a.ask(claims)
	if err != nil {
		return nil, err
	}
	try := attempt{allocator: a, question: asked, node: a.view(node)}
	plan, refused := asked.problem.Solve(try.node)
	try.plan = plan
	if refused != nil {
		return nil, try.refused(refused)
	}
	results := plan.Results(uuid.NewUUID)
	if err := try.met(results); err != nil {
		return nil, err
	}
	if asked.numbered {
		asWritten(results)
	}
	return results, nil
}

// ask compiles the claims, unless the ones before were the same.
func (a *allocator) ask(claims []*resourceapi.ResourceClaim) (*question, error) {
	if q := a.memory.question.Load(); q != nil && q.is(claims, a.features, a.classes) {
		return q, nil
	}
	q, err := newQuestion(claims, a.features, a.classes, a.memory.selectors)
	if err == nil {
		a.memory.question.Store(q)
	}
	return q, err
}

// view is what the node can see, with what is taken of it.
func (a *allocator) view(node *v1.Node) device.NodeView {
	here := a.catalog.view.Node(node)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.usage.none() {
		return here
	}
	here.Pools = slices.Clone(here.Pools)
	for i := range here.Pools {
		here.Pools[i].Use = a.usage.of(a.catalog.pools[here.Pools[i].Pool.ID()])
	}
	return here
}
