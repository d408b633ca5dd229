// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/volume"
)

// PreScore says whether the plans for the nodes differ in anything that Score
// looks at.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	c, err := readCycle(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if c == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	for _, node := range nodes {
		if plan, ok := c.plan(node.Node().Name); ok && (len(plan.StaticUse()) > 0 || len(plan.DynamicUse()) > 0) {
			return nil
		}
	}
	return fwk.NewStatus(fwk.Skip)
}

// Score says how well the plan for the node uses storage, by the shapes in the
// args: the mean over the classes of the claims, apart for volumes that exist and
// volumes that are to be made. A node without any of that gets the lowest score.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	c, err := readCycle(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if c == nil {
		return fwk.MinScore, nil
	}
	plan, _ := c.plan(node.Node().Name)
	return p.scorer.score(plan), nil
}

// ScoreExtensions returns nil: a score has the framework's range already, and
// means the same whatever the other nodes have.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// scorer scores plans by the share of the storage concerned that is used.
type scorer struct {
	static, dynamic shape
}

func (s scorer) score(plan volume.Plan) int64 {
	var sum int64
	var uses int
	add := func(by shape, of []volume.Use) {
		for i := range of {
			sum += by.score(utilization(&of[i]))
		}
		uses += len(of)
	}
	add(s.static, plan.StaticUse())
	add(s.dynamic, plan.DynamicUse())
	if uses == 0 {
		return fwk.MinScore
	}
	return int64(math.Round(float64(sum) / float64(uses)))
}

// utilization in percent. It is not more than all when a driver has made more
// than it reported.
func utilization(use *volume.Use) int64 {
	offered := use.Offered.AsApproximateFloat64()
	if offered <= 0 {
		return maxUtilization
	}
	percent := use.Wanted.AsApproximateFloat64() * maxUtilization / offered
	return int64(min(max(percent, 0), maxUtilization))
}
