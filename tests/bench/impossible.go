// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	upstream "k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/structured"
)

// Requests that miss by one device, or by one unit of a counter, and their twins
// that just fit; then requests that fit where a search that tries devices in order
// gets lost. The figures are for a new allocator and one answer.
func init() {
	for _, n := range []int{16, 20, 24, 32} {
		twins(fmt.Sprintf("count-%d", n), n, func(spare int) *question {
			return plain(one(request("r", int64(n))), n-1+spare, nil)
		})
	}
	for _, n := range []int{6, 8, 9, 10, 11, 12} {
		twins(fmt.Sprintf("requests-%d", n), n, func(spare int) *question {
			return plain(claimOf(n, 1), n-1+spare, nil)
		})
	}
	for _, c := range []struct{ count, groups int }{{4, 8}, {8, 16}} {
		twins(fmt.Sprintf("match-%d-in-%d-groups", c.count, c.groups), c.count, func(spare int) *question {
			// One group has one device more, the last one.
			short := c.groups * (c.count - 1)
			return plain(one(request("r", int64(c.count)), match("group")), short+spare, grouped(func(i int) int {
				if i == short {
					return c.groups - 1
				}
				return i % c.groups
			}))
		})
	}
	for _, n := range []int{7, 14, 21, 64} {
		twins(fmt.Sprintf("distinct-8-of-7-values-%d", n), 8, func(spare int) *question {
			return plain([]*resourceapi.ResourceClaim{claim("claim",
				[]resourceapi.DeviceRequest{request("a", 4), request("b", 4)}, distinct("group"))},
				n+spare, grouped(func(i int) int {
					if i == n {
						return 7
					}
					return i % 7
				}))
		})
	}
	for _, c := range []struct {
		devices int
		counts  []int64
	}{{8, []int64{7, 6, 5}}, {12, []int64{9, 8, 7}}, {16, []int64{12, 10, 9}}} {
		// The twin has as many devices as the smallest alternatives want.
		least := 2 * int(c.counts[2])
		twins(fmt.Sprintf("alternatives-%d", c.devices), least, func(spare int) *question {
			return plain([]*resourceapi.ResourceClaim{claim("claim", []resourceapi.DeviceRequest{
				alternatives("a", c.counts...), alternatives("b", c.counts...),
			})}, c.devices+spare*(least-c.devices), nil)
		})
	}
	twins("two-claims-groups-4-3-3-3-3", 8, func(spare int) *question {
		return plain(rackAndNuma(1), 16+spare, func(i int, d *resourceapi.Device) {
			group := 0
			if i >= 4 {
				group = 1 + min((i-4)/3, 3)
			}
			setInt(d, "rack", group/2)
			setInt(d, "numa", group%2)
		})
	})
	twins("two-claims-groups-8-7-1", 16, func(spare int) *question {
		return plain(rackAndNuma(2), 16+spare, func(i int, d *resourceapi.Device) {
			setInt(d, "rack", min(i/8, 1))
			setInt(d, "numa", 0)
			if i == 15 {
				setInt(d, "numa", 1)
			}
		})
	})
	for _, gpus := range []int{1, 2, 3, 4, 8} {
		halves := 2*gpus - 1
		twins(fmt.Sprintf("mig-%d-gpus-%d-halves", gpus, halves), halves+4, func(spare int) *question {
			return migOf(gpus, part{"half", halves}, part{"small", 5 - spare})
		})
	}
	twins("mig-quarters-smalls", 6, func(spare int) *question {
		return migOf(1, part{"quarter", 2}, part{"small", 5 - spare})
	})
	twins("mig-8-wholes-1-small", 8, func(spare int) *question {
		return migOf(8, part{"whole", 8 - spare}, part{"small", 1})
	})
	for _, gpus := range []int{1, 2, 3, 4} {
		twins(fmt.Sprintf("mig-%d-gpus-%d-quarters", gpus, 2*gpus), 6*gpus, func(spare int) *question {
			return migOf(gpus, part{"quarter", 2 * gpus}, part{"small", 4*gpus + 1 - spare})
		})
	}
	for _, count := range []int{9, 32} {
		answered(fmt.Sprintf("possible/mig-any-%d", count), func() *question {
			return mig(count, one(request("r", int64(count))))
		})
	}
}

// twins registers a question that has no answer and, with one more to spare, one
// that has so many devices.
func twins(name string, devices int, ask func(spare int) *question) {
	answered("impossible/"+name, func() *question { return ask(0) })
	answered("possible/"+name, func() *question {
		q := ask(1)
		q.devices = devices
		return q
	})
}

func answered(name string, ask func() *question) {
	register(name, "ms", func() (side, side, error) {
		q := ask()
		upstreams, ours := q.factory(upstream.NewAllocator), q.factory(structured.NewAllocator)
		return millisecondsUntilLimit(func(ctx context.Context) { _, _ = upstreams().Allocate(ctx, q.node, q.claims) }),
			milliseconds(func() { _, _ = ours().Allocate(context.Background(), q.node, q.claims) }),
			q.check(ours())
	})
}

func plain(claims []*resourceapi.ResourceClaim, devices int, change func(int, *resourceapi.Device)) *question {
	return onNode(0, claims, gpuSlice(nodeName(0), devices, change))
}

// claimOf is a claim with so many requests.
func claimOf(requests int, count int64, constraints ...resourceapi.DeviceConstraint) []*resourceapi.ResourceClaim {
	return []*resourceapi.ResourceClaim{claim("claim", many(requests, count), constraints...)}
}

func many(requests int, count int64) []resourceapi.DeviceRequest {
	var all []resourceapi.DeviceRequest
	for i := range requests {
		all = append(all, request(fmt.Sprintf("r%d", i), count))
	}
	return all
}

// rackAndNuma is two claims of four requests, each claim within one rack and one
// NUMA node.
func rackAndNuma(count int64) []*resourceapi.ResourceClaim {
	return []*resourceapi.ResourceClaim{
		claim("a", many(4, count), match("rack"), match("numa")),
		claim("b", many(4, count), match("rack"), match("numa")),
	}
}

type part struct {
	profile string
	count   int
}

// migOf wants partitions of so many free GPUs.
func migOf(gpus int, parts ...part) *question {
	var requests []resourceapi.DeviceRequest
	for _, p := range parts {
		requests = append(requests, request(p.profile, int64(p.count), ofProfile(p.profile)))
	}
	return onNode(0, []*resourceapi.ResourceClaim{claim("claim", requests)}, migSlices(nodeName(0), gpus)...)
}
