// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

/*
Package structured stands in for k8s.io/dynamic-resource-allocation/structured of
Kubernetes v0.37: the same NewAllocator, the same types (they are upstream's own), the
same answers, found by package device. A scheduler or an autoscaler that imports
upstream's package imports this one instead and changes nothing else.

	allocator, err := structured.NewAllocator(ctx, features, state, classes, slices, celCache)
	results, err := allocator.Allocate(ctx, node, claims)

# What is the same

Where upstream's search ends, Allocate has the very same result: alternatives, devices
and their order, share IDs (new random ones), consumed capacity, configuration, node
selector. It returns nil without an error when the claims do not fit, and upstream's
errors in upstream's words where upstream has one, also when it meets them half-way: a
selector that fails on a device is an error if the search in order looks at that device
before it is done.

# What is different

Upstream tries devices one after the other until its context ends. Here a search ends
by itself, mostly after microseconds, at the latest when its budget of steps is used
up. So requests that upstream gives up on are answered, the context is looked at only
before the search, and GetStats, which counts upstream's trials, is missing.

An error that concerns one node wraps ErrFailedAllocationOnNode, so that other nodes
are tried; upstream has it for invalid pools only:

  - a request for all devices that meets a pool which is being updated or invalid;
  - a selector that fails on a device, a derived attribute that does, or a capacity
    that cannot be computed;
  - a request for all devices that a constraint makes impossible, whatever else is
    wrong with it (upstream says so only if it meets nothing else before), and one that
    finds more than a claim may hold;
  - a node selector of a slice that cannot be followed;
  - a search whose budget ends. Upstream has no such error; its context ends.

Besides, these answers differ, as upstream's are wrong:

  - A device that is allocated and that its pool no longer shows may still consume the
    pool's counters. No device that consumes any is allocated until it is released.
  - A use with adminAccess takes nothing: no counters, no capacity, and not the device
    from other claims of the same pod. It has no ConsumedCapacity.
  - Slices of a pool that disagree about resourceSliceCount make the pool invalid.
  - A slice whose node selector has more than one term makes its pool invalid on the
    nodes that it selects; devices of other pools can still be had there.
  - An alternative that wants all devices and cannot have them, because of a constraint
    or of a pool, is passed over for the next one. A request for all devices that
    conflicts with an earlier choice makes the search go back to that.
  - A pool of which a newer generation has been seen is outdated everywhere, also on
    nodes where only slices of the older one are visible. Two cases of upstream's table
    say otherwise, multi-host-resource-pool-complete-update-from-node-1-to-node-2 and
    multi-host-resource-pool-incomplete-update-from-node-1-to-node-2: they allocate
    devices of generation 1 on the one node while generation 2 is there for the other.
  - A selector or derived attribute that does not compile is an error even if no device
    would have been asked about.
  - A list is no value of an attribute while ListTypeAttributes is off. Upstream takes
    the first device of a constraint whatever its value is.
  - While a counter is overdrawn, or devices in use of one counter set have no
    compatibility group in common, only what consumes from that counter set is refused,
    not all of the pool.

# What it remembers

Compiled pools, selectors and the last question are kept with the cel.Cache that
NewAllocator is given, which is the one thing that outlives an allocator. They are
valid for the very objects that they were made of. See [NewAllocator] for what that
asks of the caller.
*/
package structured
