// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"errors"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/reason"
	"github.com/berth-scheduler/berth/volume"
)

// refusalMemory is how long a pod tries other nodes first when a provisioner has
// refused one for its claim. In that time a pod that is kept from its next attempt
// for as long as can be gets to dozens of nodes.
const refusalMemory = 10 * time.Minute

// refusals are the nodes that provisioners have refused for claims of pods lately.
// A scheduler that did not know them would choose the same node again, since
// nothing in the API shows it. They are a preference and no fact, so nothing is
// lost when a restart forgets them: when no other node is left, they are waived,
// see PostFilter. Safe for concurrent use.
type refusals struct {
	clock clock.PassiveClock
	mutex sync.Mutex
	known map[refusal]*remembered
}

type refusal struct {
	pod, claim types.UID
	node       string
}

type remembered struct {
	until time.Time
	// waived: the node was, or is to be, tried again.
	waived bool
	// again: it was, and the provisioner has refused it again.
	again bool
}

func newRefusals(clock clock.PassiveClock) *refusals {
	return &refusals{clock: clock, known: make(map[refusal]*remembered)}
}

func (r *refusals) remember(one refusal) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.clock.Now()
	maps.DeleteFunc(r.known, func(_ refusal, is *remembered) bool { return !now.Before(is.until) })
	before := r.known[one]
	r.known[one] = &remembered{until: now.Add(refusalMemory), again: before != nil && before.waived}
}

// of returns the refusals that the pod should heed.
func (r *refusals) of(pod *v1.Pod) []refusal {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	now := r.clock.Now()
	var heeded []refusal
	for one, is := range r.known {
		if one.pod == pod.UID && !is.waived && now.Before(is.until) {
			heeded = append(heeded, one)
		}
	}
	return heeded
}

// waive has the nodes tried again, and returns whether that is the first time for
// one of them.
func (r *refusals) waive(all []refusal) (first bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, one := range all {
		if is := r.known[one]; is != nil {
			is.waived = true
			first = first || !is.again
		}
	}
	return first
}

// noteRefusal remembers what ended Commit, if a provisioner did.
func (p *Plugin) noteRefusal(pod *v1.Pod, s steps, err error) {
	ended, ok := errors.AsType[*EndError](err)
	if !ok || ended.End != ProvisioningRefused {
		return
	}
	for _, d := range s.provisions {
		if claimRef(d.plan) == ended.Object {
			p.refusals.remember(refusal{pod.UID, d.plan.UID, d.node})
		}
	}
}

// heed returns a rejection when a provisioner has refused the node lately for a
// claim that the plan gives to it again.
func (c *cycle) heed(node string, plan volume.Plan) *reason.Rejection {
	for _, one := range c.refusals {
		if one.node != node {
			continue
		}
		for _, d := range plan.Provisions() {
			if d.Claim.UID == one.claim {
				c.avoid(one)
				return &reason.Rejection{Code: reason.NodeRefused, Node: node, Claim: claimRef(d.Claim)}
			}
		}
	}
	return nil
}
