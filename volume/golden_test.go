// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/reason"
)

// TestGolden runs the scenarios of testdata. Each starts with the command
// "cluster", the later commands of the file add to it or ask about it:
//
//	cluster            forget everything; the lines below are the cluster
//	add                further objects
//	solve pod=P        the plan or the status on each node (node=N: on one node)
//	explain pod=P      the long form of each rejection
//	narrow pod=P       the only nodes that could do
//	use pod=P          how much of the storage each plan uses, for scoring
//
// The argument capacity=each turns the sum check off. "go test ./volume
// -rewrite" writes the expected output anew.
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s scenario
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				s = scenario{}
				if err := s.add(d.Input); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return ""
			case "add":
				if err := s.add(d.Input); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return ""
			case "solve", "explain", "narrow", "use":
				return ask(t, d, &s)
			}
			d.Fatalf(t, "no such command: %s", d.Cmd)
			return ""
		})
	})
}

func ask(t *testing.T, d *datadriven.TestData, s *scenario) string {
	t.Helper()
	var podName, nodeName, capacity string
	d.ScanArgs(t, "pod", &podName)
	d.MaybeScanArgs(t, "node", &nodeName)
	var options Options
	if d.MaybeScanArgs(t, "capacity", &capacity); capacity == "each" {
		options.Capacity = CheckEach
	}
	pod := s.pods[podName]
	if pod == nil {
		d.Fatalf(t, "no pod %s", podName)
	}
	facts := NewFacts(s.objects...)
	p, r := Compile(pod, facts, options)
	if r != nil {
		return "every node: " + refusal(d.Cmd, r)
	}
	if p.Empty() {
		return "no claims\n"
	}
	if d.Cmd == "narrow" {
		nodes, narrowed := p.Narrow()
		if !narrowed {
			return "any node\n"
		}
		return strings.Join(nodes, " ") + "\n"
	}
	var out strings.Builder
	for _, node := range s.nodes {
		if nodeName != "" && node.Name != nodeName {
			continue
		}
		fmt.Fprintf(&out, "%s: %s", node.Name, answer(t, d.Cmd, p, node))
	}
	return out.String()
}

// answer asks for one node, and checks that Solve, Explain and Verify agree.
func answer(t *testing.T, command string, p *Problem, node *v1.Node) string {
	t.Helper()
	plan, r := p.Solve(node)
	full := p.Explain(node)
	if !slices.Equal(codes(r), codes(full)) {
		t.Errorf("node %s: Solve refuses with %v, Explain with %v", node.Name, codes(r), codes(full))
	}
	if r != nil {
		return refusal(command, full)
	}
	if err := Verify(p, node, plan); err != nil {
		t.Errorf("node %s: Verify: %v", node.Name, err)
	}
	if command == "use" {
		uses := append(describeUse("static", plan.StaticUse()), describeUse("dynamic", plan.DynamicUse())...)
		return cmp.Or(strings.Join(uses, ", "), "nothing") + "\n"
	}
	lines := strings.Split(strings.TrimSuffix(plan.String(), "\n"), "\n")
	return strings.Join(lines, "\n    ") + "\n"
}

func describeUse(sort string, uses []Use) []string {
	var all []string
	for _, u := range uses {
		all = append(all, fmt.Sprintf("%s %s %s of %s", u.Class, sort, u.Wanted.String(), u.Offered.String()))
	}
	return all
}

func refusal(command string, r *reason.Rejection) string {
	if command != "explain" {
		return "no: " + r.Error() + "\n"
	}
	var out strings.Builder
	if err := reason.Write(&out, r); err != nil {
		return err.Error()
	}
	return "no\n" + out.String()
}

// codes are the claims of a rejection and why each was refused.
func codes(r *reason.Rejection) []string {
	if r == nil {
		return nil
	}
	var all []string
	for _, one := range r.All() {
		all = append(all, fmt.Sprintf("%s %s %s %s", one.Node, one.Claim, one.Volume, one.Code))
	}
	return all
}
