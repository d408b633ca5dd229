// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/device"
)

// A raw score is three numbers in one, the more important to the left:
//
//	fresh    1 unless the plan takes devices on which the pod has failed lately
//	rank     the alternatives of prioritized lists, each 8 points for the first and
//	         one less for each later one, as the in-tree plugin has it
//	fullness 0 to 99: the share of the devices in the plan's pools that will be in
//	         use, so that whole nodes stay whole
//
// Each is compared only where those before it are equal; see NormalizeScore for
// what becomes of them in the sum with other plugins.
const (
	fullnessRange = 100
	// rankRange is more than all requests of a pod can have: 8 points for each.
	rankRange = 1 << 20
)

// PreScore skips pods that have nothing to allocate: they score alike everywhere.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	c, err := readCycle(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if c == nil || !c.allocates() {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score returns the raw score of the plan for the node.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	c, err := readCycle(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if c == nil {
		return 0, nil
	}
	c.mutex.Lock()
	chosen, ok := c.choices[node.Node().Name]
	c.mutex.Unlock()
	if !ok {
		return 0, nil
	}
	var score int64
	if !chosen.lastResort {
		score += rankRange * fullnessRange
	}
	score += int64(chosen.plan.Rank()) * fullnessRange
	return score + p.fullness(chosen.plan), nil
}

// fullness is 0 for every node under the strategy InOrder, which knows no packing.
func (p *Plugin) fullness(plan device.Plan) int64 {
	if p.options.Strategy == device.InOrder {
		return 0
	}
	inUse, all := plan.Fullness()
	if all == 0 {
		return 0
	}
	return int64(inUse * (fullnessRange - 1) / all)
}

// ScoreExtensions returns the plugin, which normalizes.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore brings raw scores to 0..100, which the weight of the plugin (2 by
// default, like the in-tree plugin's) makes count in the sum of all plugins. Where
// some nodes are fresh and others are not, the fresh ones have the upper half. In
// it, a node's score is in proportion to the best one, as the in-tree plugin has it:
// ranks make the steps, fullness what is between two of them, and without
// prioritized lists fullness is all there is.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	const fresh = rankRange * fullnessRange
	someFresh, someNot := false, false
	var best int64
	for i := range scores {
		if scores[i].Score >= fresh {
			someFresh = true
		} else {
			someNot = true
		}
		best = max(best, scores[i].Score%fresh)
	}
	// Where both are, each kind has its half of the range.
	var from, width int64 = 0, fwk.MaxScore
	if someFresh && someNot {
		from, width = fwk.MaxScore/2+1, fwk.MaxScore/2-1
	}
	for i := range scores {
		score := int64(0)
		if best > 0 {
			score = scores[i].Score % fresh * width / best
		}
		if scores[i].Score >= fresh {
			score += from
		}
		scores[i].Score = score
	}
	return nil
}
