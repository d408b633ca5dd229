// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/internal/live"
)

const stateKey fwk.StateKey = Name

// cycle is what the plugin knows in one scheduling and binding cycle of a pod.
// PreFilter makes it. A pod without claims and extended resources has none.
type cycle struct {
	pod    *v1.Pod
	claims []podClaim
	// own is what the pod asks of a node with its own claims alone.
	own *variant
	// view is nil when there is nothing to allocate.
	view *live.View
	// extended is nil if no DeviceClass serves an extended resource of the pod.
	extended *extended
	// left are claims for extended resources of earlier attempts.
	left []*resourceapi.ResourceClaim
	// broken are the claims whose devices have failed to become ready.
	broken []podClaim
	// avoid are claims that stand for the devices on which this pod has failed
	// lately: they hold them, as long as there are others.
	avoid []*resourceapi.ResourceClaim

	// Filter runs for many nodes at once; the mutex guards what it writes.
	mutex sync.Mutex
	// choices has what Filter found on each node on which the pod fits.
	choices map[string]*choice
	// elsewhere are the claims whose allocation cannot be used on some node, one
	// entry for each different set of them. It is all that PostFilter needs.
	elsewhere map[string][]podClaim
	// holders are, by node, pods that this one might evict, where some have to go for
	// a nominated pod and it is not known yet which.
	holders map[string][]holder
	// warned are the warnings that the pod has got in this cycle.
	warned sets.Set[string]

	// bindings are made by Reserve, one for each claim. Reserve, PreBind and
	// Unreserve of one pod never run at the same time.
	bindings []*binding
	// unbound: PreBind has failed, so the pod was never sent to the node.
	unbound bool
}

// look returns what a node can see after a change.
func (c *cycle) look(node *v1.Node, change live.Change) (device.NodeView, error) {
	if c.view == nil {
		return device.NodeView{Node: node}, nil
	}
	return c.view.NodeAfter(node, change)
}

// allocates says whether there may be anything to allocate on some node.
func (c *cycle) allocates() bool {
	return c.extended != nil || c.own != nil && len(c.own.problem.Open()) > 0
}

// choice is a Plan for one node. Only Filter writes it, except for made.
type choice struct {
	plan device.Plan
	// of is what the plan answers.
	of *variant
	// made are the plan's results once somebody has asked for them, so that all who
	// ask see the same ones. Whoever asks must not change them.
	made []resourceapi.AllocationResult
	once sync.Once
	// lastResort: it takes devices on which the pod has failed lately.
	lastResort bool
	// beside: it leaves their devices to pods that are nominated for the node.
	beside bool
}

// besideOthers marks a choice that may be nil.
func (c *choice) besideOthers() *choice {
	if c != nil {
		c.beside = true
	}
	return c
}

func (c *choice) results() []resourceapi.AllocationResult {
	c.once.Do(func() { c.made = c.plan.Results(uuid.NewUUID) })
	return c.made
}

// trial is what the framework keeps of the cycle. It tries a node without some of
// its pods, or with others that are nominated for it, on copies.
type trial struct {
	*cycle
	// evicted are the pods with claims that are supposed to be gone.
	evicted sets.Set[types.UID]
	// nominated are pods with claims that are to find their devices on the node too.
	nominated []*v1.Pod
}

// Clone returns a trial of the same cycle: copies of a CycleState ask about the
// same pod and facts. Only who comes and goes is each copy's own.
func (t *trial) Clone() fwk.StateData {
	return &trial{cycle: t.cycle, evicted: t.evicted.Clone(), nominated: slices.Clone(t.nominated)}
}

// readTrial returns nil without an error when the pod has no claims.
func readTrial(state fwk.CycleState) (*trial, error) {
	data, err := state.Read(stateKey)
	if errors.Is(err, fwk.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the cycle state of %s: %w", Name, err)
	}
	t, ok := data.(*trial)
	if !ok {
		return nil, fmt.Errorf("cycle state of %s has type %T", Name, data)
	}
	return t, nil
}

// readCycle is readTrial for those who are not concerned by dry runs.
func readCycle(state fwk.CycleState) (*cycle, error) {
	t, err := readTrial(state)
	if err != nil || t == nil {
		return nil, err
	}
	return t.cycle, nil
}
