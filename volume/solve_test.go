// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// locals is a cluster of nodes with four local volumes each, and a pod with the
// given number of claims.
func locals(tb testing.TB, nodes, claims int, size string) (*Problem, []*v1.Node) {
	tb.Helper()
	var text strings.Builder
	text.WriteString("class local provisioner=kubernetes.io/no-provisioner wait\n")
	for i := range nodes {
		fmt.Fprintf(&text, "node n%d\n", i)
		for j := range 4 {
			fmt.Fprintf(&text, "pv pv-%d-%d class=local size=%dGi at=kubernetes.io/hostname=n%d\n", i, j, 10+j, i)
		}
	}
	var names []string
	for i := range claims {
		names = append(names, fmt.Sprintf("c%d", i))
		fmt.Fprintf(&text, "pvc c%d class=local size=%s\n", i, size)
	}
	fmt.Fprintf(&text, "pod p claims=%s\n", strings.Join(names, ","))
	var s scenario
	if err := s.add(text.String()); err != nil {
		tb.Fatal(err)
	}
	p, r := Compile(s.pods["p"], NewFacts(s.objects...), Options{})
	if r != nil {
		tb.Fatal(r)
	}
	return p, s.nodes
}

// TestSolveRefusesCheaply: most nodes refuse most pods, so a refusal makes a few
// small objects however many volumes there are.
func TestSolveRefusesCheaply(t *testing.T) {
	p, nodes := locals(t, 200, 1, "13Gi")
	stranger := nodes[0].DeepCopy()
	stranger.Labels = nil
	objects := testing.AllocsPerRun(100, func() {
		if _, r := p.Solve(stranger); r == nil {
			t.Fatal("a node without labels was accepted")
		}
	})
	if objects > 6 {
		t.Errorf("a refusal makes %v objects", objects)
	}
}

// TestSolveInParallel: one Problem is solved on many nodes at the same time (to
// be run with the race detector).
func TestSolveInParallel(t *testing.T) {
	p, nodes := locals(t, 50, 4, "10Gi")
	var wait sync.WaitGroup
	for _, node := range nodes {
		wait.Go(func() {
			plan, r := p.Solve(node)
			if r != nil {
				t.Errorf("node %s: %v", node.Name, r)
				return
			}
			if err := Verify(p, node, plan); err != nil {
				t.Errorf("node %s: %v", node.Name, err)
			}
		})
	}
	wait.Wait()
}

func BenchmarkSolve(b *testing.B) {
	for _, c := range []struct{ nodes, claims int }{{50, 1}, {50, 4}, {5000, 1}, {5000, 4}} {
		b.Run(fmt.Sprintf("nodes=%d/claims=%d", c.nodes, c.claims), func(b *testing.B) {
			p, nodes := locals(b, c.nodes, c.claims, "10Gi")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, r := p.Solve(nodes[i%len(nodes)]); r != nil {
					b.Fatal(r)
				}
			}
		})
	}
}
