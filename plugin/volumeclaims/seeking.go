// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// seeking are the pods that look for storage: from the beginning of an attempt to
// Reserve. Only they can be helped by storage that becomes free. A pod that gave
// back its own after a failed write or a refusal is not among them: it is tried
// again after its backoff, and would be without any if its own storage woke it.
type seeking struct {
	mutex sync.Mutex
	pods  sets.Set[types.UID]
	// sweepAt is the number of pods at which sweep has something to do.
	sweepAt int
}

// begin is called before the pod's first look at what is free. pending lists all
// pods that may seek.
func (s *seeking) begin(pod *v1.Pod, pending func() []*v1.Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.pods == nil {
		s.pods = sets.New[types.UID]()
	}
	if s.pods.Len() >= s.sweepAt {
		s.sweep(pending())
	}
	s.pods.Insert(pod.UID)
}

// sweep forgets the pods that were deleted or are bound, each time that as many
// have come in as were left the last time.
func (s *seeking) sweep(pending []*v1.Pod) {
	left := sets.New[types.UID]()
	for _, pod := range pending {
		if s.pods.Has(pod.UID) {
			left.Insert(pod.UID)
		}
	}
	s.pods = left
	s.sweepAt = 2*left.Len() + 64
}

func (s *seeking) found(pod *v1.Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.pods.Delete(pod.UID)
}

func (s *seeking) has(pod *v1.Pod) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.pods.Has(pod.UID)
}
