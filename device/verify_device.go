// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"
)

// newest returns the slices of the newest generation, or why they cannot be used.
func newest(published []*resourceapi.ResourceSlice, f Features) ([]*resourceapi.ResourceSlice, error) {
	var current []*resourceapi.ResourceSlice
	for _, s := range published {
		switch {
		case len(current) == 0 || s.Spec.Pool.Generation > current[0].Spec.Pool.Generation:
			current = []*resourceapi.ResourceSlice{s}
		case s.Spec.Pool.Generation == current[0].Spec.Pool.Generation:
			current = append(current, s)
		}
	}
	names, sets := map[string]bool{}, map[string]map[string]resourceapi.Counter{}
	for _, s := range current {
		if s.Spec.Pool.ResourceSliceCount != int64(len(current)) {
			return current, fmt.Errorf("the pool has %d slices and announces %d", len(current), s.Spec.Pool.ResourceSliceCount)
		}
		for _, set := range s.Spec.SharedCounters {
			if sets[set.Name] != nil && f.PartitionableDevices {
				return current, fmt.Errorf("the pool has two counter sets %s", set.Name)
			}
			sets[set.Name] = set.Counters
		}
		for _, d := range s.Spec.Devices {
			if names[d.Name] {
				return current, fmt.Errorf("the pool has two devices %s", d.Name)
			}
			names[d.Name] = true
		}
	}
	for _, s := range current {
		for _, d := range s.Spec.Devices {
			for _, part := range d.ConsumesCounters {
				for name := range part.Counters {
					if _, ok := sets[part.CounterSet][name]; !ok && f.PartitionableDevices {
						return current, fmt.Errorf("device %s consumes counter %s/%s, which there is not", d.Name, part.CounterSet, name)
					}
				}
			}
		}
	}
	return current, nil
}

// find finds the device among those that the node can reach.
func (v *verifier) find(u *use) error {
	for _, view := range v.node.Pools {
		if view.Pool.id != (PoolID{Driver: u.result.Driver, Pool: u.result.Pool}) {
			continue
		}
		current, err := newest(view.Pool.raw, v.problem.options.Features)
		if err != nil {
			return err
		}
		for _, s := range current {
			for i := range s.Spec.Devices {
				if d := &s.Spec.Devices[i]; d.Name == u.result.Device {
					u.pool, u.slice, u.device = view, s, d
					return reaches(s, d, v.node.Node)
				}
			}
		}
	}
	return errors.New("the node has no such device")
}

// concerns says whether a slice is for the node, or a device of it is where each
// device selects its own nodes.
func concerns(s *resourceapi.ResourceSlice, node *v1.Node) bool {
	if !ptr.Deref(s.Spec.PerDeviceNodeSelection, false) {
		return reaches(s, &resourceapi.Device{}, node) == nil
	}
	return slices.ContainsFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return reaches(s, &d, node) == nil })
}

func reaches(s *resourceapi.ResourceSlice, d *resourceapi.Device, node *v1.Node) error {
	name, all, selector := ptr.Deref(s.Spec.NodeName, ""), ptr.Deref(s.Spec.AllNodes, false), s.Spec.NodeSelector
	if ptr.Deref(s.Spec.PerDeviceNodeSelection, false) {
		name, all, selector = ptr.Deref(d.NodeName, ""), ptr.Deref(d.AllNodes, false), d.NodeSelector
	}
	switch {
	case name == node.Name, name == "" && all:
		return nil
	case name == "" && selector != nil:
		parsed, err := nodeaffinity.NewNodeSelector(selector)
		if err != nil {
			return err
		}
		if parsed.Match(node) {
			return nil
		}
	}
	return errors.New("the node cannot reach it")
}

// allowed checks the device against features, holders, taints, capacity and
// selectors, and that the result says of it what it should.
func (v *verifier) allowed(u *use) error {
	if err := v.enabled(u); err != nil {
		return err
	}
	if ptr.Deref(u.result.AdminAccess, false) != u.asked.admin {
		return errors.New("admin access is not as the request has it")
	}
	if u.shared() != (u.result.ShareID != nil) {
		return errors.New("has a share ID and is not shared, or the other way round")
	}
	if !slices.Equal(u.result.BindingConditions, u.device.BindingConditions) ||
		!slices.Equal(u.result.BindingFailureConditions, u.device.BindingFailureConditions) {
		return errors.New("its binding conditions are not in the result")
	}
	if !u.asked.admin {
		if h := holding(u.pool, u.device.Name); h.whole || h.shares && !u.shared() {
			return errors.New("is in use")
		}
	}
	if v.problem.options.Features.DeviceTaints {
		for _, taint := range u.device.Taints {
			if !tolerates(u.asked.tolerations, taint) {
				return fmt.Errorf("its taint %s is not tolerated", taint)
			}
		}
	}
	matches, err := v.selected(&u.asked, u.result.Driver, u.device)
	if err == nil && !matches {
		err = errors.New("a selector does not accept it")
	}
	if err != nil || !v.problem.options.Features.ConsumableCapacity {
		return err
	}
	return v.capacity(u)
}

// enabled checks that nothing that the device takes is switched off.
func (v *verifier) enabled(u *use) error {
	f := v.problem.options.Features
	grouped := false
	for _, s := range u.pool.Pool.raw {
		if s.Spec.Pool.Generation != u.slice.Spec.Pool.Generation {
			continue
		}
		for _, d := range s.Spec.Devices {
			for _, part := range d.ConsumesCounters {
				grouped = grouped || len(part.CompatibilityGroups) > 0
			}
		}
	}
	skips := len(u.slice.Spec.SkipNodeOperations) > 0
	switch {
	case len(u.device.ConsumesCounters) > 0 && !f.PartitionableDevices,
		ptr.Deref(u.slice.Spec.PerDeviceNodeSelection, false) && !f.PartitionableDevices,
		u.shared() && !f.ConsumableCapacity,
		len(u.device.BindingConditions) > 0 && !f.DeviceBindingConditions,
		len(u.device.NodeAllocatableResources) > 0 && !f.NodeAllocatableResources,
		grouped && !f.DeviceCompatibilityGroups,
		skips && !f.OptionalNodeOperations,
		skips && !slices.Contains(v.node.Node.Status.DeclaredFeatures, "DRAOptionalNodeOperations"):
		return errors.New("needs what is switched off")
	}
	return nil
}

func tolerates(tolerations []resourceapi.DeviceToleration, taint resourceapi.DeviceTaint) bool {
	if taint.Effect != resourceapi.DeviceTaintEffectNoExecute && taint.Effect != resourceapi.DeviceTaintEffectNoSchedule {
		return true
	}
	for _, t := range tolerations {
		effect := t.Effect == "" || t.Effect == taint.Effect
		key := t.Key == "" || t.Key == taint.Key
		value := t.Operator == resourceapi.DeviceTolerationOpExists || t.Value == taint.Value
		if effect && key && value {
			return true
		}
	}
	return false
}

func (v *verifier) selected(a *asked, driver string, d *resourceapi.Device) (bool, error) {
	var class *resourceapi.DeviceClass
	for i := range v.problem.requests {
		for _, c := range v.problem.requests[i].choices {
			if c.class.Name == a.class {
				class = c.class
			}
		}
	}
	if class == nil {
		return false, fmt.Errorf("class %s is unknown", a.class)
	}
	for _, selector := range slices.Concat(class.Spec.Selectors, a.selectors) {
		compiled := v.expression(selector.CEL.Expression, cel.Options{DisableCostEstimation: true})
		if compiled.Error != nil {
			return false, compiled.Error
		}
		matches, _, err := compiled.DeviceMatches(context.Background(), inputOf(driver, d))
		if err != nil || !matches {
			return false, err
		}
	}
	return true, nil
}

func inputOf(driver string, d *resourceapi.Device) cel.Device {
	return cel.Device{Driver: driver, Attributes: d.Attributes, Capacity: d.Capacity, AllowMultipleAllocations: d.AllowMultipleAllocations}
}

func (v *verifier) expression(text string, o cel.Options) cel.CompilationResult {
	key := fmt.Sprint(o.DerivedAttribute, text)
	compiled, ok := v.selectors[key]
	if !ok {
		f := v.problem.options.Features
		compiled = cel.GetCompiler(cel.Features{EnableConsumableCapacity: f.ConsumableCapacity, EnableListTypeAttributes: f.ListTypeAttributes}).
			CompileCELExpression(text, o)
		v.selectors[key] = compiled
	}
	return compiled
}
