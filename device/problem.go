// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/deviceattribute"

	"github.com/berth-scheduler/berth/device/internal/assign"
	"github.com/berth-scheduler/berth/reason"
)

// DefaultBudget is how many steps a search may take on one node. A step is one
// device, or one word of a set of devices, looked at once: a few nanoseconds.
const DefaultBudget int64 = 50_000_000

// Options say how to compile a Problem. The zero value works.
type Options struct {
	Features Features
	// Strategy says which of all plans is the plan.
	Strategy Strategy
	// TopologyAttributes are the attributes whose values group devices that are best
	// used together, the most important one first. It counts only for [Packed]. nil
	// means resource.kubernetes.io/pcieRoot, then resource.kubernetes.io/numaNode; an
	// empty slice means none. The caller must not change it afterwards.
	TopologyAttributes []resourceapi.FullyQualifiedName
	// Budget is the most steps that the search on one node may take. 0 means
	// DefaultBudget.
	Budget int64
	// Selectors is the cache of compiled selectors to use. nil means a cache of
	// the Problem's own.
	Selectors *Selectors
}

// Strategy says which of all plans is the plan.
type Strategy uint8

const (
	// Packed takes the first alternatives that can be had, as they are written, and
	// then the devices that leave the most useful ones to others.
	Packed Strategy = iota
	// InOrder takes what comes first: request by request the first alternative, and
	// of that the first devices, that leave enough for the rest. It is what the
	// allocator of Kubernetes finds.
	InOrder
)

var defaultTopology = [...]resourceapi.FullyQualifiedName{
	resourceapi.FullyQualifiedName(deviceattribute.StandardDeviceAttributePCIeRoot),
	resourceapi.FullyQualifiedName(deviceattribute.StandardDeviceAttributeNUMANode),
}

// Problem is all claims of one pod, compiled. It is immutable and safe for
// concurrent use: Solve and Explain may run for many nodes at once.
type Problem struct {
	options Options
	// missing are the parts of the API that are switched off.
	missing needs
	// open are the claims to allocate, allocated the others.
	open      []*resourceapi.ResourceClaim
	allocated []allocatedClaim

	// requests are those of all open claims, in order. sieves and columns are what
	// they and the constraints select devices by, each once.
	requests    []request
	sieves      []sieve
	constraints []constraint
	columns     []columnKey
	// mixed: a constraint compares values of several columns.
	mixed bool
}

// allocatedClaim has its devices already. All it says is where they are.
type allocatedClaim struct {
	ref reason.Ref
	// selector is nil if the devices can be reached from everywhere.
	selector *nodeaffinity.NodeSelector
	// where is the first thing that the selector requires of a node.
	where v1.NodeSelectorRequirement
	// skips: devices of the claim skip operations of their node, which then has to
	// know of it (DeviceRequestAllocationResult.SkipNodeOperations).
	skips bool
}

func (c *allocatedClaim) reachable(node *v1.Node) bool {
	return (c.selector == nil || c.selector.Match(node)) && c.handled(node)
}

// handled says whether the node knows of everything that the devices ask of it.
func (c *allocatedClaim) handled(node *v1.Node) bool { return !c.skips || undeclared(node) == 0 }

// request is met by one of its choices, the earlier the better: its alternatives
// (firstAvailable), or what it wants exactly.
type request struct {
	claim   int
	name    string
	choices []choice
}

// choice wants count devices that the sieve lets through, or all of them.
type choice struct {
	wish
	class *resourceapi.DeviceClass
	sieve int
	// columns are those of its derived attributes that a constraint asks for.
	columns []int
}

// sieve decides which devices a choice may have. Choices that ask for the same
// share one.
type sieve struct {
	// class and own are the selectors of the class and of the request. All have
	// to accept a device.
	class, own  []*program
	tolerations []resourceapi.DeviceToleration
	access      access
	demand      demand
}

// access is how a device is used.
type access uint8

const (
	// takesIt: nobody else can use the device, or the part of it, at the same time.
	takesIt access = iota
	// observes: admin access, which takes nothing.
	observes
)

// constraint is a matchAttribute or distinctAttribute of a claim.
type constraint struct {
	claim     int
	kind      assign.Kind
	attribute resourceapi.FullyQualifiedName
	members   []member
}

// member is a choice under a constraint, and the column of its values.
type member struct{ request, choice, column int }

// Open returns the claims that have no allocation yet, in the order in which
// they were given to Compile and in which [Plan.Results] has their results. The
// caller must not change the slice.
func (p *Problem) Open() []*resourceapi.ResourceClaim { return p.open }

func (p *Problem) claimOf(r *request) reason.Ref { return claimRef(p.open[r.claim]) }

func (p *Problem) choice(request, choice int) *choice { return &p.requests[request].choices[choice] }
