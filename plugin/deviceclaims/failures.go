// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/reason"
)

// failureMemory is how long a pod prefers other devices for a claim after its
// devices have failed to become ready. It is longer than the longest time that a
// pod is kept from its next attempt.
const failureMemory = 30 * time.Minute

// failures are the devices that have failed pods lately. It is a preference and
// no fact, so nothing is lost when a restart forgets it. Safe for concurrent use.
type failures struct {
	clock clock.PassiveClock
	mutex sync.Mutex
	// until is when a device counts like any other again.
	until map[failure]time.Time
}

// failure is a device that has failed a pod in a claim. The claim for extended
// resources is another one in each attempt and goes by no UID.
type failure struct {
	pod, claim types.UID
	device     reason.Device
}

func (f failure) result() resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{Driver: f.device.Driver, Pool: f.device.Pool, Device: f.device.Name}
}

func newFailures(clock clock.PassiveClock) *failures {
	return &failures{clock: clock, until: make(map[failure]time.Time)}
}

func (f *failures) remember(pod *v1.Pod, claim *resourceapi.ResourceClaim, devices []unready) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	now := f.clock.Now()
	maps.DeleteFunc(f.until, func(_ failure, until time.Time) bool { return !now.Before(until) })
	for i := range devices {
		f.until[failure{pod.UID, memoryOf(claim), devices[i].device()}] = now.Add(failureMemory)
	}
}

func memoryOf(claim *resourceapi.ResourceClaim) types.UID {
	if isExtended(claim) {
		return ""
	}
	return claim.UID
}

// standIns returns a claim that holds all devices which the pod should avoid for
// any of its claims, none if there are none.
func (f *failures) standIns(pod *v1.Pod, claims []podClaim) []*resourceapi.ResourceClaim {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.until) == 0 {
		return nil
	}
	now := f.clock.Now()
	var results []resourceapi.DeviceRequestAllocationResult
	for failed, until := range f.until {
		if failed.pod != pod.UID || !now.Before(until) {
			continue
		}
		if failed.claim == "" {
			results = append(results, failed.result())
		}
		for _, claim := range claims {
			if claim.seen.UID == failed.claim && claim.seen.Status.Allocation == nil {
				results = append(results, failed.result())
			}
		}
	}
	if len(results) == 0 {
		return nil
	}
	return []*resourceapi.ResourceClaim{{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: results},
		}},
	}}
}
