// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/reason"
)

// Requests that are one device short are refused at once, and those that just
// fit are placed at once: within a budget that is a small part of the default,
// where trying every order of the devices would take for ever.
func TestBarelyImpossibleIsAnsweredAtOnce(t *testing.T) {
	const budget = device.DefaultBudget / 100
	one := func(count int64, match ...resourceapi.FullyQualifiedName) func(*world) {
		return func(w *world) { w.claim(resourceapi.ExactDeviceRequest{Count: count}, match...) }
	}
	several := func(claims, requests int, count int64, match ...resourceapi.FullyQualifiedName) func(*world) {
		return func(w *world) {
			for c := range claims {
				claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("claim-%d", c)}}
				for r := range requests {
					claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{
						Name: fmt.Sprintf("r%d", r), Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: count},
					})
				}
				if len(match) > 0 {
					attribute := match[c%len(match)]
					claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &attribute}}
				}
				w.claims = append(w.claims, claim)
			}
		}
	}
	for _, c := range []struct {
		name                 string
		impossible, possible [][2]int
		claims               func(*world)
		code                 reason.Code
	}{
		{"count 24", grid(23, 1), grid(24, 1), one(24), reason.NotEnoughDevices},
		{"count 32", grid(31, 1), grid(32, 1), one(32), reason.NotEnoughDevices},
		{"12 requests", grid(11, 1), grid(12, 1), several(1, 12, 1), reason.DevicesShared},
		{"count 4, one root", grid(8, 3), append(grid(8, 3), [2]int{7, 3}), one(4, "gpu.test/root"), reason.ConstraintUnmet},
		{"count 8, one root", grid(16, 7), append(grid(16, 7), [2]int{15, 7}), one(8, "gpu.test/root"), reason.ConstraintUnmet},
		{
			"two claims of 4 requests, a row and a column", grid(4, 4), append(grid(4, 4), [2]int{3, 3}),
			several(2, 4, 1, "gpu.test/root", "gpu.test/numa"), reason.ConstraintUnmet,
		},
		{
			"12 claims, each on a root of its own", append(grid(11, 4), [2]int{11, 0}, [2]int{11, 1}, [2]int{11, 2}, [2]int{12, 0}), grid(12, 4),
			several(12, 1, 4, "gpu.test/root"), reason.ConstraintUnmet,
		},
	} {
		for _, twin := range []struct {
			name    string
			devices [][2]int
			code    reason.Code
		}{{"impossible", c.impossible, c.code}, {"possible", c.possible, ""}} {
			t.Run(c.name+"/"+twin.name, func(t *testing.T) {
				w := rootsAndNuma(twin.devices)
				c.claims(w)
				problem := w.compile(t, device.Options{Budget: budget})
				node := w.view().Node(w.node)
				plan, refused := problem.Solve(node)
				if refused != nil {
					if refused.Code != twin.code {
						t.Fatalf("refused with %s, want %q", refused.Code, twin.code)
					}
					return
				}
				if twin.code != "" {
					t.Fatalf("placed, want %s", twin.code)
				}
				if err := device.Verify(problem, node, plan); err != nil {
					t.Fatal(err)
				}
				if plan.Steps() > budget {
					t.Fatalf("took %d steps", plan.Steps())
				}
			})
		}
	}
}

// The same for values that have to differ, for alternatives, and for partitions.
func TestBarelyImpossibleMixesAreAnsweredAtOnce(t *testing.T) {
	exactly := func(name string, count int64, of ...string) resourceapi.DeviceRequest {
		r := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: count}
		for _, p := range of {
			r.Selectors = profile(p)
		}
		return resourceapi.DeviceRequest{Name: name, Exactly: r}
	}
	alternatives := func(name string, counts ...int64) resourceapi.DeviceRequest {
		r := resourceapi.DeviceRequest{Name: name}
		for i, count := range counts {
			r.FirstAvailable = append(r.FirstAvailable, resourceapi.DeviceSubRequest{Name: fmt.Sprint("n", i), DeviceClassName: "gpu", Count: count})
		}
		return r
	}
	distinct := resourceapi.DeviceConstraint{DistinctAttribute: ptr.To[resourceapi.FullyQualifiedName]("gpu.test/root")}
	for _, c := range []struct {
		name        string
		world       *world
		requests    []resourceapi.DeviceRequest
		constraints []resourceapi.DeviceConstraint
		code        reason.Code
	}{
		{"8 of 7 values on 64 devices", rootsAndNuma(grid(7, 10)[:64]), []resourceapi.DeviceRequest{exactly("a", 4), exactly("b", 4)}, []resourceapi.DeviceConstraint{distinct}, reason.ConstraintUnmet},
		{"8 of 8 values on 64 devices", rootsAndNuma(grid(8, 8)), []resourceapi.DeviceRequest{exactly("a", 4), exactly("b", 4)}, []resourceapi.DeviceConstraint{distinct}, ""},
		{"alternatives, none for both", rootsAndNuma(grid(31, 1)), []resourceapi.DeviceRequest{alternatives("a", 24, 20, 16), alternatives("b", 24, 20, 16)}, nil, reason.DevicesShared},
		{"alternatives, the last for both", rootsAndNuma(grid(32, 1)), []resourceapi.DeviceRequest{alternatives("a", 24, 20, 16), alternatives("b", 24, 20, 16)}, nil, ""},
		{"one partition too many", migNode(), []resourceapi.DeviceRequest{exactly("halves", 15, "half"), exactly("smalls", 5, "small")}, nil, reason.CountersShort},
		{"partitions that just fit", migNode(), []resourceapi.DeviceRequest{exactly("halves", 15, "half"), exactly("smalls", 4, "small")}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim"}}
			claim.Spec.Devices = resourceapi.DeviceClaim{Requests: c.requests, Constraints: c.constraints}
			c.world.claims = append(c.world.claims, claim)
			problem := c.world.compile(t, device.Options{Features: everyFeature(), Budget: device.DefaultBudget / 100})
			node := c.world.view().Node(c.world.node)
			plan, refused := problem.Solve(node)
			switch {
			case refused != nil && refused.Code != c.code:
				t.Fatalf("refused with %s, want %q", refused.Code, c.code)
			case refused == nil && c.code != "":
				t.Fatalf("placed, want %s", c.code)
			case refused == nil:
				if err := device.Verify(problem, node, plan); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// grid is so many roots, with so many devices each, of numa 0, 1, and so on.
func grid(roots, each int) [][2]int {
	var devices [][2]int
	for root := range roots {
		for i := range each {
			devices = append(devices, [2]int{root, i})
		}
	}
	return devices
}

func rootsAndNuma(devices [][2]int) *world {
	w := &world{
		node:    &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		classes: map[string]*resourceapi.DeviceClass{"gpu": {ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}},
	}
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.test", NodeName: ptr.To("n1"),
			Pool: resourceapi.ResourcePool{Name: "n1", ResourceSliceCount: 1},
		},
	}
	for i, at := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"root": {StringValue: ptr.To(fmt.Sprint("root-", at[0]))},
				"numa": {IntValue: ptr.To(int64(at[1]))},
			},
		})
	}
	w.slices = append(w.slices, slice)
	return w
}

// What a rejection tells of the values costs a look at each device, not one for each
// pair of a device and a value: of the devices of a network there may be thousands, each
// with a value of its own. This takes no time, and minutes if it is done in pairs.
func TestManyValuesAreExplained(t *testing.T) {
	w := gpuNode()
	spec := &w.slices[0].Spec
	spec.Devices = nil
	for i := range 1 << 16 {
		spec.Devices = append(spec.Devices, resourceapi.Device{
			Name:       fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"serial": {IntValue: ptr.To(int64(i))}},
		})
	}
	w.claim(resourceapi.ExactDeviceRequest{Count: 2}, "gpu.test/serial")
	r := w.compile(t, device.Options{}).Explain(w.view().Node(w.node))
	if r == nil || r.Code != reason.ConstraintUnmet {
		t.Fatalf("%v, want %s", r, reason.ConstraintUnmet)
	}
	if most, had := r.Facts.Devices.Most, r.Facts.Had.Value(); most != 1 || had != 1 || len(r.Facts.Devices.Groups) != 1<<16 {
		t.Errorf("at most %d with one value, had %d, %d values", most, had, len(r.Facts.Devices.Groups))
	}
}
