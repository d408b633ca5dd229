// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	upstream "k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/internal/property"
	"github.com/berth-scheduler/berth/structured"
)

func TestMain(m *testing.M) { property.Main(m) }

// Wherever upstream's allocator comes to an end, ours has the same answer to the
// last field, with all features mixed.
func TestAllocateAnswersAsUpstreamDoes(t *testing.T) {
	caches := map[bool]*cel.Cache{}
	for _, lists := range []bool{false, true} {
		caches[lists] = cel.NewCache(100, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: lists})
	}
	placed, refused, failed, apart := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		cache := caches[w.features.ListTypeAttributes]
		// Upstream's search may not come to an end; ours does, however slow the machine.
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		theirs, err := w.ask(ctx, t, upstream.NewAllocator, cache)
		cancel()
		if deviates(err) {
			apart++
			return
		}
		ours, failure := w.ask(t.Context(), t, structured.NewAllocator, cache)
		switch {
		case err != nil:
			failed++
			if failure == nil || failure.Error() != err.Error() {
				t.Fatalf("%s\nupstream's error: %v\nours: %v", w, err, failure)
			}
			return
		case theirs == nil && failure != nil && strings.Contains(failure.Error(), "because a claim constraint would not be satisfied"):
			// Both refuse the node; upstream has met something else first.
			apart++
			return
		case failure != nil:
			t.Fatalf("%s\nerror: %v, where upstream has %d results", w, failure, len(theirs))
		case theirs == nil:
			refused++
		default:
			placed++
		}
		if diff := cmp.Diff(theirs, ours, equalQuantities, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s\n-upstream +ours:\n%s", w, diff)
		}
	})
	t.Logf("%d placed, %d refused, %d errors, %d left out", placed, refused, failed, apart)
	if placed == 0 || refused == 0 || failed == 0 {
		t.Errorf("%d placed, %d refused, %d errors: not everything was compared", placed, refused, failed)
	}
}

var equalQuantities = cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 && a.Format == b.Format })

type newAllocator func(context.Context, structured.Features, structured.AllocatedState, structured.DeviceClassLister,
	[]*resourceapi.ResourceSlice, *cel.Cache) (structured.Allocator, error)

// ask allocates, and puts one name in place of the random ones of shares.
func (w *world) ask(ctx context.Context, t *rapid.T, make newAllocator, cache *cel.Cache) ([]resourceapi.AllocationResult, error) {
	allocator, err := make(ctx, w.features, w.state, w, w.slices, cache)
	if err != nil {
		t.Fatalf("make an allocator: %v", err)
	}
	results, err := allocator.Allocate(ctx, w.node, w.claims)
	for i := range results {
		for j := range results[i].Devices.Results {
			if share := &results[i].Devices.Results[j].ShareID; *share != nil {
				*share = ptr.To(types.UID("share"))
			}
		}
	}
	return results, err
}

// deviates says whether upstream has given an answer that ours is not held to: none,
// or an error because the search did not go back to the choice that makes a request
// for all devices impossible, or go on to the next alternative.
func deviates(err error) bool {
	return err != nil && (errors.Is(err, context.DeadlineExceeded) ||
		strings.Contains(err.Error(), "because a claim constraint would not be satisfied") ||
		strings.Contains(err.Error(), "request a") && strings.Contains(err.Error(), "asks for all devices"))
}
