// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"math"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/reason"
)

// attempt is a question asked of one node.
type attempt struct {
	*allocator
	*question
	node device.NodeView
	plan device.Plan
}

// refused is the error for claims that cannot have devices on the node, or nil
// where upstream has none: then they just do not fit.
func (a *attempt) refused(short *reason.Rejection) error {
	blocked := a.blocked()
	if len(blocked) > 0 {
		if all := a.plainAll(); len(all) > 0 {
			b := &blocked[0]
			return onNode(b.rejection, "claim %s, request %s: asks for all devices, but resource pool %s is currently %s",
				nameOf(all[0].claim), all[0].Name, b.rejection.Facts.Object.Name, b.state())
		}
	}
	if err := a.tooLarge(short); err != nil {
		return err
	}
	switch short.Code {
	case reason.SelectorFailed, reason.CapacityInvalid:
		return a.met(nil)
	case reason.AttributeFailed:
		r := a.problem.Explain(a.node)
		return onNode(r, "evaluate derived attribute %s failed: %s", r.Facts.Attribute, r.Facts.Detail)
	case reason.SearchEnded:
		return onNode(short, "claim %s: %s", short.Claim, short.Error())
	case reason.ConstraintUnmet:
		if device := a.unmet(short); device != nil {
			return onNode(short, "claim %s, request %s: cannot add device %s because a claim constraint would not be satisfied", short.Claim, short.Request, device)
		}
	}
	if err := a.met(nil); err != nil {
		return err
	}
	for _, b := range blocked {
		if b.state() == invalid {
			return onNode(b.rejection, "invalid resource pools were encountered")
		}
	}
	return nil
}

// tooLarge is the error for a claim that wants more devices than it may hold, when
// all that there are on this node are counted.
func (a *attempt) tooLarge(short *reason.Rejection) error {
	if len(a.plainAll()) == 0 {
		return nil
	}
	for _, claim := range a.claims {
		total := int64(0)
		for i := range claim.Spec.Devices.Requests {
			request := &claim.Spec.Devices.Requests[i]
			fewest := int64(math.MaxInt64)
			for _, w := range wishes(claim, request) {
				wants := w.least()
				if w.all() {
					_, wants = a.everything(&w)
				}
				fewest = min(fewest, wants)
			}
			if fewest > resourceapi.AllocationResultsMaxSize-total {
				return onNode(short, limitText, nameOf(claim), request.Name, fewest, resourceapi.AllocationResultsMaxSize, total)
			}
			total += fewest
		}
	}
	return nil
}

// What upstream calls a pool that cannot be used.
const (
	invalid  = "invalid"
	updating = "being updated"
)

// blocked is a pool that matters to the node and cannot be used.
type blocked struct {
	pool      *pool
	rejection *reason.Rejection
}

// state is what upstream calls it. A pool of more slices than it announces is one
// of those that are not complete.
func (b *blocked) state() string {
	if b.rejection.Code == reason.PoolIncomplete || b.pool.overfull {
		return updating
	}
	return invalid
}

// blocked are those that matter to the node and cannot be used.
func (a *attempt) blocked() []blocked {
	var all []blocked
	for _, view := range a.node.Pools {
		if r := view.Pool.Trouble(a.node.Node, featuresOf(a.question.features)); r != nil {
			all = append(all, blocked{pool: a.catalog.pools[view.Pool.ID()], rejection: r})
		}
	}
	return all
}
