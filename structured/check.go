// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"fmt"
	"math"

	resourceapi "k8s.io/api/resource/v1"
)

const limitText = "claim %s, request %s: adding %d devices exceeds the claim limit of %d, with %d already accounted for"

// checker refuses claims that the engine would refuse as well, in the order and in
// the words of upstream. Its errors hold for every node.
type checker struct {
	// question collects the classes.
	*question
	lister DeviceClassLister
}

func (c *checker) claim(claim *resourceapi.ResourceClaim) error {
	least := int64(0)
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if len(request.FirstAvailable) > 0 && !c.features.PrioritizedList {
			return fmt.Errorf("claim %s, request %s: has subrequests, but the DRAPrioritizedList feature is disabled", nameOf(claim), request.Name)
		}
		wishes := wishes(claim, request)
		if !c.features.ConsumableCapacity {
			for _, w := range wishes {
				if w.Capacity != nil {
					return fmt.Errorf("claim %s, %s %s: has capacity requests, but the DRAConsumableCapacity feature is disabled", nameOf(claim), w.kind(), w.Name)
				}
			}
		}
		wants := int64(math.MaxInt64)
		for i := range wishes {
			if err := c.wish(&wishes[i]); err != nil {
				return err
			}
			wants = min(wants, wishes[i].least())
		}
		if wants > resourceapi.AllocationResultsMaxSize-least {
			return fmt.Errorf(limitText, nameOf(claim), request.Name, wants, resourceapi.AllocationResultsMaxSize, least)
		}
		least += wants
	}
	for i, constraint := range claim.Spec.Devices.Constraints {
		if constraint.MatchAttribute == nil && constraint.DistinctAttribute == nil {
			return fmt.Errorf("claim %s, constraint #%d: empty constraint (unsupported constraint type?)", nameOf(claim), i)
		}
	}
	return nil
}

func (c *checker) wish(w *wish) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("claim %s, request %s: "+format, append([]any{nameOf(w.claim), w.Name}, args...)...)
	}
	if len(w.DerivedAttributes) > 0 && !c.features.DerivedAttributes {
		return refuse("cannot handle request with derived attributes, the feature is disabled")
	}
	for i, selector := range w.Selectors {
		if selector.CEL == nil {
			return fmt.Errorf("claim %s, request %s, selector #%d: CEL expression empty (unsupported selector type?)", nameOf(w.claim), w.Name, i)
		}
	}
	if w.admin != nil && !c.features.AdminAccess {
		return refuse("admin access is requested, but the feature is disabled")
	}
	if w.DeviceClassName == "" {
		return refuse("missing device class name (unsupported request type?)")
	}
	if c.class(w.DeviceClassName) == nil {
		class, err := c.lister.Get(w.DeviceClassName)
		if err != nil {
			return refuse("could not retrieve device class %s: %w", w.DeviceClassName, err)
		}
		c.classes = append(c.classes, class)
	}
	switch w.AllocationMode {
	case resourceapi.DeviceAllocationModeExactCount, resourceapi.DeviceAllocationModeAll:
		return nil
	default:
		return refuse("unsupported count mode %s", w.AllocationMode)
	}
}
