// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-scheduler/berth/reason"
)

// CapacityCheck says how the claims of one pod that draw from the same
// CSIStorageCapacity are held against it.
type CapacityCheck string

const (
	// CheckSum, the default, lets the claims of a class share the reported
	// capacity: their sum must not exceed it, and none of them the reported
	// maximum volume size.
	CheckSum CapacityCheck = ""
	// CheckEach holds each claim alone against the maximum volume size, or
	// against the capacity if no maximum is reported. It is for drivers that
	// can provision more than they report, by thin provisioning for example.
	CheckEach CapacityCheck = "Each"
)

// Options change how a Problem is solved. The zero value is the default.
type Options struct {
	Capacity CapacityCheck
}

// Problem is a pod's claims, compiled: everything that can be decided without a
// node has been decided. It does not change, apart from remembering what it has
// looked up for a node so that the next one is faster, and is safe for
// concurrent use.
type Problem struct {
	pod     *v1.Pod
	facts   Facts
	options Options
	bound   []boundClaim
	groups  []*group
}

// group is the open claims of one class. Only these compete for the same
// volumes and the same capacity.
type group struct {
	class   *storagev1.StorageClass
	facts   Facts
	options Options
	// claims are the open claims in the order of comparePrecedence.
	claims []*openClaim
	// rank lists the indexes of claims by size, the smallest first, then by name.
	rank []int
	// keys are the labels of nodes to look under.
	keys    []string
	shelves shelves
	// allowed is where the class provisions.
	allowed *topology
	invalid *invalidField
	// reported says that the driver reports the capacity of the class.
	reported bool
}

// Compile sorts the claims of a pod and prepares what Solve needs. The
// rejection says that the pod cannot be placed on any node now, with one reason
// for each claim that stands in the way. A pod without claims gives a Problem
// that is Empty. The pod must not be changed while the Problem is in use.
func Compile(pod *v1.Pod, facts Facts, options Options) (*Problem, *reason.Rejection) {
	p := &Problem{pod: pod, facts: facts, options: options}
	var refused []*reason.Rejection
	for _, c := range claimsOf(pod, facts, &refused) {
		if r := p.add(c); r != nil {
			refused = append(refused, r)
		}
	}
	if r := combine(refused); r != nil {
		return nil, r
	}
	slices.SortFunc(p.groups, func(a, b *group) int { return cmp.Compare(a.class.Name, b.class.Name) })
	for _, g := range p.groups {
		g.order()
	}
	return p, nil
}

// claimsOf returns the pod's claims, each once however many entries of
// spec.volumes use it, ordered by name.
func claimsOf(pod *v1.Pod, facts Facts, refused *[]*reason.Rejection) []*claim {
	var claims []*claim
	for i := range pod.Spec.Volumes {
		c, r := find(pod, &pod.Spec.Volumes[i], facts)
		switch {
		case r != nil:
			*refused = append(*refused, r)
		case c != nil:
			claims = append(claims, c)
		}
	}
	slices.SortStableFunc(claims, func(a, b *claim) int { return cmp.Compare(a.pvc.Name, b.pvc.Name) })
	return slices.CompactFunc(claims, func(a, b *claim) bool { return a.pvc.Name == b.pvc.Name })
}

// add sorts a claim into the problem.
func (p *Problem) add(c *claim) *reason.Rejection {
	if c.isBound() {
		bound, r := c.bound(p.facts)
		if r == nil {
			p.bound = append(p.bound, bound)
		}
		return r
	}
	class := p.facts.Class(c.class)
	if r := c.waiting(class); r != nil {
		return r
	}
	g := p.group(class)
	o, r := c.open(class, p.facts)
	if r == nil {
		g.claims = append(g.claims, &o)
	}
	return r
}

// group returns the group of the class, a new one if there is none yet.
func (p *Problem) group(class *storagev1.StorageClass) *group {
	for _, g := range p.groups {
		if g.class.Name == class.Name {
			return g
		}
	}
	g := &group{class: class, facts: p.facts, options: p.options, keys: p.facts.PlaceKeys()}
	g.allowed, g.invalid = allowedTopology(class.AllowedTopologies)
	g.reported = reports(p.facts.Driver(class.Provisioner))
	p.groups = append(p.groups, g)
	return g
}

// order brings the claims of the group into the orders they are served in.
func (g *group) order() {
	slices.SortFunc(g.claims, comparePrecedence)
	for i := range g.claims {
		g.rank = append(g.rank, i)
	}
	slices.SortFunc(g.rank, func(i, j int) int {
		a, b := g.claims[i], g.claims[j]
		return cmp.Or(a.wanted.Cmp(b.wanted), cmp.Compare(a.pvc.Name, b.pvc.Name))
	})
}

// Empty says that the pod has no PersistentVolumeClaims: every node will do.
func (p *Problem) Empty() bool { return len(p.bound) == 0 && len(p.groups) == 0 }

// combine makes one rejection of several, ordered by the claims' names and with
// one reason for each claim. It returns nil if there are none.
func combine(refused []*reason.Rejection) *reason.Rejection {
	switch len(refused) {
	case 0:
		return nil
	case 1:
		return refused[0]
	}
	slices.SortStableFunc(refused, func(a, b *reason.Rejection) int { return cmp.Compare(a.Claim.Name, b.Claim.Name) })
	refused = slices.CompactFunc(refused, func(a, b *reason.Rejection) bool { return a.Claim == b.Claim })
	first := *refused[0]
	first.Also = refused[1:]
	if len(first.Also) == 0 {
		first.Also = nil
	}
	return &first
}
