// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// TestVerifyNamesTheBrokenRule: a good plan is accepted, and every way of
// spoiling it is refused for the right reason.
func TestVerifyNamesTheBrokenRule(t *testing.T) {
	const cluster = `
node n1 zone=a
node n2 zone=b
class local provisioner=kubernetes.io/no-provisioner wait
class lvm provisioner=lvm wait allowed=zone=a
driver lvm reports
capacity c1 class=lvm size=10Gi at=zone=a
capacity c2 class=lvm size=90Gi at=zone=b
pv v1 class=local size=5Gi at=zone=a
pv v2 class=local size=5Gi
pv far class=local size=5Gi at=zone=b
pv small class=local size=1Gi
pv held class=local size=5Gi claim=somebody
pv released class=local size=5Gi phase=Released
pv block class=local size=5Gi mode=Block
pv readers class=local size=5Gi access=ROX
pv gold class=local size=5Gi attributes=gold
pv leaving class=local size=5Gi deleting
pv other class=lvm size=1Gi
pv fields class=local size=5Gi field=n1
pv old class=local size=5Gi at=zone=a claim=old:old phase=Bound
pvc a class=local size=5Gi
pvc b class=local size=5Gi
pvc old class=local size=5Gi bound=old
pvc c class=lvm size=6Gi
pvc d class=lvm size=4Gi
pod p claims=a,b,c,d,old`
	var s scenario
	if err := s.add(cluster); err != nil {
		t.Fatal(err)
	}
	facts := NewFacts(s.objects...)
	p, r := Compile(s.pods["p"], facts, Options{})
	if r != nil {
		t.Fatal(r)
	}
	good, r := p.Solve(s.nodes[0])
	if r != nil {
		t.Fatal(r)
	}
	onVolume := func(name string) func(*Plan) {
		return func(plan *Plan) { plan.bindings[0].Volume = facts.Volume(name).PV() }
	}
	for _, c := range []struct {
		name  string
		spoil func(*Plan)
		rule  string
	}{
		{"nothing", func(*Plan) {}, ""},
		{"other fitting volumes", func(p *Plan) {
			p.bindings[0].Volume, p.bindings[1].Volume = p.bindings[1].Volume, p.bindings[0].Volume
		}, ""},
		{"a claim left out", func(p *Plan) { p.bindings = p.bindings[1:] }, "claim ml/a is 0 times in the plan"},
		{"a claim twice", func(p *Plan) { p.provisions = append(p.provisions, p.provisions[0]) }, "claim ml/c is 2 times in the plan"},
		{"a bound claim", func(p *Plan) { p.bindings[0].Claim = facts.Claim(namespace, "old") }, "claim ml/old has a volume and is in the plan"},
		{"an older claim of the same name", func(p *Plan) {
			p.bindings[0].Claim = p.bindings[0].Claim.DeepCopy()
		}, "claim ml/a is not the claim of the pod"},
		{"a volume twice", func(p *Plan) { p.bindings[0].Volume = p.bindings[1].Volume }, "volume v2 is given to two claims"},
		{"an older volume of the same name", func(p *Plan) {
			p.bindings[0].Volume = p.bindings[0].Volume.DeepCopy()
		}, "not the volume of that name"},
		{"a volume out of reach", onVolume("far"), "volume far cannot be reached from node n1"},
		{"a volume tied to fields", onVolume("fields"), "volume fields is tied to fields of nodes"},
		{"a small volume", onVolume("small"), "too small"},
		{"a volume kept for another claim", onVolume("held"), "kept for another claim"},
		{"a released volume", onVolume("released"), "in phase Released"},
		{"a block volume", onVolume("block"), "of another volume mode"},
		{"a read-only volume", onVolume("readers"), "without an access mode"},
		{"other attributes", onVolume("gold"), "of another VolumeAttributesClass"},
		{"a volume being deleted", onVolume("leaving"), "being deleted"},
		{"a volume of another class", onVolume("other"), "of another class"},
		{"provisioned where the class does not", func(p *Plan) {
			p.provisions[0].Claim = p.bindings[0].Claim
		}, "class local does not provision"},
		{"provisioned for another node", func(p *Plan) { p.provisions[0].Node = "n2" }, "for node n2 instead of n1"},
		{"drawn from nothing", func(p *Plan) { p.provisions[0].Capacity = nil }, "draws from no capacity"},
		{"drawn from elsewhere", func(p *Plan) {
			p.provisions[0].Capacity = facts.Capacities("lvm")[1].Object()
		}, "draws from capacity c2, which is not of the class and node"},
		{"overdrawn", func(p *Plan) {
			small := p.provisions[0].Capacity.DeepCopy()
			small.Capacity = ptr.To(resource.MustParse("9Gi"))
			p.provisions[0].Capacity, p.provisions[1].Capacity = small, small
		}, "overdraws capacity c1"},
		{"larger than the maximum", func(p *Plan) {
			p.provisions[0].Capacity = p.provisions[0].Capacity.DeepCopy()
			p.provisions[0].Capacity.MaximumVolumeSize = ptr.To(resource.MustParse("5Gi"))
		}, "larger than the maximum of capacity c1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := Plan{bindings: slices.Clone(good.bindings), provisions: slices.Clone(good.provisions)}
			c.spoil(&plan)
			err := Verify(p, s.nodes[0], plan)
			if c.rule == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if c.rule != "" && (err == nil || !strings.Contains(err.Error(), c.rule)) {
				t.Errorf("got %v, want %q", err, c.rule)
			}
		})
	}
	elsewhere := Verify(p, s.nodes[1], good)
	for _, rule := range []string{
		"volume old cannot be reached from node n2", "volume v1 cannot be reached from node n2",
		"class lvm does not provision for the labels of node n2",
	} {
		if elsewhere == nil || !strings.Contains(elsewhere.Error(), rule) {
			t.Errorf("on node n2: got %v, want %q", elsewhere, rule)
		}
	}
}
