// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"
)

// Verify checks a plan against the rules of the API, from the objects that the
// Problem and the NodeView were made of and with none of the code that compiled
// them or searched. It returns every rule that is broken, joined, or nil.
//
// It is slow and meant for tests and for those who doubt.
func Verify(p *Problem, node NodeView, plan Plan) error {
	shares := 0
	results := plan.Results(func() types.UID { shares++; return types.UID("share-" + strconv.Itoa(shares)) })
	if len(results) != len(p.open) {
		return fmt.Errorf("the plan has %d results for %d claims", len(results), len(p.open))
	}
	v := verifier{problem: p, node: node, selectors: map[string]cel.CompilationResult{}}
	for i, claim := range p.open {
		if err := v.claim(i, claim, &results[i]); err != nil {
			v.broken = append(v.broken, fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, err))
		}
	}
	for _, pool := range node.Pools {
		if err := v.pool(pool); err != nil {
			v.broken = append(v.broken, fmt.Errorf("pool %s: %w", pool.Pool.id, err))
		}
	}
	return errors.Join(v.broken...)
}

type verifier struct {
	problem *Problem
	node    NodeView
	// taken is what the plan has used so far.
	taken     []use
	selectors map[string]cel.CompilationResult
	broken    []error
}

// use is one device that the plan uses.
type use struct {
	claim  int
	asked  asked
	pool   PoolView
	slice  *resourceapi.ResourceSlice
	device *resourceapi.Device
	result *resourceapi.DeviceRequestAllocationResult
}

func (u *use) admin() bool  { return ptr.Deref(u.result.AdminAccess, false) }
func (u *use) shared() bool { return ptr.Deref(u.device.AllowMultipleAllocations, false) }

// asked is what a result answers: a request of the claim, or one alternative.
type asked struct {
	request *resourceapi.DeviceRequest
	// parent is the name of the request, name that of what it asks.
	parent, name string
	class        string
	selectors    []resourceapi.DeviceSelector
	all          bool
	count        int64
	admin        bool
	tolerations  []resourceapi.DeviceToleration
	capacity     *resourceapi.CapacityRequirements
	derived      []resourceapi.DeviceDerivedAttribute
}

// questions are all that a claim asks.
func questions(claim *resourceapi.ResourceClaim) []asked {
	var all []asked
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		if e := r.Exactly; e != nil {
			all = append(all, asked{
				r, r.Name, r.Name, e.DeviceClassName, e.Selectors, e.AllocationMode == "All", e.Count,
				ptr.Deref(e.AdminAccess, false), e.Tolerations, e.Capacity, e.DerivedAttributes,
			})
		}
		for j := range r.FirstAvailable {
			s := &r.FirstAvailable[j]
			all = append(all, asked{
				r, r.Name, r.Name + "/" + s.Name, s.DeviceClassName, s.Selectors, s.AllocationMode == "All", s.Count,
				false, s.Tolerations, s.Capacity, s.DerivedAttributes,
			})
		}
	}
	return all
}

func (v *verifier) claim(index int, claim *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) error {
	if n := len(result.Devices.Results); n > resourceapi.AllocationResultsMaxSize {
		return fmt.Errorf("has %d devices", n)
	}
	if result.NodeSelector != nil {
		selector, err := nodeaffinity.NewNodeSelector(result.NodeSelector)
		if err != nil {
			return fmt.Errorf("node selector of the result: %w", err)
		}
		if !selector.Match(v.node.Node) {
			return fmt.Errorf("node selector of the result does not select node %s", v.node.Node.Name)
		}
	}
	all := questions(claim)
	from := len(v.taken)
	for i := range result.Devices.Results {
		r := &result.Devices.Results[i]
		at := slices.IndexFunc(all, func(a asked) bool { return a.name == r.Request })
		if at < 0 {
			return fmt.Errorf("result %d is for request %q, which is not in the claim", i, r.Request)
		}
		u := use{claim: index, asked: all[at], result: r}
		if err := v.use(&u); err != nil {
			return fmt.Errorf("request %s: device %s/%s/%s: %w", r.Request, r.Driver, r.Pool, r.Device, err)
		}
		v.taken = append(v.taken, u)
	}
	mine := v.taken[from:]
	for i := range claim.Spec.Devices.Requests {
		if err := v.met(claim.Spec.Devices.Requests[i].Name, all, mine); err != nil {
			return err
		}
	}
	for _, constraint := range claim.Spec.Devices.Constraints {
		if err := v.constraint(constraint, mine); err != nil {
			return err
		}
	}
	return nil
}

// use checks one device: that it is there, may be used by the request, and is not
// used twice.
func (v *verifier) use(u *use) error {
	for _, other := range v.taken {
		if other.result.Driver != u.result.Driver || other.result.Pool != u.result.Pool || other.result.Device != u.result.Device {
			continue
		}
		same := other.claim == u.claim
		switch {
		case other.shared() && (!same || other.asked.name != u.asked.name):
			if same && other.result.ShareID != nil && u.result.ShareID != nil && *other.result.ShareID == *u.result.ShareID {
				return fmt.Errorf("has the same share ID twice")
			}
		case !same && (other.admin() || u.admin()):
		default:
			return fmt.Errorf("is used for request %s and again", other.asked.name)
		}
	}
	if err := v.find(u); err != nil {
		return err
	}
	return v.allowed(u)
}

// met checks that one request has as many devices as it wants, all for the same
// alternative.
func (v *verifier) met(request string, all []asked, mine []use) error {
	has := 0
	var got *asked
	for i := range mine {
		if mine[i].asked.parent != request {
			continue
		}
		has++
		if got != nil && got.name != mine[i].asked.name {
			return fmt.Errorf("request %s has devices for %s and for %s", request, got.name, mine[i].asked.name)
		}
		got = &mine[i].asked
	}
	if got == nil {
		return fmt.Errorf("request %s has no devices", request)
	}
	wants := int(max(got.count, 1))
	if got.all {
		var err error
		if wants, err = v.everything(got); err != nil {
			return fmt.Errorf("request %s wants all devices: %w", got.name, err)
		}
	}
	if has != wants {
		return fmt.Errorf("request %s has %d devices and wants %d", got.name, has, wants)
	}
	return nil
}

// everything counts the devices that a request for all has to get.
func (v *verifier) everything(a *asked) (int, error) {
	n := 0
	for _, view := range v.node.Pools {
		current, err := newest(view.Pool.raw, v.problem.options.Features)
		for _, s := range current {
			for i := range s.Spec.Devices {
				d := &s.Spec.Devices[i]
				if reaches(s, d, v.node.Node) != nil {
					continue
				}
				if len(d.BindingConditions) > 0 && !v.problem.options.Features.DeviceBindingConditions {
					continue // nobody has it, not even a request for all
				}
				matches, failure := v.selected(a, view.Pool.id.Driver, d)
				if failure != nil {
					return 0, fmt.Errorf("device %s/%s: %w", view.Pool.id, d.Name, failure)
				}
				if matches && v.problem.options.Features.ConsumableCapacity {
					_, matches = takes(a.capacity, d, v.problem.options.Features.FractionalCapacityRange)
				}
				if matches {
					n++
				}
			}
		}
		// Slices that are missing may be for the nodes of older ones.
		concerned := current
		if int64(len(current)) < current[0].Spec.Pool.ResourceSliceCount {
			concerned = view.Pool.raw
		}
		if err != nil && slices.ContainsFunc(concerned, func(s *resourceapi.ResourceSlice) bool { return concerns(s, v.node.Node) }) {
			return 0, fmt.Errorf("pool %s: %w", view.Pool.id, err)
		}
	}
	return n, nil
}
