// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	upstream "k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/structured"
)

// question is what both sides are asked: may these claims have devices on this
// node? It says which answer is right.
type question struct {
	node   *v1.Node
	slices []*resourceapi.ResourceSlice
	// held are devices of the pool that is named like the node.
	held   []string
	claims []*resourceapi.ResourceClaim
	// devices is how many the answer has in all, 0 when there is none.
	devices int
}

// The gates that are on by default in Kubernetes 1.37, as each side names them.
var (
	upstreamFeatures = upstream.Features{
		AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true,
		PartitionableDevices: true, PrioritizedList: true,
	}
	ourFeatures = device.Features{
		AdminAccess: true, ConsumableCapacity: true, DeviceBindingConditions: true, DeviceTaints: true,
		PartitionableDevices: true, PrioritizedList: true,
	}
)

func onNode(devices int, claims []*resourceapi.ResourceClaim, slices ...*resourceapi.ResourceSlice) *question {
	return &question{node: node(nodeName(0)), slices: slices, claims: claims, devices: devices}
}

func (q *question) holding(devices ...string) *question {
	q.held = append(q.held, devices...)
	return q
}

// newCache makes the cache of selectors that the plugin of Kubernetes makes.
func newCache() *cel.Cache { return cel.NewCache(10, cel.Features{EnableConsumableCapacity: true}) }

type classLister struct{ class *resourceapi.DeviceClass }

func (l classLister) List() ([]*resourceapi.DeviceClass, error) {
	return []*resourceapi.DeviceClass{l.class}, nil
}

func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	if name != l.class.Name {
		return nil, fmt.Errorf("there is no class %s", name)
	}
	return l.class, nil
}

func (q *question) state() structured.AllocatedState {
	taken := sets.New[structured.DeviceID]()
	for _, name := range q.held {
		taken.Insert(structured.MakeDeviceID(driver, q.node.Name, name))
	}
	return structured.AllocatedState{
		AllocatedDevices:         taken,
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
}

// allocator is what both packages make.
type allocator interface {
	Allocate(context.Context, *v1.Node, []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error)
}

type newAllocator func(context.Context, structured.Features, structured.AllocatedState, structured.DeviceClassLister,
	[]*resourceapi.ResourceSlice, *cel.Cache) (structured.Allocator, error)

var _, _ newAllocator = upstream.NewAllocator, structured.NewAllocator

// factory prepares to make allocators that answer the question.
func (q *question) factory(make newAllocator) func() allocator {
	state, lister, cache := q.state(), classLister{gpuClass()}, newCache()
	return func() allocator {
		a, err := make(context.Background(), upstreamFeatures, state, lister, q.slices, cache)
		if err != nil {
			panic(err)
		}
		return a
	}
}

// fresh makes an allocator for every answer, reused one for all.
func (q *question) fresh(make newAllocator) (func(), error) {
	next := q.factory(make)
	return func() { _, _ = next().Allocate(context.Background(), q.node, q.claims) }, q.check(next())
}

func (q *question) reused(make newAllocator) (func(), error) {
	a := q.factory(make)()
	return func() { _, _ = a.Allocate(context.Background(), q.node, q.claims) }, q.check(a)
}

func (q *question) check(a allocator) error {
	results, err := a.Allocate(context.Background(), q.node, q.claims)
	if err != nil {
		return err
	}
	return q.right(results)
}

func (q *question) right(results []resourceapi.AllocationResult) error {
	devices := 0
	for i := range results {
		devices += len(results[i].Devices.Results)
	}
	if devices != q.devices {
		return fmt.Errorf("the answer has %d devices, want %d", devices, q.devices)
	}
	return nil
}

// view is what our engine sees of all nodes.
func (q *question) view() *device.View {
	holder := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "holder"}}
	holder.Status.Allocation = &resourceapi.AllocationResult{}
	for _, name := range q.held {
		holder.Status.Allocation.Devices.Results = append(holder.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "held", Driver: driver, Pool: q.node.Name, Device: name})
	}
	byPool := map[string][]*resourceapi.ResourceSlice{}
	for _, s := range q.slices {
		byPool[s.Spec.Pool.Name] = append(byPool[s.Spec.Pool.Name], s)
	}
	var pools []device.PoolView
	for _, slices := range byPool {
		pool := device.CompilePool(slices)
		pools = append(pools, device.PoolView{Pool: pool, Use: device.CompileUse(pool.ID(), []*resourceapi.ResourceClaim{holder})})
	}
	return device.NewView(pools)
}

func (q *question) compile() (*device.Problem, error) {
	problem, refused := device.Compile(q.claims, func(string) *resourceapi.DeviceClass { return gpuClass() }, device.Options{Features: ourFeatures})
	if refused != nil {
		return nil, fmt.Errorf("compile: %w", refused)
	}
	return problem, nil
}

// solve is our engine without the clothes of upstream's.
func (q *question) solve() (func(), error) {
	problem, err := q.compile()
	if err != nil {
		return nil, err
	}
	here := q.view().Node(q.node)
	plan, refused := problem.Solve(here)
	if refused != nil && q.devices > 0 {
		return nil, fmt.Errorf("solve: %w", refused)
	}
	if refused == nil {
		err = errors.Join(q.right(plan.Results(nil)), device.Verify(problem, here, plan))
	}
	return func() { _, _ = problem.Solve(here) }, err
}
