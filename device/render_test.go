// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/reason"
)

// solve prints for each node the plan, or the one-line status.
func (s *scenario) solve(t *testing.T) string {
	var text strings.Builder
	problem, refused := device.Compile(s.claims, s.class, s.options)
	if refused != nil {
		return fmt.Sprintln("no node:", refused)
	}
	view := s.view()
	for _, node := range s.nodes {
		nodeView := view.Node(node)
		plan, refused := problem.Solve(nodeView)
		if refused != nil {
			fmt.Fprintf(&text, "%s: %s (%s)\n", node.Name, refused, refused.Kind())
			continue
		}
		if err := device.Verify(problem, nodeView, plan); err != nil {
			t.Errorf("the plan for node %s breaks a rule: %v", node.Name, err)
		}
		fmt.Fprintf(&text, "%s: fits\n", node.Name)
		results := plan.Results(shareIDs())
		for i, claim := range problem.Open() {
			writeResult(&text, claim, &results[i])
		}
		for _, w := range plan.Warnings() {
			fmt.Fprintf(&text, "  warning: %s: %s: %s\n", w.Device, w.Expression, w.Error)
		}
	}
	return text.String()
}

func writeResult(text *strings.Builder, claim *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) {
	for i := 0; i < len(result.Devices.Results); {
		request, pool := result.Devices.Results[i].Request, ""
		fmt.Fprintf(text, "  %s %s:", claim.Name, request)
		for ; i < len(result.Devices.Results) && result.Devices.Results[i].Request == request; i++ {
			r := &result.Devices.Results[i]
			if in := r.Driver + "/" + r.Pool; in != pool {
				pool = in
				fmt.Fprintf(text, " %s:", pool)
			}
			fmt.Fprintf(text, " %s%s", r.Device, particulars(r))
		}
		fmt.Fprintln(text)
	}
	for _, config := range result.Devices.Config {
		scope := "all requests"
		if len(config.Requests) > 0 {
			scope = strings.Join(config.Requests, ", ")
		}
		fmt.Fprintf(text, "  %s config from %s, %s: %s %s\n", claim.Name, config.Source, scope, config.Opaque.Driver, config.Opaque.Parameters.Raw)
	}
	fmt.Fprintf(text, "  %s nodes: %s\n", claim.Name, nodesOf(result.NodeSelector))
}

// particulars is all that a result says but which device it is.
func particulars(r *resourceapi.DeviceRequestAllocationResult) string {
	var parts []string
	if ptr.Deref(r.AdminAccess, false) {
		parts = append(parts, "admin access")
	}
	if r.ShareID != nil {
		parts = append(parts, string(*r.ShareID))
	}
	for _, name := range slices.Sorted(maps.Keys(r.ConsumedCapacity)) {
		amount := r.ConsumedCapacity[name]
		parts = append(parts, fmt.Sprintf("%s of %s", amount.String(), name))
	}
	for _, toleration := range r.Tolerations {
		parts = append(parts, "tolerates "+toleration.Key)
	}
	for _, condition := range r.BindingConditions {
		parts = append(parts, "waits for "+condition)
	}
	for _, condition := range r.BindingFailureConditions {
		parts = append(parts, "fails on "+condition)
	}
	for _, operation := range r.SkipNodeOperations {
		parts = append(parts, "skips "+string(operation))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func nodesOf(selector *v1.NodeSelector) string {
	if selector == nil {
		return "all"
	}
	var parts []string
	for _, term := range selector.NodeSelectorTerms {
		for _, r := range append(term.MatchFields, term.MatchExpressions...) {
			parts = append(parts, fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, "|")))
		}
	}
	return strings.Join(parts, ", ")
}

// explain prints for each node why not, as users see it.
func (s *scenario) explain(t *testing.T) string {
	var text strings.Builder
	write := func(r *reason.Rejection) {
		if err := reason.Write(&text, r); err != nil {
			t.Fatal(err)
		}
	}
	problem, refused := device.Compile(s.claims, s.class, s.options)
	if refused != nil {
		write(refused)
		return text.String()
	}
	view := s.view()
	for _, node := range s.nodes {
		if refused := problem.Explain(view.Node(node)); refused != nil {
			write(refused)
		} else {
			fmt.Fprintf(&text, "%s: fits\n", node.Name)
		}
	}
	return text.String()
}
