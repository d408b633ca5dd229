// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
)

// Parameters of a StorageClass that the lab's provisioners understand. Package
// profiles documents them.
const (
	delayParameter  = "delay"
	failParameter   = "fail"
	refuseParameter = "refuse"
)

// everyNode stands for all nodes in a list of them, and for a claim that has no
// selected node.
const everyNode = "*"

// behaviour is how a provisioner treats the claims of one class.
type behaviour struct {
	// delay is how long it takes to make a volume.
	delay time.Duration
	// fail are the nodes that it cannot make volumes for, and tries again.
	fail []string
	// refuse are the nodes that it gives claims back for, so that the scheduler
	// selects another.
	refuse []string
}

func behaviourOf(class *storagev1.StorageClass) (behaviour, error) {
	var b behaviour
	for _, name := range slices.Sorted(maps.Keys(class.Parameters)) {
		value := class.Parameters[name]
		switch name {
		case delayParameter:
			delay, err := time.ParseDuration(value)
			if err != nil {
				return b, fmt.Errorf("StorageClass %s: parameter %s: %w", class.Name, name, err)
			}
			b.delay = delay
		case failParameter:
			b.fail = strings.Split(value, ",")
		case refuseParameter:
			b.refuse = strings.Split(value, ",")
		default:
			return b, fmt.Errorf("StorageClass %s: parameter %q is none of %s, %s and %s",
				class.Name, name, delayParameter, failParameter, refuseParameter)
		}
	}
	return b, nil
}

func concerns(nodes []string, selected string) bool {
	return slices.Contains(nodes, everyNode) || selected != "" && slices.Contains(nodes, selected)
}
