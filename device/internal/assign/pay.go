// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

// charge is what the first use of a device takes from counters, draw what each
// use does.
func (s *state) charge(device int) []Amount {
	if s.problem.Charge == nil || s.problem.Shared.Has(device) && s.paid().Has(device) {
		return nil
	}
	return s.problem.Charge[device]
}

func (c *Choice) draw(device int) []Amount {
	if c.Draw == nil {
		return nil
	}
	return c.Draw[device]
}

// pay takes the amounts of one more use from the counters, if they suffice.
func (s *state) pay(slot *slot, device int) bool {
	charge := s.charge(device)
	if !spend(s.left, charge) {
		return false
	}
	if !spend(s.left, slot.draw(device)) {
		refund(s.left, charge)
		return false
	}
	return true
}

func (s *state) refund(slot *slot, device int) {
	refund(s.left, s.charge(device))
	refund(s.left, slot.draw(device))
}

func spend(left []int64, amounts []Amount) bool {
	for i, a := range amounts {
		if left[a.Counter] < a.Value {
			refund(left, amounts[:i])
			return false
		}
		left[a.Counter] -= a.Value
	}
	return true
}

func refund(left []int64, amounts []Amount) {
	for _, a := range amounts {
		left[a.Counter] += a.Value
	}
}
