// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"math/big"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// hold is how a device is in use, by the claims where these are known.
type hold struct {
	whole, shares bool
	consumed      map[resourceapi.QualifiedName]resource.Quantity
}

func holding(view PoolView, device string) hold {
	if view.Use == nil || view.Use.holders[device] == nil {
		return hold{}
	}
	known := view.Use.holders[device]
	if len(known.claims) == 0 {
		return hold{whole: known.whole, shares: !known.whole, consumed: known.consumed}
	}
	h := hold{consumed: map[resourceapi.QualifiedName]resource.Quantity{}}
	for _, claim := range known.claims {
		for _, r := range claim.Status.Allocation.Devices.Results {
			switch {
			case r.Driver != view.Pool.id.Driver, r.Pool != view.Pool.id.Pool, r.Device != device, ptr.Deref(r.AdminAccess, false):
			case r.ShareID == nil:
				h.whole = true
			default:
				h.shares = true
				for name, amount := range r.ConsumedCapacity {
					sum := h.consumed[name]
					sum.Add(amount)
					h.consumed[name] = sum
				}
			}
		}
	}
	return h
}

// capacity checks what the request takes of the device's capacity.
func (v *verifier) capacity(u *use) error {
	amounts, ok := takes(u.asked.capacity, u.device, v.problem.options.Features.FractionalCapacityRange)
	if !ok {
		return errors.New("does not give the capacity that is asked for")
	}
	if !u.shared() || u.admin() {
		if len(u.result.ConsumedCapacity) > 0 {
			return errors.New("the result consumes capacity of it")
		}
		return nil
	}
	if len(u.result.ConsumedCapacity) != len(amounts) {
		return fmt.Errorf("the result consumes %d of its capacities, not %d", len(u.result.ConsumedCapacity), len(amounts))
	}
	for name, amount := range amounts {
		has := u.result.ConsumedCapacity[name]
		if rat(has).Cmp(amount) != 0 {
			return fmt.Errorf("the result consumes %s of capacity %s, not %s", has.String(), name, amount)
		}
	}
	return nil
}

// takes works out what a request takes of each capacity of a device, and whether
// the device could give it if nobody used it.
func takes(asked *resourceapi.CapacityRequirements, d *resourceapi.Device, fractional bool) (map[resourceapi.QualifiedName]*big.Rat, bool) {
	if asked != nil {
		for name := range asked.Requests {
			if _, ok := d.Capacity[name]; !ok {
				return nil, false
			}
		}
	}
	all := map[resourceapi.QualifiedName]*big.Rat{}
	for name, c := range d.Capacity {
		var wanted *big.Rat
		if asked != nil {
			if q, ok := asked.Requests[name]; ok {
				wanted = rat(q)
			}
		}
		amount, ok := takesOf(wanted, &c, fractional)
		if !ok || amount.Sign() < 0 || amount.Cmp(rat(c.Value)) > 0 {
			return nil, false
		}
		all[name] = amount
	}
	return all, true
}

func takesOf(wanted *big.Rat, c *resourceapi.DeviceCapacity, fractional bool) (*big.Rat, bool) {
	policy := ptr.Deref(c.RequestPolicy, resourceapi.CapacityRequestPolicy{})
	if wanted == nil {
		if policy.Default == nil {
			wanted = rat(c.Value)
		} else {
			return rat(*policy.Default), true
		}
		if policy.ValidRange == nil && len(policy.ValidValues) == 0 {
			return wanted, true
		}
		return wanted, allows(&policy, wanted, fractional)
	}
	switch r := policy.ValidRange; {
	case r != nil && r.Min != nil && wanted.Cmp(rat(*r.Min)) < 0:
		wanted = rat(*r.Min)
	case r != nil && r.Min != nil && r.Step != nil:
		least, step := rounded(*r.Min, r, fractional), rounded(*r.Step, r, fractional)
		if step.Sign() <= 0 {
			return nil, false
		}
		if !inMilli(r, fractional) {
			wanted = ceil(wanted)
		}
		steps := ceil(new(big.Rat).Quo(new(big.Rat).Sub(wanted, least), step))
		wanted = new(big.Rat).Add(least, steps.Mul(steps, step))
	case len(policy.ValidValues) > 0:
		for _, v := range policy.ValidValues {
			if rat(v).Cmp(wanted) >= 0 {
				wanted = rat(v)
				break
			}
		}
	}
	return wanted, allows(&policy, wanted, fractional)
}

func allows(policy *resourceapi.CapacityRequestPolicy, amount *big.Rat, fractional bool) bool {
	if policy.Default != nil && rat(*policy.Default).Cmp(amount) == 0 {
		return true
	}
	if r := policy.ValidRange; r != nil {
		if r.Max != nil && amount.Cmp(rat(*r.Max)) > 0 {
			return false
		}
		if r.Step == nil {
			return true
		}
		least := new(big.Rat)
		if r.Min != nil {
			least = rounded(*r.Min, r, fractional)
		}
		if !inMilli(r, fractional) {
			amount = ceil(amount)
		}
		step := rounded(*r.Step, r, fractional)
		return step.Sign() > 0 && new(big.Rat).Quo(new(big.Rat).Sub(amount, least), step).IsInt()
	}
	return len(policy.ValidValues) == 0 || slices.ContainsFunc(policy.ValidValues, func(v resource.Quantity) bool { return rat(v).Cmp(amount) == 0 })
}

// inMilli says whether the range is in thousandths, which is the finest there is;
// otherwise it is in whole numbers.
func inMilli(r *resourceapi.CapacityRequestPolicyRange, fractional bool) bool {
	for _, q := range []*resource.Quantity{r.Min, r.Max, r.Step} {
		if q == nil {
			continue
		}
		thousandths := new(big.Rat).Mul(rat(*q), big.NewRat(1000, 1))
		fractional = fractional && thousandths.IsInt() && thousandths.Num().IsInt64()
	}
	return fractional
}

func rounded(q resource.Quantity, r *resourceapi.CapacityRequestPolicyRange, fractional bool) *big.Rat {
	if inMilli(r, fractional) {
		return rat(q)
	}
	return ceil(rat(q))
}

func ceil(r *big.Rat) *big.Rat {
	n, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	return new(big.Rat).SetInt(n)
}

func rat(q resource.Quantity) *big.Rat {
	r, _ := new(big.Rat).SetString(q.AsDec().String())
	return r
}

// pool checks that no counter and no capacity of a pool is overdrawn, and that
// compatibility groups are kept, by all uses together.
func (v *verifier) pool(view PoolView) error {
	var here []*use
	for i := range v.taken {
		if u := &v.taken[i]; u.pool.Pool == view.Pool && !u.admin() {
			here = append(here, u)
		}
	}
	if len(here) == 0 {
		return nil
	}
	if err := overdrawn(view, here); err != nil {
		return err
	}
	return v.counters(view, here)
}

func overdrawn(view PoolView, here []*use) error {
	for _, u := range here {
		for name, c := range u.device.Capacity {
			if !u.shared() {
				continue
			}
			sum := rat(holding(view, u.device.Name).consumed[name])
			for _, other := range here {
				if other.device == u.device {
					sum.Add(sum, rat(other.result.ConsumedCapacity[name]))
				}
			}
			if sum.Cmp(rat(c.Value)) > 0 {
				return fmt.Errorf("device %s: %s of its capacity %s are consumed", u.device.Name, sum.RatString(), name)
			}
		}
	}
	return nil
}

func (v *verifier) counters(view PoolView, here []*use) error {
	current, err := newest(view.Pool.raw, v.problem.options.Features)
	if err != nil {
		return err
	}
	type key struct{ set, counter string }
	left, touched := map[key]*big.Rat{}, map[key]bool{}
	groups, joined := map[string][][]string{}, map[string]bool{}
	shown := map[string]bool{}
	consume := func(d *resourceapi.Device) {
		for _, part := range d.ConsumesCounters {
			groups[part.CounterSet] = append(groups[part.CounterSet], part.CompatibilityGroups)
			for name, c := range part.Counters {
				left[key{part.CounterSet, name}].Sub(left[key{part.CounterSet, name}], rat(c.Value))
			}
		}
	}
	for _, s := range current {
		for _, set := range s.Spec.SharedCounters {
			for name, c := range set.Counters {
				left[key{set.Name, name}] = rat(c.Value)
			}
		}
	}
	for _, s := range current {
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			shown[d.Name] = true
			if h := holding(view, d.Name); v.problem.options.Features.PartitionableDevices && (h.whole || h.shares) {
				consume(d)
			}
		}
	}
	charged := map[*resourceapi.Device]bool{}
	for _, u := range here {
		if len(u.device.ConsumesCounters) == 0 || charged[u.device] || holding(view, u.device.Name).shares {
			continue
		}
		charged[u.device] = true
		consume(u.device)
		for _, part := range u.device.ConsumesCounters {
			joined[part.CounterSet] = true
			for name := range part.Counters {
				touched[key{part.CounterSet, name}] = true
			}
		}
	}
	// Where more is taken than there is, nobody can take even nothing, as in-tree.
	for k := range touched {
		if left[k].Sign() < 0 {
			return fmt.Errorf("counter %s/%s is overdrawn by %s", k.set, k.counter, new(big.Rat).Neg(left[k]).RatString())
		}
	}
	for set := range joined {
		if err := compatible(groups[set]); err != nil {
			return fmt.Errorf("counter set %s: %w", set, err)
		}
	}
	if len(joined) > 0 && view.Use != nil {
		for name := range view.Use.holders {
			if !shown[name] {
				return fmt.Errorf("device %s is in use and no longer published", name)
			}
		}
	}
	return nil
}

// compatible checks that devices have a group in common, or none has any.
func compatible(all [][]string) error {
	common := all[0]
	for _, groups := range all {
		if (len(groups) == 0) != (len(all[0]) == 0) {
			return errors.New("devices with and without compatibility groups are used together")
		}
		common = slices.DeleteFunc(slices.Clone(common), func(g string) bool { return !slices.Contains(groups, g) })
	}
	if len(all[0]) > 0 && len(common) == 0 {
		return errors.New("devices without a common compatibility group are used together")
	}
	return nil
}
