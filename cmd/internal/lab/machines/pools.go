// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
)

// pools is how much of the storage of one driver is taken in each segment of
// its topology. A segment begins with all its capacity when it is added.
type pools struct {
	capacity resource.Quantity

	mu   sync.Mutex
	free map[string]resource.Quantity
	// volumes are keyed by the name of the PersistentVolume, so that trying to
	// provision it once more takes nothing.
	volumes map[string]allotment
}

type allotment struct {
	segment string
	size    resource.Quantity
}

func newPools(capacity resource.Quantity) *pools {
	return &pools{capacity: capacity, free: map[string]resource.Quantity{}, volumes: map[string]allotment{}}
}

// add makes a segment known, and says whether it was not before.
func (p *pools) add(segment string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.free[segment]; known {
		return false
	}
	p.free[segment] = p.capacity.DeepCopy()
	return true
}

// segments lists the known segments by name.
func (p *pools) segments() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.free))
}

// freeIn is what is free in a known segment.
func (p *pools) freeIn(segment string) resource.Quantity {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free[segment].DeepCopy()
}

// largest is the segment with the most free capacity among those that are
// wanted; of equals the first by name.
func (p *pools) largest(wanted func(segment string) bool) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	best, found := "", false
	for _, segment := range slices.Sorted(maps.Keys(p.free)) {
		if !wanted(segment) {
			continue
		}
		free, most := p.free[segment], p.free[best]
		if !found || free.Cmp(most) > 0 {
			best, found = segment, true
		}
	}
	return best, found
}

func (p *pools) take(segment, volume string, size resource.Quantity) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, taken := p.volumes[volume]; taken {
		return nil
	}
	free := p.free[segment].DeepCopy()
	if free.Cmp(size) < 0 {
		return fmt.Errorf("%s wanted, %s free", &size, &free)
	}
	free.Sub(size)
	p.free[segment] = free
	p.volumes[volume] = allotment{segment: segment, size: size}
	return nil
}

// giveBack returns the segment that has more free capacity now.
func (p *pools) giveBack(volume string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	allotted, taken := p.volumes[volume]
	if !taken {
		return "", false
	}
	delete(p.volumes, volume)
	free := p.free[allotted.segment].DeepCopy()
	free.Add(allotted.size)
	p.free[allotted.segment] = free
	return allotted.segment, true
}
