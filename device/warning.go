// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"

	"github.com/berth-scheduler/berth/reason"
)

// Warning is a selector that failed on a device, which then did not match. The
// documentation of the API would have the pod fail instead (CELDeviceSelector);
// one device that lacks an attribute should not keep a pod from another. Likewise a
// device of which nobody can tell how much would be consumed.
type Warning struct {
	// Expression is the selector, empty if the capacity is what failed.
	Expression string
	Device     reason.Device
	// Error is what CEL said, or why the capacity could not be computed.
	Error string
}

// Warnings returns what failed on devices, in the order of these, once per
// expression and device.
func (p Plan) Warnings() []Warning {
	if !p.failures {
		return nil
	}
	s := p.problem.search()
	defer p.problem.finish(s)
	s.offer.fill(p.problem, p.node)
	var warnings []Warning
	for i := range s.offer.devices {
		from := len(warnings)
		for j := range p.problem.sieves {
			w, failed := s.offer.failure(&p.problem.sieves[j], i)
			if broken := s.offer.misfit(&p.problem.sieves[j], i).broken; broken != "" {
				w, failed = Warning{Device: s.offer.name(i), Error: broken}, true
			}
			if failed && !slices.Contains(warnings[from:], w) {
				warnings = append(warnings, w)
			}
		}
	}
	return warnings
}

// failure returns the selector that failed on the device of that number, if that
// is what decided about it.
func (o *offer) failure(s *sieve, i int) (Warning, bool) {
	at := o.devices[i]
	pool := o.node.Pools[at.pool].Pool
	for _, programs := range [...][]*program{s.class, s.own} {
		for _, program := range programs {
			found := program.on(pool.id.Driver, pool.devices[at.device].api)
			if found.err != nil {
				return Warning{Expression: program.key.expression, Device: pool.name(at.device), Error: found.err.Error()}, true
			}
			if !found.matches {
				return Warning{}, false
			}
		}
	}
	return Warning{}, false
}

// firstFailure is the first time that a selector of the sieve failed on a device
// of the node, the zero Warning if none did.
func (o *offer) firstFailure(s *sieve) Warning {
	for i := range o.devices {
		if w, failed := o.failure(s, i); failed {
			return w
		}
	}
	return Warning{}
}
