// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/reason"
)

// listAttempts is how often the list of allocated devices is asked for. It
// fails when claims change while it is made.
const listAttempts = 10

// NewBesideInTree is New for a scheduler in which another profile has the
// in-tree plugin DynamicResources. That plugin keeps what it has reserved and
// not written in the SharedDRAManager only, so Reserve asks there too. It looks
// at all allocated devices of the cluster, which New does not.
func NewBesideInTree(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	plugin, err := New(ctx, args, h)
	if err != nil {
		return nil, err
	}
	plugin.(*Plugin).besideInTree = true
	return plugin, nil
}

// recheck says whether another plugin of this process has promised something
// that the bindings plan to take. Scheduling cycles run one after another, so
// nothing can come in between this and Reserve.
func (p *Plugin) recheck(bindings []*binding) error {
	if !p.besideInTree {
		return nil
	}
	taken, err := p.takenDevices()
	if err != nil {
		return err
	}
	for _, b := range bindings {
		if b.plan == nil || b.pending {
			continue
		}
		if p.dra.ResourceClaims().GetPendingAllocation(b.uid()) != nil {
			return fmt.Errorf("ResourceClaim %s is being allocated by another plugin", b.ref())
		}
		for i := range b.plan.Status.Allocation.Devices.Results {
			result := &b.plan.Status.Allocation.Devices.Results[i]
			if !ptr.Deref(result.AdminAccess, false) && taken.Has(structured.MakeDeviceID(result.Driver, result.Pool, result.Device)) {
				return fmt.Errorf("device %s was just taken by another plugin",
					reason.Device{Driver: result.Driver, Pool: result.Pool, Name: result.Device})
			}
		}
	}
	return nil
}

func (p *Plugin) takenDevices() (sets.Set[structured.DeviceID], error) {
	var err error
	for range listAttempts {
		var taken sets.Set[structured.DeviceID]
		if taken, err = p.dra.ResourceClaims().ListAllAllocatedDevices(); err == nil {
			return taken, nil
		}
	}
	return nil, fmt.Errorf("list allocated devices: %w", err)
}
