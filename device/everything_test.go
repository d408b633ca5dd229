// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"
)

// FirstAllowed tries everything, in order, with nothing but the rules of Verify, and
// returns the first devices that break none of them, one per result. It gives up, which
// it says, after so many tries.
func FirstAllowed(p *Problem, node NodeView, tries int) (found []string, done bool) {
	s := everything{verifier: verifier{problem: p, node: node, selectors: map[string]cel.CompilationResult{}}, tries: tries}
	s.collect()
	if s.claim(0) {
		for _, u := range s.taken {
			found = append(found, u.asked.name+" "+u.result.Driver+"/"+u.result.Pool+"/"+u.result.Device)
		}
	}
	return found, s.tries > 0
}

// everything is a search that gives devices one by one and asks the verifier of each.
type everything struct {
	verifier
	offered []resourceapi.DeviceRequestAllocationResult
	tries   int
}

// collect lists what could be in a result, in the order in which devices are offered.
func (s *everything) collect() {
	var last []resourceapi.DeviceRequestAllocationResult
	for _, view := range s.node.Pools {
		current, err := newest(view.Pool.raw, s.problem.options.Features)
		if err != nil {
			continue
		}
		var here []resourceapi.DeviceRequestAllocationResult
		binding := false
		for _, slice := range current {
			for i := range slice.Spec.Devices {
				d := &slice.Spec.Devices[i]
				if reaches(slice, d, s.node.Node) != nil {
					continue
				}
				binding = binding || slices.ContainsFunc(slice.Spec.Devices, func(d resourceapi.Device) bool { return len(d.BindingConditions) > 0 })
				here = append(here, resourceapi.DeviceRequestAllocationResult{
					Driver: view.Pool.id.Driver, Pool: view.Pool.id.Pool, Device: d.Name,
					BindingConditions: d.BindingConditions, BindingFailureConditions: d.BindingFailureConditions,
				})
			}
		}
		if binding {
			last = append(last, here...)
		} else {
			s.offered = append(s.offered, here...)
		}
	}
	s.offered = append(s.offered, last...)
}

func (s *everything) claim(index int) bool {
	if index == len(s.problem.open) {
		return true
	}
	return s.request(index, 0, len(s.taken))
}

func (s *everything) request(claim, index, from int) bool {
	api := s.problem.open[claim]
	all := questions(api)
	if index == len(api.Spec.Devices.Requests) {
		return s.claim(claim + 1)
	}
	for _, a := range all {
		if a.parent != api.Spec.Devices.Requests[index].Name {
			continue
		}
		wants, candidates, alive := s.candidates(claim, a)
		if alive && s.give(claim, index, from, wants, candidates) {
			return true
		}
	}
	return false
}

// candidates are the uses that the request could make of devices if it was alone. It
// is dead if an attribute that is compared cannot be derived of one of them.
func (s *everything) candidates(claim int, a asked) (wants int, uses []use, alive bool) {
	wants = int(max(a.count, 1))
	if a.all {
		var err error
		if wants, err = s.everything(&a); err != nil || wants == 0 {
			return 0, nil, false
		}
	}
	for _, result := range s.offered {
		alone := verifier{problem: s.problem, node: s.node, selectors: s.selectors}
		u := use{claim: claim, asked: a, result: s.result(a, result)}
		if alone.use(&u) != nil {
			continue
		}
		alone.taken = []use{u}
		if alone.pool(u.pool) != nil {
			continue
		}
		for _, c := range s.problem.open[claim].Spec.Devices.Constraints {
			if len(c.Requests) > 0 && !slices.Contains(c.Requests, a.parent) && !slices.Contains(c.Requests, a.name) {
				continue
			}
			if _, err := alone.attribute(&u, *cmp.Or(c.MatchAttribute, c.DistinctAttribute)); err != nil {
				return 0, nil, false
			}
		}
		uses = append(uses, u)
	}
	return wants, uses, len(uses) >= wants
}

// result says of a device what a request makes of it.
func (s *everything) result(a asked, of resourceapi.DeviceRequestAllocationResult) *resourceapi.DeviceRequestAllocationResult {
	of.Request = a.name
	if a.admin {
		of.AdminAccess = ptr.To(true)
	}
	u := use{result: &of}
	if s.find(&u) != nil || !u.shared() {
		return &of
	}
	of.ShareID = ptr.To(types.UID(a.name))
	if amounts, ok := takes(a.capacity, u.device, s.problem.options.Features.FractionalCapacityRange); ok && !a.admin && len(amounts) > 0 {
		of.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{}
		for name, amount := range amounts {
			of.ConsumedCapacity[name] = resource.MustParse(amount.FloatString(9))
		}
	}
	return &of
}

// give gives a request so many of its candidates, from one on, and goes on.
func (s *everything) give(claim, index, from, wants int, candidates []use) bool {
	if wants == 0 {
		return s.request(claim, index+1, from)
	}
	for i := range candidates {
		if s.tries--; s.tries <= 0 {
			return false
		}
		u := candidates[i]
		if s.use(&u) != nil {
			continue
		}
		s.taken = append(s.taken, u)
		if s.holds(claim, from) && s.give(claim, index, from, wants-1, candidates[i+1:]) {
			return true
		}
		s.taken = s.taken[:len(s.taken)-1]
	}
	return false
}

// holds says whether what is taken, the last device of it by this claim, breaks no rule
// that more devices could not mend.
func (s *everything) holds(claim, from int) bool {
	mine := s.taken[from:]
	return len(mine) <= resourceapi.AllocationResultsMaxSize && s.pool(mine[len(mine)-1].pool) == nil &&
		!slices.ContainsFunc(s.problem.open[claim].Spec.Devices.Constraints, func(c resourceapi.DeviceConstraint) bool {
			return s.constraint(c, mine) != nil
		})
}
