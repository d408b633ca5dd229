// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"fmt"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/reason"
)

// unready is an allocated device that a pod may not use yet: not all of its
// binding conditions are true (DeviceRequestAllocationResult.BindingConditions).
type unready struct {
	result *resourceapi.DeviceRequestAllocationResult
	// missing are the binding conditions that are not true.
	missing []string
	// failed is a binding failure condition that is true, nil if there is none.
	failed *metav1.Condition
}

func (u *unready) device() reason.Device {
	return reason.Device{Driver: u.result.Driver, Pool: u.result.Pool, Name: u.result.Device}
}

// String says what is wrong with the device.
func (u *unready) String() string {
	if u.failed != nil {
		return fmt.Sprintf("device %s has failed: %s (%s) %s", u.device(), u.failed.Type, u.failed.Reason, u.failed.Message)
	}
	return fmt.Sprintf("device %s lacks %s", u.device(), strings.Join(u.missing, ", "))
}

func join(devices []unready) string {
	var texts []string
	for i := range devices {
		texts = append(texts, devices[i].String())
	}
	return strings.Join(texts, "; ")
}

// unreadyDevices returns the devices of a claim that are not ready, in the order
// of the allocation. A device that has failed is not ready whatever else it has.
func unreadyDevices(claim *resourceapi.ResourceClaim) []unready {
	if claim.Status.Allocation == nil {
		return nil
	}
	var devices []unready
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		if len(result.BindingConditions) == 0 {
			continue
		}
		conditions := conditionsOf(claim, result)
		u := unready{result: result}
		for _, name := range result.BindingConditions {
			if !meta.IsStatusConditionTrue(conditions, name) {
				u.missing = append(u.missing, name)
			}
		}
		for _, name := range result.BindingFailureConditions {
			if meta.IsStatusConditionTrue(conditions, name) {
				u.failed = meta.FindStatusCondition(conditions, name)
				break
			}
		}
		if len(u.missing) > 0 || u.failed != nil {
			devices = append(devices, u)
		}
	}
	return devices
}

// conditionsOf returns what the driver says of one device of a claim.
func conditionsOf(claim *resourceapi.ResourceClaim, result *resourceapi.DeviceRequestAllocationResult) []metav1.Condition {
	for i := range claim.Status.Devices {
		d := &claim.Status.Devices[i]
		if d.Driver != result.Driver || d.Pool != result.Pool || d.Device != result.Device {
			continue
		}
		if result.ShareID == nil || d.ShareID != nil && *d.ShareID == string(*result.ShareID) {
			return d.Conditions
		}
	}
	return nil
}

// failedDevices returns the devices that have failed and those that were not
// ready in time.
func failedDevices(devices []unready, late bool) []unready {
	var failed []unready
	for _, u := range devices {
		if late || u.failed != nil {
			failed = append(failed, u)
		}
	}
	return failed
}

// deadline returns when the devices of a claim must be ready. It counts from the
// allocation, so that no restart and no later pod begins to wait anew. A claim
// without a time of allocation counts from now.
func (p *Plugin) deadline(claim *resourceapi.ResourceClaim, now time.Time) time.Time {
	if stamp := claim.Status.Allocation.AllocationTimestamp; stamp != nil {
		now = stamp.Time
	}
	return now.Add(p.bindingTimeout)
}

// noteBroken remembers the allocated claims whose devices have failed or are
// late, and says why the pod cannot use them. PostFilter gives them up.
func (p *Plugin) noteBroken(c *cycle) *reason.Rejection {
	if !p.features.device.DeviceBindingConditions {
		return nil
	}
	var first *reason.Rejection
	now := p.clock.Now()
	for _, claim := range c.claims {
		devices := unreadyDevices(claim.seen)
		if claim.pending || len(devices) == 0 {
			continue
		}
		failed := failedDevices(devices, !now.Before(p.deadline(claim.seen, now)))
		if len(failed) == 0 {
			continue
		}
		c.broken = append(c.broken, claim)
		rejection := &reason.Rejection{
			Code:  reason.DevicesNotReady,
			Claim: claimRef(claim.seen.Namespace, claim.seen.Name),
			Facts: reason.Facts{Detail: join(failed)},
		}
		if first == nil {
			first = rejection
		} else {
			first.Also = append(first.Also, rejection)
		}
	}
	return first
}
