// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/reason"
)

// met is the error that a search in order meets on its way: a selector that fails
// on a device, or a capacity that cannot be computed. The engine leaves such devices
// out and goes on. A device is on the way if it comes before the last one that the
// wish gets, if the wish gets none, and always when there are no results; not if it
// is in use, as then nobody asks about it.
func (a *attempt) met(results []resourceapi.AllocationResult) error {
	warnings := a.plan.Warnings()
	if len(warnings) == 0 {
		return nil
	}
	devices := a.node.Devices(featuresOf(a.question.features))
	for i, claim := range a.claims {
		for j := range claim.Spec.Devices.Requests {
			for _, w := range wishes(claim, &claim.Spec.Devices.Requests[j]) {
				end := len(devices)
				if results != nil {
					if last := lastOf(results[i].Devices.Results, w.fullName()); last != (reason.Device{}) {
						end = slices.Index(devices, last)
					}
				}
				for _, warning := range warnings {
					if !slices.Contains(devices[:end], warning.Device) || a.inUse(&w, warning.Device) {
						continue
					}
					if text := a.failed(&w, warning); text != "" {
						return onNode(nil, "%s", text)
					}
				}
				if end < len(devices) {
					break // the alternatives after the one that is chosen are not looked at
				}
			}
		}
	}
	return nil
}

// lastOf is the last device that a request got.
func lastOf(results []resourceapi.DeviceRequestAllocationResult, request string) reason.Device {
	var last reason.Device
	for _, r := range results {
		if r.Request == request {
			last = reason.Device{Driver: r.Driver, Pool: r.Pool, Name: r.Device}
		}
	}
	return last
}

func (a *attempt) inUse(w *wish, d reason.Device) bool {
	admin := w.admin != nil && *w.admin
	return !admin && !w.all() && a.usage.state.AllocatedDevices.Has(MakeDeviceID(d.Driver, d.Pool, d.Name))
}

// failed is the error for a wish that meets the device of a warning, empty if the
// warning is not about the wish.
func (a *attempt) failed(w *wish, warning device.Warning) string {
	if warning.Expression == "" {
		return fmt.Sprintf("claim %s, request %s: checking capacity for device %s: %s", nameOf(w.claim), w.Name, warning.Device, warning.Error)
	}
	with := func(s resourceapi.DeviceSelector) bool { return s.CEL != nil && s.CEL.Expression == warning.Expression }
	if class := a.class(w.DeviceClassName); class != nil {
		if i := slices.IndexFunc(class.Spec.Selectors, with); i >= 0 {
			return fmt.Sprintf("class %s: selector #%d on device %s: CEL runtime error: %s", class.Name, i, warning.Device, warning.Error)
		}
	}
	if i := slices.IndexFunc(w.Selectors, with); i >= 0 {
		return fmt.Sprintf("claim %s: selector #%d on device %s: CEL runtime error: %s", nameOf(w.claim), i, warning.Device, warning.Error)
	}
	return ""
}
