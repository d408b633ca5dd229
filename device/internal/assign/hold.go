// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

import "slices"

// pinned says whether a device has the values that are pinned.
func (s *state) pinned(slot, device int) bool {
	for _, rule := range s.rules.of(slot) {
		pin := s.pins[rule.constraint]
		if rule.kind != Match || pin == open {
			continue
		}
		switch one := rule.values.One[device]; one {
		case Exempt:
		case None:
			return false
		case Many:
			if !slices.Contains(rule.values.Lists[int32(device)], pin) {
				return false
			}
		default:
			if one != pin {
				return false
			}
		}
	}
	return true
}

// allows says whether a constraint lets a device join those that are taken.
func (s *state) allows(rule rule, device int) bool {
	switch rule.values.One[device] {
	case Exempt:
		return true
	case None:
		return false
	}
	taken := s.values[rule.constraint]
	shares := slices.ContainsFunc(rule.values.list(device), func(v int32) bool { return slices.Contains(taken, v) })
	if rule.kind == Distinct {
		return !shares
	}
	return shares || !s.bound[rule.constraint]
}

func (s *state) bind(rule rule, device int) {
	if rule.values.One[device] == Exempt {
		return
	}
	c, list := rule.constraint, rule.values.list(device)
	if rule.kind == Distinct || !s.bound[c] {
		s.values[c] = append(s.values[c], list...)
	} else {
		s.values[c] = slices.DeleteFunc(s.values[c], func(v int32) bool { return !slices.Contains(list, v) })
	}
	s.bound[c] = true
}
