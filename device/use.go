// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"slices"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/reason"
)

// Use is who holds the devices of one pool. It is immutable and may be shared by
// any number of Views and goroutines; inside it remembers what it means for the
// Pool that it was last seen with. A nil *Use is a pool nobody uses.
type Use struct {
	meaning atomic.Pointer[usage]
	// names are the held devices, in order.
	names []string
	// holders are the holders of devices, by the device's name.
	holders map[string]*holder
	id      PoolID
}

// holder is all that holds one device.
type holder struct {
	// whole: somebody holds all of it. Otherwise there are only shares.
	whole bool
	// consumed is the capacity that all shares consume.
	consumed map[resourceapi.QualifiedName]resource.Quantity
	// claims hold the device, in the order of their names.
	claims []*resourceapi.ResourceClaim
}

// CompileUse collects the devices of one pool that the claims hold. Claims
// without an allocation, and devices of other pools, are ignored, so it does no
// harm to pass more claims than those of the pool. Their order does not matter.
// The claims are kept and must not be changed afterwards.
//
// A result with adminAccess holds nothing (DeviceRequestAllocationResult.AdminAccess);
// one with a share ID holds a share (DeviceRequestAllocationResult.ShareID).
func CompileUse(id PoolID, claims []*resourceapi.ResourceClaim) *Use {
	sorted := slices.Clone(claims)
	slices.SortStableFunc(sorted, func(a, b *resourceapi.ResourceClaim) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	u := &Use{id: id, holders: map[string]*holder{}}
	for _, claim := range sorted {
		if claim.Status.Allocation == nil {
			continue
		}
		results := claim.Status.Allocation.Devices.Results
		for i := range results {
			r := &results[i]
			if r.Driver != id.Driver || r.Pool != id.Pool || ptr.Deref(r.AdminAccess, false) {
				continue
			}
			h := u.holder(r.Device)
			if r.ShareID == nil {
				h.whole = true
			} else {
				h.consume(r.ConsumedCapacity)
			}
			if held := h.claims; len(held) == 0 || held[len(held)-1] != claim {
				h.claims = append(held, claim)
			}
		}
	}
	slices.Sort(u.names)
	return u
}

// Holding is what is known of a device in use when its claims are not at hand.
type Holding struct {
	Device string
	// Shared: there are shares of the device. Otherwise somebody holds all of it.
	Shared bool
	// Consumed is the capacity that all shares of the device consume together.
	Consumed map[resourceapi.QualifiedName]resource.Quantity
}

// NewUse is [CompileUse] for a caller who knows what is held, but not by which
// claims: reasons then cannot name the holders. Several Holdings of a device add
// up. Their order does not matter and nothing of held is kept.
func NewUse(id PoolID, held []Holding) *Use {
	u := &Use{id: id, holders: make(map[string]*holder, len(held))}
	for i := range held {
		h := u.holder(held[i].Device)
		if held[i].Shared {
			h.consume(held[i].Consumed)
		} else {
			h.whole = true
		}
	}
	slices.Sort(u.names)
	return u
}

// ID names the pool.
func (u *Use) ID() PoolID { return u.id }

func (u *Use) holder(device string) *holder {
	h := u.holders[device]
	if h == nil {
		h = &holder{}
		u.holders[device] = h
		u.names = append(u.names, device)
	}
	return h
}

func (h *holder) consume(capacity map[resourceapi.QualifiedName]resource.Quantity) {
	if h.consumed == nil && len(capacity) > 0 {
		h.consumed = make(map[resourceapi.QualifiedName]resource.Quantity, len(capacity))
	}
	for name, amount := range capacity {
		sum := h.consumed[name].DeepCopy()
		sum.Add(amount)
		h.consumed[name] = sum
	}
}

// empty says whether nobody holds anything.
func (u *Use) empty() bool { return u == nil || len(u.names) == 0 }

// of returns who holds the device, one entry per claim.
func (u *Use) of(device reason.Device) []reason.Held {
	if u == nil || u.holders[device.Name] == nil {
		return nil
	}
	var held []reason.Held
	for _, claim := range u.holders[device.Name].claims {
		held = append(held, reason.Held{Device: device, Claim: claimRef(claim), Pods: consumers(claim)})
	}
	return held
}

func consumers(claim *resourceapi.ResourceClaim) []reason.Ref {
	var pods []reason.Ref
	for _, consumer := range claim.Status.ReservedFor {
		kind := consumer.Resource
		if consumer.APIGroup == "" && consumer.Resource == "pods" {
			kind = "Pod"
		}
		pods = append(pods, reason.Ref{Kind: kind, Namespace: claim.Namespace, Name: consumer.Name})
	}
	return pods
}

func claimRef(claim *resourceapi.ResourceClaim) reason.Ref {
	return reason.Ref{Kind: "ResourceClaim", Namespace: claim.Namespace, Name: claim.Name}
}
