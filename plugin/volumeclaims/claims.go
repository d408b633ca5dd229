// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storage "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/live"
)

func usesClaim(pod *v1.Pod, namespace, name string) bool {
	return pod.Namespace == namespace && slices.Contains(live.VolumeClaimNames(pod), name)
}

// mayUseClass is true when a claim of the pod is of the class, or cannot be
// seen yet.
func (p *Plugin) mayUseClass(pod *v1.Pod, class string) bool {
	for _, name := range live.VolumeClaimNames(pod) {
		claim := p.stores.Claim(pod.Namespace, name)
		if claim == nil || storage.GetPersistentVolumeClaimClass(claim) == class {
			return true
		}
	}
	return false
}
