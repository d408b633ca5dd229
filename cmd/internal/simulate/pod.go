// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/plugin/deviceclaims"
	"github.com/berth-scheduler/berth/plugin/volumeclaims"
	"github.com/berth-scheduler/berth/reason"
)

// Result is what the scheduler's cycle says about one pod. Exactly one of Gate,
// Whole and Nodes is set, unless the cluster has no nodes.
type Result struct {
	// Gate is why the pod may not enter the scheduling queue.
	Gate *Refusal
	// Whole is why the pod is refused before any node is looked at.
	Whole *Refusal
	// Nodes has the answer for every node, ordered by name.
	Nodes []Node
	// Preemption is set when every node has refused the pod.
	Preemption *Preemption
	// Extended is nil if no DeviceClass serves an extended resource of the pod.
	Extended *Extended
}

// Extended is the claim that a pod gets for its extended resources on nodes that
// have none of them, and which containers use which of its requests.
type Extended struct {
	Claim    *resourceapi.ResourceClaim
	Mappings []v1.ContainerExtendedResourceRequest
}

// Node is the answer for one node.
type Node struct {
	Name string `json:"name"`
	// Refusal is nil when the pod fits on the node.
	Refusal *Refusal `json:"refusal,omitempty"`
	// Devices and Volumes are what our plugins say of the node with every fact,
	// also where another plugin refused it first. Nil means that they accept it,
	// or have nothing to do with the pod.
	Devices *reason.Rejection `json:"devices,omitempty"`
	Volumes *reason.Rejection `json:"volumes,omitempty"`
	// NeverFits: the node's devices would not do even if nobody held one.
	NeverFits bool `json:"neverFits,omitempty"`
}

// MarshalJSON tells a rejection once, as that of the devices or volumes.
func (n Node) MarshalJSON() ([]byte, error) {
	if r := n.Refusal; r != nil && r.Rejection != nil && (r.Rejection == n.Devices || r.Rejection == n.Volumes) {
		once := *r
		once.Rejection = nil
		n.Refusal = &once
	}
	type plain Node
	return json.Marshal(plain(n))
}

// Refusal is one "no" of one plugin.
type Refusal struct {
	// Plugin that refused, empty when the framework does not tell.
	Plugin string `json:"plugin,omitempty"`
	// Message is the status line that the plugin gave.
	Message string `json:"message"`
	// Rejection is set when one of our plugins refused. In JSON it is left out where
	// it is that of the node's devices or volumes.
	Rejection *reason.Rejection `json:"rejection,omitempty"`
	// Failed means that the plugin could not answer: an error, not a "no".
	Failed bool `json:"failed,omitempty"`
}

// Pod runs PreEnqueue, PreFilter and, on every node, Filter for one pod of the
// snapshot that is not scheduled yet. Nothing is reserved.
func (s *Scheduler) Pod(ctx context.Context, pod *v1.Pod) (*Result, error) {
	result, err := s.cycle(ctx, pod)
	if err != nil {
		return nil, err
	}
	if plugin, ok := s.explains[deviceclaims.Name].(*deviceclaims.Plugin); ok {
		if claim, mappings := plugin.ExtendedClaim(pod); claim != nil {
			result.Extended = &Extended{Claim: claim, Mappings: mappings}
		}
	}
	return result, nil
}

func (s *Scheduler) cycle(ctx context.Context, pod *v1.Pod) (*Result, error) {
	for _, plugin := range s.profile.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, pod); !status.IsSuccess() {
			return &Result{Gate: refusal(status.WithPlugin(plugin.Name()))}, nil
		}
	}

	nodes, err := s.profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("listing the nodes of the snapshot: %w", err)
	}
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b fwk.NodeInfo) int {
		return cmp.Compare(a.Node().Name, b.Node().Name)
	})

	state := framework.NewCycleState()
	chosen, status, narrowing := s.profile.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		return &Result{Whole: refusal(status)}, nil
	}

	result := &Result{Nodes: make([]Node, len(nodes))}
	statuses := make([]*fwk.Status, len(nodes))
	s.profile.Parallelizer().Until(ctx, len(nodes), func(i int) {
		node := nodes[i]
		answer := Node{Name: node.Node().Name}
		statuses[i] = s.profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
		if !statuses[i].IsSuccess() {
			answer.Refusal = refusal(statuses[i])
		} else if !chosen.AllNodes() && !chosen.NodeNames.Has(answer.Name) {
			answer.Refusal = narrowed(narrowing)
		}
		answer.Devices = s.explain(ctx, deviceclaims.Name, state, node)
		answer.Volumes = s.explain(ctx, volumeclaims.Name, state, node)
		if answer.Devices != nil {
			answer.NeverFits = s.neverFits(ctx, state, node)
		}
		if answer.Refusal != nil {
			answer.Refusal.fill(answer)
		}
		result.Nodes[i] = answer
	}, "Explain")
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(result.Nodes, func(n Node) bool { return n.Refusal == nil }) {
		return result, nil
	}
	var evictable []fwk.NodeInfo
	var nominated *fwk.Status
	for i, node := range nodes {
		if statuses[i].Code() == fwk.Unschedulable {
			evictable = append(evictable, node)
		}
		if node.Node().Name == pod.Status.NominatedNodeName {
			nominated = statuses[i]
		}
	}
	result.Preemption, err = s.preemption(ctx, state, pod, nominated, evictable)
	return result, err
}

func (s *Scheduler) explain(ctx context.Context, plugin string, state fwk.CycleState, node fwk.NodeInfo) *reason.Rejection {
	known, ok := s.explains[plugin]
	if !ok || state.GetSkipFilterPlugins().Has(plugin) {
		return nil
	}
	return known.Explain(ctx, state, node)
}

// neverFits says whether the devices of the node would not do even if nobody held
// one. A search that ends before it knows says no.
func (s *Scheduler) neverFits(ctx context.Context, state fwk.CycleState, node fwk.NodeInfo) bool {
	plugin, ok := s.explains[deviceclaims.Name].(*deviceclaims.Plugin)
	if !ok {
		return false
	}
	left := plugin.ExplainEmptied(ctx, state, node)
	return left != nil && left.Kind() == reason.DoesNotFit
}

func refusal(status *fwk.Status) *Refusal {
	r := &Refusal{Plugin: status.Plugin(), Message: status.Message(), Failed: !status.IsRejected()}
	errors.As(status.AsError(), &r.Rejection)
	return r
}

// narrowed is the refusal of a node that Filter would take but that PreFilter
// plugins did not choose.
func narrowed(plugins sets.Set[string]) *Refusal {
	return &Refusal{Message: "node(s) not chosen by plugin(s) " + strings.Join(sets.List(plugins), ", ")}
}

// fill replaces the rejection of a fast path by the same one with every fact.
func (r *Refusal) fill(n Node) {
	switch r.Plugin {
	case deviceclaims.Name:
		r.Rejection = cmp.Or(n.Devices, r.Rejection)
	case volumeclaims.Name:
		r.Rejection = cmp.Or(n.Volumes, r.Rejection)
	}
}
