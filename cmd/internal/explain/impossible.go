// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/reason"
)

// impossible says what the rejections of one request or volume by all nodes have
// in common, if it is something that no pod that ends can change: devices that
// cannot be used yet, a selector that fails, a size that cannot be made. It is
// empty otherwise.
func impossible(shared []*reason.Rejection) string {
	found := slices.DeleteFunc(slices.Clone(shared), func(r *reason.Rejection) bool { return r.Code == reason.NoDeviceOfClass })
	if len(found) == 0 {
		return ""
	}
	every := func(holds func(*reason.Rejection) bool) bool {
		return !slices.ContainsFunc(found, func(r *reason.Rejection) bool { return !holds(r) })
	}
	switch {
	case every(func(r *reason.Rejection) bool { return r.Code == reason.DevicesUnsupported && r.Facts.Feature != "" }):
		return unusable(found)
	case every(selectorsFail):
		return failing(found)
	case every(func(r *reason.Rejection) bool { return r.Facts.Limit != nil && r.Facts.Wanted != nil }):
		f := found[0].Facts
		return fmt.Sprintf("no volume of class %s can be larger than %s, and claim %s wants %s", f.Class, largestLimit(found), found[0].Claim, f.Wanted)
	}
	return ""
}

func unusable(found []*reason.Rejection) string {
	var needs, where []string
	for _, r := range found {
		if need := "they " + r.Facts.Feature; !slices.Contains(needs, need) {
			needs = append(needs, need)
		}
		if d := r.Facts.Devices; d != nil {
			where = append(where, fmt.Sprintf("%d on %s", d.Unusable, r.Node))
		}
	}
	text := fmt.Sprintf("devices of class %s cannot be used: %s", found[0].Facts.Class, strings.Join(needs, ", or "))
	if len(where) > 0 {
		text += " (" + some(where, 3) + ")"
	}
	return text
}

func failing(found []*reason.Rejection) string {
	var errors []string
	devices := 0
	for _, r := range found {
		devices += r.Facts.Devices.InClass
		if !slices.Contains(errors, r.Facts.Detail) {
			errors = append(errors, r.Facts.Detail)
		}
	}
	return fmt.Sprintf("a selector fails on every device of class %s, of which there %s %d: %s",
		found[0].Facts.Class, be(int64(devices)), devices, some(errors, 2))
}

func largestLimit(found []*reason.Rejection) *resource.Quantity {
	return slices.MaxFunc(found, func(a, b *reason.Rejection) int { return a.Facts.Limit.Cmp(*b.Facts.Limit) }).Facts.Limit
}
