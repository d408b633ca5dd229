// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"errors"
	"fmt"
	"sync"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/volume"
)

// cycle is what the plugin keeps between the extension points of one scheduling
// cycle. A pod without claims has none.
type cycle struct {
	problem *volume.Problem
	// refusals are the nodes to leave out for now.
	refusals []refusal

	// mutex guards plans and avoided: Filter runs for many nodes at a time.
	mutex sync.Mutex
	plans map[string]volume.Plan
	// avoided are the refusals that a node was left out for.
	avoided []refusal

	// steps are set by Reserve, for the one node that was chosen.
	steps steps
	// holdUntil is until when steps that cannot be written may be held, zero when
	// nothing was held before.
	holdUntil time.Time
}

const cycleKey fwk.StateKey = Name

// Clone returns the cycle itself. Its problem does not change when pods are
// added or removed, so that the clones made for preemption may share it.
func (c *cycle) Clone() fwk.StateData { return c }

// readCycle returns nil when PreFilter had nothing to do for the pod.
func readCycle(state fwk.CycleState) (*cycle, error) {
	data, err := state.Read(cycleKey)
	if errors.Is(err, fwk.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of plugin %s: %w", Name, err)
	}
	c, ok := data.(*cycle)
	if !ok {
		return nil, fmt.Errorf("state of plugin %s has type %T", Name, data)
	}
	return c, nil
}

func (c *cycle) keep(node string, plan volume.Plan) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.plans[node] = plan
}

func (c *cycle) avoid(one refusal) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.avoided = append(c.avoided, one)
}

func (c *cycle) takeAvoided() []refusal {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	avoided := c.avoided
	c.avoided = nil
	return avoided
}

func (c *cycle) plan(node string) (volume.Plan, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	plan, ok := c.plans[node]
	return plan, ok
}
