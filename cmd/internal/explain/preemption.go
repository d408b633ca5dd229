// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/cmd/internal/simulate"
)

// preemption answers whether it helps to evict pods of lower priority.
func preemption(p *simulate.Preemption) string {
	if !p.Helps {
		return "No: no node would take the pod without the pods of lower priority."
	}
	text := fmt.Sprintf("Yes: evicting %s frees node %s.", some(refs(p.Victims), 3), p.Node)
	if p.ViolatesBudgets > 0 {
		text += fmt.Sprintf(" PodDisruptionBudgets would keep %d of them.", p.ViolatesBudgets)
	}
	if p.NotTried != "" {
		text += " Not tried: " + strings.TrimSuffix(p.NotTried, ".") + "."
	}
	return text
}
