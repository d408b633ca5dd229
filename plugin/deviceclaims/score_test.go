// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
)

// order returns the nodes by their normalized scores, the best first.
func (c *cluster) order(a *attempt, nodes ...string) []string {
	c.t.Helper()
	var scores fwk.NodeScoreList
	for _, name := range nodes {
		node := nodeInfo{node: makeNode(name)}
		if status := c.plugin.Filter(c.ctx, a.state, a.pod, node); !status.IsSuccess() {
			c.t.Fatalf("node %s: %v", name, status)
		}
		score, status := c.plugin.Score(c.ctx, a.state, a.pod, node)
		if !status.IsSuccess() {
			c.t.Fatal(status)
		}
		scores = append(scores, fwk.NodeScore{Name: name, Score: score})
	}
	if status := c.plugin.ScoreExtensions().NormalizeScore(c.ctx, a.state, a.pod, scores); !status.IsSuccess() {
		c.t.Fatal(status)
	}
	slices.SortStableFunc(scores, func(a, b fwk.NodeScore) int { return cmp.Compare(b.Score, a.Score) })
	var names []string
	for _, score := range scores {
		if score.Score < fwk.MinScore || score.Score > fwk.MaxScore {
			c.t.Errorf("node %s has score %d", score.Name, score.Score)
		}
		names = append(names, score.Name)
	}
	return names
}

// Whole nodes stay whole: the fuller node is better.
func TestScorePrefersTheFullerNode(t *testing.T) {
	c := newCluster(t, makeClass(), makeClaim("a"),
		makeSlice("n1", "gpu-0", "gpu-1", "gpu-2", "gpu-3"), makeSlice("n2", "gpu-0", "gpu-1", "gpu-2", "gpu-3"), makeSlice("n3", "gpu-0", "gpu-1", "gpu-2", "gpu-3"),
		allocated(makeClaim("x"), "n2", "gpu-0", makePod("x")), allocated(makeClaim("y"), "n2", "gpu-1", makePod("y")),
		allocated(makeClaim("z"), "n3", "gpu-3", makePod("z")))
	a, _ := c.begin(makePod("pod", "a"), "n1")
	if got, want := c.order(a, "n1", "n2", "n3"), []string{"n2", "n3", "n1"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}

func TestNothingToAllocateIsNotScored(t *testing.T) {
	c := newCluster(t, makeClass(), makeSlice("n1", "gpu-0"), makeClaim("free"), allocated(makeClaim("taken"), "n1", "gpu-0"))
	for claims, want := range map[string]bool{"": true, "taken": true, "free": false} {
		pod := makePod("pod")
		if claims != "" {
			pod = makePod("pod", claims)
		}
		a, _ := c.begin(pod, "n1")
		if status := c.plugin.PreScore(c.ctx, a.state, pod, allNodes()); status.IsSkip() != want {
			t.Errorf("claims %q: PreScore says %v, want skip %v", claims, status.Code(), want)
		}
	}
}

// The order of the three parts of a score, whatever the size of the lesser ones.
func TestNormalizeScoreKeepsTheOrderOfRanks(t *testing.T) {
	raw := func(fresh, rank, fullness int64) int64 { return (fresh*rankRange+rank)*fullnessRange + fullness }
	for name, scores := range map[string][]int64{
		"rank before fullness":  {raw(1, 8, 0), raw(1, 7, 99)},
		"fresh before rank":     {raw(1, 1, 0), raw(0, 8, 99)},
		"fresh without ranks":   {raw(1, 0, 0), raw(0, 0, 99)},
		"fullness alone":        {raw(1, 0, 80), raw(1, 0, 20), raw(1, 0, 0)},
		"all are a last resort": {raw(0, 0, 80), raw(0, 0, 20)},
	} {
		t.Run(name, func(t *testing.T) {
			var list fwk.NodeScoreList
			for i, score := range scores {
				list = append(list, fwk.NodeScore{Name: fmt.Sprint(i), Score: score})
			}
			if status := (&Plugin{}).NormalizeScore(t.Context(), nil, nil, list); !status.IsSuccess() {
				t.Fatal(status)
			}
			for i := range list {
				if list[i].Score < 0 || list[i].Score > fwk.MaxScore || i > 0 && list[i-1].Score <= list[i].Score {
					t.Errorf("raw scores %v became %v", scores, list)
				}
			}
		})
	}
}
