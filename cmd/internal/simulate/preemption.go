// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/berth-scheduler/berth/reason"
)

// Preemption is what the eviction of pods of lower priority would do for a pod
// that no node takes.
type Preemption struct {
	// Helps: there is a node that would take the pod without pods of lower priority.
	Helps bool `json:"helps"`
	// Node would take the pod without the victims, if eviction helps.
	Node    string       `json:"node,omitempty"`
	Victims []reason.Ref `json:"victims,omitempty"`
	// ViolatesBudgets is how many of the victims a PodDisruptionBudget would keep.
	ViolatesBudgets int64 `json:"violatesBudgets,omitempty"`
	// NotTried is why the scheduler does not evict anybody for the pod, empty when
	// it does if that helps.
	NotTried string `json:"notTried,omitempty"`
}

// preemptor finds victims with the scheduler's own plugin, and evicts nobody.
func preemptor(ctx context.Context, config schedulerapi.KubeSchedulerProfile, profile framework.Framework) (*defaultpreemption.DefaultPreemption, error) {
	for _, plugin := range config.PluginConfig {
		if plugin.Name == defaultpreemption.Name {
			return defaultpreemption.New(ctx, plugin.Args, profile, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
		}
	}
	return nil, fmt.Errorf("the default profile has no arguments for plugin %s", defaultpreemption.Name)
}

// preemption says what eviction would do on the nodes that refused the pod for want
// of something that other pods can give back. state is that of the pod after
// PreFilter; nominated is the answer of the node that the pod is nominated for.
func (s *Scheduler) preemption(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nominated *fwk.Status, nodes []fwk.NodeInfo) (*Preemption, error) {
	result := &Preemption{}
	if policy := pod.Spec.PreemptionPolicy; policy != nil && *policy == v1.PreemptNever {
		result.NotTried = "the pod has preemptionPolicy Never"
	} else if eligible, why := s.preemptor.PodEligibleToPreemptOthers(ctx, pod, nominated); !eligible {
		result.NotTried = why
	}
	if len(nodes) == 0 {
		return result, nil
	}
	candidates, _, err := s.preemptor.Evaluator.DryRunPreemption(ctx, state, pod, nodes, s.budgets, 0, int32(len(nodes)))
	if err != nil && len(candidates) == 0 {
		return nil, fmt.Errorf("looking for pods to evict: %w", err)
	}
	best := s.preemptor.Evaluator.SelectCandidate(ctx, candidates)
	if best == nil {
		return result, nil
	}
	result.Helps = true
	result.Node, result.ViolatesBudgets = best.Name(), best.Victims().NumPDBViolations
	for _, victim := range best.Victims().Pods {
		result.Victims = append(result.Victims, reason.Ref{Kind: "Pod", Namespace: victim.Namespace, Name: victim.Name})
	}
	return result, nil
}
