// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"math"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// consumed is what a request consumes of one capacity of a device, by the rules of
// the capacity (CapacityRequestPolicy): without a request the default, or all of
// it; otherwise the request, rounded up to a value that is valid. An error says
// that the rules give no number.
func consumed(requested *resource.Quantity, capacity *resourceapi.DeviceCapacity, f Features) (resource.Quantity, error) {
	policy := capacity.RequestPolicy
	var amount resource.Quantity
	var err error
	switch {
	case requested == nil && policy != nil && policy.Default != nil:
		amount = policy.Default.DeepCopy()
	case requested == nil:
		amount = capacity.Value.DeepCopy()
	case policy == nil:
		amount = requested.DeepCopy()
	case policy.ValidRange != nil && policy.ValidRange.Min != nil:
		amount, err = roundUp(requested, policy.ValidRange, f)
	default:
		amount = requested.DeepCopy()
		for _, valid := range policy.ValidValues {
			if requested.Cmp(valid) <= 0 {
				amount = valid.DeepCopy()
				break
			}
		}
	}
	if err == nil && amount.Sign() < 0 {
		err = fmt.Errorf("%s is negative", amount.String())
	}
	return amount, err
}

// valid says whether an amount is one that the policy allows to consume.
func valid(amount resource.Quantity, policy *resourceapi.CapacityRequestPolicy, f Features) bool {
	switch {
	case policy == nil, policy.Default != nil && amount.Cmp(*policy.Default) == 0:
		return true
	case policy.ValidRange != nil:
		r := policy.ValidRange
		if r.Max != nil && amount.Cmp(*r.Max) > 0 {
			return false
		}
		if r.Step == nil {
			return true
		}
		g := gridOf(r, f)
		n, ok := g.place(amount)
		return ok && g.step > 0 && (n-g.min)%g.step == 0
	case len(policy.ValidValues) > 0:
		for _, v := range policy.ValidValues {
			if amount.Cmp(v) == 0 {
				return true
			}
		}
		return false
	}
	return true
}

// grid are the points of a valid range with a step, counted in thousandths where
// FractionalCapacityRange allows that and they can be, and otherwise in whole
// units, as which fractions count as the next larger one.
type grid struct {
	unit      unit
	min, step int64
}

func gridOf(r *resourceapi.CapacityRequestPolicyRange, f Features) grid {
	milli := unit{1, 1e3}
	g := grid{unit: milli}
	exact := f.FractionalCapacityRange
	for _, q := range []*resource.Quantity{r.Min, r.Max, r.Step} {
		if q != nil {
			_, ok := milli.exactly(*q)
			exact = exact && ok
		}
	}
	if exact {
		g.step, _ = milli.exactly(*r.Step)
		if r.Min != nil {
			g.min, _ = milli.exactly(*r.Min)
		}
		return g
	}
	g = grid{unit: one, step: r.Step.Value()}
	if r.Min != nil {
		g.min = r.Min.Value()
	}
	return g
}

func (g grid) place(q resource.Quantity) (int64, bool) {
	if g.unit != one {
		return g.unit.exactly(q)
	}
	return q.Value(), q.CmpInt64(math.MaxInt64) <= 0
}

// roundUp rounds a request up to the next point of the range.
func roundUp(requested *resource.Quantity, r *resourceapi.CapacityRequestPolicyRange, f Features) (resource.Quantity, error) {
	if requested.Cmp(*r.Min) < 0 {
		return r.Min.DeepCopy(), nil
	}
	if r.Step == nil {
		return requested.DeepCopy(), nil
	}
	g := gridOf(r, f)
	n, ok := g.place(*requested)
	switch {
	case !ok:
		return resource.Quantity{}, fmt.Errorf("%w: a request of %s", errUncountable, requested.String())
	case g.step <= 0:
		return resource.Quantity{}, fmt.Errorf("%w: a step of %s", errUncountable, r.Step.String())
	}
	steps := (n - g.min) / g.step
	if (n-g.min)%g.step != 0 {
		steps++
	}
	if steps > (math.MaxInt64-max(g.min, 0))/g.step {
		return resource.Quantity{}, fmt.Errorf("%w: %s, rounded up to the next step", errUncountable, requested.String())
	}
	n = g.min + steps*g.step
	if g.unit == one {
		return *resource.NewQuantity(n, r.Step.Format), nil
	}
	if n%1000 == 0 {
		return *resource.NewQuantity(n/1000, r.Step.Format), nil
	}
	return *resource.NewMilliQuantity(n, r.Step.Format), nil
}

var errUncountable = errors.New("cannot be represented exactly")
