// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/device"
)

// TestScenarios runs the files of testdata. Run it with -rewrite to update what
// they print. The commands:
//
//	features [GATE...]
//	    those that are on, without the prefix DRA; at first, all are
//
//	strategy packed|inorder [ATTRIBUTE...]
//	    packed at first, and the attributes of the topology
//
//	budget STEPS
//	    for one node
//
//	node NAME [LABEL=VALUE...] [declares=FEATURE]
//	    a node; solve and explain go through the nodes in this order
//
//	slice NAME pool=DRIVER/POOL [node=NODE|all|zone=ZONE|perdevice] [generation=1] [of=1] [skips]
//	    a ResourceSlice, one of so many of its pool; a counter set or a device per line:
//	    counters SET NAME=AMOUNT...
//	    DEVICE [ATTRIBUTE=VALUE...] [taint=KEY=VALUE:EFFECT] [node=NODE|zone=ZONE]
//	        [uses=SET/NAME:AMOUNT[@GROUP+GROUP]] [shares] [cap=NAME:AMOUNT[,default:AMOUNT][,values:A+B]
//	        [,range:MIN-MAX/STEP]] [binding=CONDITION] [failing=CONDITION] [binds] [allocatable]
//
//	drop NAME
//	    the ResourceSlice is deleted
//
//	class NAME
//	    a DeviceClass; a selector, or "config DRIVER JSON", per line
//
//	hold NAMESPACE/NAME [POD...]
//	    an allocated claim, reserved for the pods; per line
//	    DRIVER/POOL/DEVICE [admin] [share=ID [CAPACITY=AMOUNT...]]
//
//	release NAMESPACE/NAME
//	    the claim is deleted
//
//	claim NAME [on=NODE]
//	    a claim of the pod, allocated already if it is on a node; per line one of
//	    request NAME: COUNT|all CLASS [admin] [capacity=NAME:AMOUNT]
//	    request NAME: first
//	    or NAME: COUNT|all CLASS [capacity=NAME:AMOUNT]   (an alternative of the request before)
//	    where EXPRESSION                                  (a selector of the one before)
//	    tolerate KEY                                      (a toleration of the one before)
//	    derive ATTRIBUTE EXPRESSION                       (a derived attribute of the one before)
//	    match ATTRIBUTE [REQUEST...]
//	    distinct ATTRIBUTE [REQUEST...]
//	    config DRIVER JSON [REQUEST...]
//
//	pod
//	    forgets the claims: a new pod
//
//	solve, explain
//	    the answer for each node; solve checks plans with Verify
//
//	take NODE
//	    the plan for the node is allocated: its claims hold what they got from now on
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := newScenario()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

// everyFeature is what Kubernetes can do with devices.
func everyFeature() device.Features {
	var f device.Features
	v := reflect.ValueOf(&f).Elem()
	for i := range v.NumField() {
		v.Field(i).SetBool(true)
	}
	return f
}

// scenario is what the commands of one file have built so far.
type scenario struct {
	world
	nodes   []*v1.Node
	options device.Options
}

func newScenario() *scenario {
	return &scenario{
		world:   world{classes: map[string]*resourceapi.DeviceClass{}},
		options: device.Options{Features: everyFeature(), Selectors: device.NewSelectors(100)},
	}
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	lines := strings.FieldsFunc(d.Input, func(r rune) bool { return r == '\n' })
	name := ""
	if len(d.CmdArgs) > 0 {
		name = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "features":
		s.options.Features = device.Features{}
		for _, gate := range d.CmdArgs {
			reflect.ValueOf(&s.options.Features).Elem().FieldByName(gate.Key).SetBool(true)
		}
	case "strategy":
		s.options.Strategy = map[string]device.Strategy{"packed": device.Packed, "inorder": device.InOrder}[name]
		s.options.TopologyAttributes = nil
		for _, attribute := range d.CmdArgs[1:] {
			s.options.TopologyAttributes = append(s.options.TopologyAttributes, resourceapi.FullyQualifiedName(attribute.Key))
		}
	case "budget":
		s.options.Budget = parseInt(t, name)
	case "node":
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		for _, arg := range d.CmdArgs[1:] {
			if arg.Key == "declares" {
				node.Status.DeclaredFeatures = arg.Vals
				continue
			}
			node.Labels[arg.Key] = arg.Vals[0]
		}
		s.nodes = append(s.nodes, node)
	case "slice":
		s.slices = append(s.slices, parseSlice(t, name, d, lines))
	case "drop":
		kept := s.slices[:0:0]
		for _, slice := range s.slices {
			if slice.Name != name {
				kept = append(kept, slice)
			}
		}
		s.slices = kept
	case "class":
		s.classes[name] = parseClass(t, name, lines)
	case "hold":
		s.holding = append(s.holding, parseHolder(name, d, lines))
	case "release":
		kept := s.holding[:0:0]
		for _, claim := range s.holding {
			if claim.Namespace+"/"+claim.Name != name {
				kept = append(kept, claim)
			}
		}
		s.holding = kept
	case "claim":
		s.claims = append(s.claims, parseClaim(t, name, d, lines))
	case "pod":
		s.claims = nil
	case "solve":
		return s.solve(t)
	case "explain":
		return s.explain(t)
	case "take":
		s.take(t, name)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return ""
}

// take allocates the plan for a node.
func (s *scenario) take(t *testing.T, name string) {
	problem, refused := device.Compile(s.claims, s.class, s.options)
	if refused != nil {
		t.Fatal(refused)
	}
	for _, node := range s.nodes {
		if node.Name != name {
			continue
		}
		plan, refused := problem.Solve(s.view().Node(node))
		if refused != nil {
			t.Fatal(refused)
		}
		results := plan.Results(shareIDs())
		for i, claim := range problem.Open() {
			held := claim.DeepCopy()
			held.Status.Allocation = &results[i]
			s.holding = append(s.holding, held)
		}
	}
	s.claims = nil
}
