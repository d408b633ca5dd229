// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/reason"
)

// refusal is a request that cannot be met even if it is alone: for each of its
// choices there is a reason. Code and choice are of the one that is told first.
type refusal struct {
	code            reason.Code
	request, choice int
}

// weigh finds out which choices are alive. It returns the first request of which
// none is, or a refusal without a code.
func (o *offer) weigh() refusal {
	var first refusal
	o.alive, o.aliveAll = o.alive[:0], o.aliveAll[:0]
	for r := range o.problem.requests {
		from := len(o.aliveAll)
		worst := refusal{request: r}
		for k := range o.problem.requests[r].choices {
			code := o.shortage(r, k)
			switch {
			case code == "":
				o.aliveAll = append(o.aliveAll, k)
			case worst.code == "" || hope(code) > hope(worst.code):
				worst.code, worst.choice = code, k
			}
		}
		o.alive = append(o.alive, o.aliveAll[from:len(o.aliveAll):len(o.aliveAll)])
		if len(o.aliveAll) == from && first.code == "" {
			first = worst
		}
	}
	return first
}

// hope orders the reasons of the alternatives of one request: as one of them is
// enough, the reason that is easiest to cure is that of the request.
func hope(code reason.Code) int {
	switch {
	case code.Kind() == reason.CannotKnow:
		return 3
	case code.Evictable():
		return 2
	case code.Kind() == reason.DoesNotFit:
		return 1
	}
	return 0
}

// shortage says why a choice cannot be had even if it is alone, or "".
func (o *offer) shortage(request, index int) reason.Code {
	c := o.problem.choice(request, index)
	s := &o.sieved[c.sieve]
	if c.all {
		if code := o.shortageOfAll(request, index); code != "" {
			return code
		}
		return o.derived(c)
	}
	if c.count > resourceapi.AllocationResultsMaxSize {
		return reason.ClaimTooLarge
	}
	if int64(s.free.Count()) >= c.count {
		return o.derived(c)
	}
	if len(o.blocked) > 0 {
		if b := o.blockedFor(c); b != nil {
			return b.code()
		}
	}
	if s.inClass == 0 {
		return reason.NoDeviceOfClass
	}
	return tooFew(s, int(c.count))
}

// shortageOfAll is strict: a choice of all devices has to know about every
// device of the node and can do without none that matches.
func (o *offer) shortageOfAll(request, index int) reason.Code {
	c := o.problem.choice(request, index)
	s := &o.sieved[c.sieve]
	match := s.match.Count() - s.passed
	switch {
	case len(o.blocked) > 0:
		return o.blocked[0].code()
	case s.failed:
		return reason.SelectorFailed
	case s.uncounted:
		return reason.CapacityInvalid
	case s.inClass == 0:
		return reason.NoDeviceOfClass
	case o.total(request, index) > resourceapi.AllocationResultsMaxSize:
		return reason.ClaimTooLarge
	case match == 0 || s.free.Count() < match:
		return tooFew(s, match)
	}
	return ""
}

// derived says whether an attribute that a constraint compares can be derived from
// each device that the choice may have.
func (o *offer) derived(c *choice) reason.Code {
	if _, _, failed := o.underivable(c); failed {
		return reason.AttributeFailed
	}
	return ""
}

// underivable finds the first device that a derived attribute of the choice fails
// on, and the column of that attribute.
func (o *offer) underivable(c *choice) (device, column int, failed bool) {
	free := o.sieved[c.sieve].free
	for _, column := range c.columns {
		for d := free.Next(0); d >= 0; d = free.Next(d + 1) {
			at := o.devices[d]
			if _, failed := o.column(o.node.Pools[at.pool].Pool, column).failed[at.device]; failed {
				return d, column, true
			}
		}
	}
	return 0, 0, false
}

// tooFew says why fewer devices than are wanted are free: because of the first
// thing that keeps so many of the others that they would do, or else because there
// are too few.
func tooFew(s *sieved, wanted int) reason.Code {
	free := s.free.Count()
	for _, why := range [...]struct {
		obstacle obstacle
		code     reason.Code
	}{
		{untold, reason.CountersUnknown},
		{drained, reason.CountersShort},
		{spent, reason.CapacityShort},
		{beyond, reason.DevicesUnsupported},
	} {
		if n := s.barred[why.obstacle]; n > 0 && free+n >= wanted {
			return why.code
		}
	}
	return reason.NotEnoughDevices
}

// total is how many devices the claim of a choice for all wants on this node, if
// its other requests want as few as they can. Requests for all that come later
// do not count.
func (o *offer) total(request, index int) int {
	total := 0
	for i := range o.problem.requests {
		r := &o.problem.requests[i]
		switch {
		case r.claim != o.problem.requests[request].claim:
		case i == request:
			total += o.demand(r, index)
		case i > request && r.choices[0].all && len(r.choices) == 1:
		default:
			fewest := o.demand(r, 0)
			for k := range r.choices {
				fewest = min(fewest, o.demand(r, k))
			}
			total += fewest
		}
	}
	return total
}

// demand is how many devices a choice wants on this node.
func (o *offer) demand(r *request, index int) int {
	c := &r.choices[index]
	if c.all {
		s := &o.sieved[c.sieve]
		return s.match.Count() - s.passed
	}
	return int(min(c.count, resourceapi.AllocationResultsMaxSize+1))
}
