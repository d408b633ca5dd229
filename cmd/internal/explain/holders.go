// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import "fmt"

// holder names the pods of a holder, or its claim when no pod uses it. A
// priority is told where it differs from that of the report's pod.
func (r *Report) holder(h Holder) string {
	if len(h.Pods) == 0 {
		return "claim " + h.Claim.String()
	}
	var pods []string
	for _, one := range h.Pods {
		text := one.Pod.String()
		if one.Priority != nil && *one.Priority != r.priority {
			text += fmt.Sprintf(" (priority %d)", *one.Priority)
		}
		pods = append(pods, text)
	}
	return some(pods, 3)
}

func (r *Report) heldBy(holders []Holder) string {
	if len(holders) == 0 {
		return ""
	}
	devices := 0
	var names []string
	for _, holder := range holders {
		devices += len(holder.Devices)
		names = append(names, r.holder(holder))
	}
	return fmt.Sprintf("; %d more %s held by %s", devices, be(int64(devices)), some(names, 3))
}
