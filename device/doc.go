// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

/*
Package device decides which devices of a node satisfy the ResourceClaims of a
pod (dynamic resource allocation with structured parameters, KEP 4381 and those
that extend it).

It is a library: facts go in, a decision comes out. It has no client, no clock, no
goroutine and no logger, and what it decides depends on its arguments alone.

# The problem

Drivers publish devices in ResourceSlices. A pod's claims ask for some of them: so
many of a DeviceClass, or all, or one of several alternatives in their order
(firstAvailable). A device has to be accepted by the CEL selectors of class and
request, its taints have to be tolerated, and it has to be there to be had:

  - Most devices serve one request of one claim. With adminAccess a request looks
    at a device that others have, and takes nothing.
  - Devices that allow multiple allocations are shared. Each share takes a part of
    their capacity, by the rules of the capacity (its requestPolicy).
  - Devices that consume shared counters, as the partitions of one GPU do, can be
    used as long as something is left of each counter, and may have to have a
    compatibility group in common.
  - Constraints compare what devices have: with matchAttribute all have a value of
    an attribute in common, with distinctAttribute no two have. An attribute may be
    a list, and may be derived from others by the request.

All claims of the pod have to be met on the same node, with at most 32 devices
each, or the pod cannot run there.

# The model

A [Pool] is what the slices of one pool say, compiled once and shared. A [Use] is
who holds devices of that pool. A [View] is all pools and uses of a cluster at one
moment; [View.Node] is the part of it that one node can see, a [NodeView].

	pool := device.CompilePool(slices)            // all slices of one pool
	use := device.CompileUse(pool.ID(), claims)   // the claims that hold its devices
	view := device.NewView([]device.PoolView{{Pool: pool, Use: use}})

The caller keeps a Pool for as long as its slices are the same objects, and a Use
for as long as its claims are: each is immutable. What selectors said, the values of
attributes, amounts as numbers, and what a Use leaves of its Pool are remembered
inside them, so a node costs what its own devices cost, however many others there
are. Pools that are alike in what is asked for share what they remember (share.go), so
that thousands of nodes do not fill the cache of the processor.

Only the newest generation of a pool counts, whichever node its slices are for. On
the nodes that it concerns, a pool is usable, incomplete (the newest generation
announces more slices than there are) or invalid (slices that disagree about how
many there are, more slices than announced, two devices or counter sets of one
name, counters that there are not, amounts that cannot be counted exactly, a node
selector that cannot be followed). No device of an unusable pool is ever taken.
That concerns its own nodes and no others.

What a Use leaves of counters is not known while a device is in use that its pool no
longer shows: it may still consume any of them. Until it is released, no device of
the pool that consumes counters is given to anybody.

Amounts are exact. A counter is counted in the largest unit of which it and all that
is consumed of it are whole numbers, a capacity in the smallest that leaves it below
2^53. What is not a whole number then is refused by name.

# The verbs

	View      NewView, View.Node
	Compile   the claims of one pod → Problem, or a rejection for every node
	Solve     a Problem on one node → Plan, or why not
	Explain   the same "why not", with all facts
	Results   a Plan → one AllocationResult per claim
	Verify    a Plan against the rules of the API

Reserve, Commit and Undo belong to the caller: a plan that is reserved is a claim
with an allocation that goes into the next Use.

[Problem.Solve] is read-only, safe to call for many nodes at once, and allocates
the plan and nothing else. Results are built for the node that is chosen; the IDs
of shares come from the caller.

# From a node to numbers

Devices are offered in a total order: by driver, pool, slice name, and then as the
slice lists them; pools with binding conditions come after all others.

 1. Sieve (sift.go). Each choice, that is a request or one of its alternatives, gets
    the set of devices that match it and the set of those that are free: not held,
    not tainted, with enough left of counters and capacity for it alone. A selector
    is evaluated once for all devices that look alike in what it reads
    (reads.go): 8,000 GPUs that differ in their serial number are one evaluation.
 2. Weigh (shortage.go). A choice that has too few is dead, and why is known. For all
    devices that is strict: every pool of the node has to be usable, every selector
    to succeed, every match to be free. A request whose choices are all dead is
    refused here, by counting. Most nodes that do not fit are.
 3. Ask (question.go, values.go). What is left is put into numbers: sets of devices,
    counters with what is left and what each device takes, the capacity of a shared
    device as counters of its own, values that constraints compare. Compatibility
    groups are one more match, over the groups as a list of values.

The numbers go to package internal/assign, whose documentation teaches the search:
first fit, then whether it can be done at all, then the best. A request that is alone
and under no constraint needs none of it, it has the first devices that are free.

The answer is the plan that [Options.Strategy] wants:

  - [InOrder]: request by request the first alternative, and of that the first
    devices, that leave enough for the rest. This is what a search finds that tries
    everything in order and goes back when it is stuck, as the allocator of
    Kubernetes does, which does not end when 24 alike devices are wanted and 23 are
    there.
  - [Packed], the default: the first alternatives that can be had, earlier claims
    and requests first, and then the devices that leave the most useful remainder to
    others: whole devices, large partitions, complete groups of the attributes in
    [Options.TopologyAttributes] and unshared devices are broken last. Ties go to
    the order.

Everything is counted in steps, a few nanoseconds each, and the budget of steps is
the only bound. When it ends before anybody knows whether there is a plan, the
rejection says so (SearchEnded), for that node; when it ends later, the plan is one
that works and maybe not the best.

# Why not

A node that is refused although each request could be met alone is asked again for
less (blame.go): for devices only, then with the limit of a claim, with counters, with
capacity, then with one constraint after the other. What makes the answer a no is the
reason: DevicesShared, ClaimTooLarge, CountersShort, CapacityShort or ConstraintUnmet. [Problem.Explain]
adds what it rests on: how many devices are in the class, match and are free, who
holds the others and what else is wrong with each, what is left of counters, how the
free ones are spread over the values of a constraint, and how many could be had.
Alternatives are explained each.

# An example

Eight GPUs, three on root A, five on root B, and a claim for four GPUs with the
same root. Each of the eight matches and is free: nothing is refused by counting.
First fit has the value A for the first device and is stuck with three. Can it be
done at all? Root A has three of the four devices that are wanted, so it does not
count; root B has five. So the plan is on B: the first four of it in order. If two of
B were held, neither root would have four. Asked for four devices only, the node
says yes; with the constraint it says no. So the rejection is ConstraintUnmet with

	wanted 4 · had 3
	8 in class · 8 match · 6 free
	by gpu.example.com/root: A 3 free, B 3 free
	at most 4 with one value, held or not
	held: gpu-3 gpu-4 ml/notebook (pod ml/notebook-0)

The files in testdata have many more, each with its answer.

# What is guaranteed

  - A plan breaks no rule of the API: [Verify] checks this with none of the code
    that made the plan.
  - If there is a plan it is found, and if there is none that is said, unless the
    budget ends first, which is said.
  - The same facts give the same plan, in whatever order they are passed in.
  - What is wrong on one node (a pool, a selector that fails there, the budget)
    fails that node only. A selector that fails on one device skips this device,
    and the plan has a [Warning]; only a request for all devices fails with it, and
    so does a derived attribute, as a constraint cannot do without it.
  - Nothing is done by half: what is switched off in [Features] is refused by the
    name of its gate, be it asked for by a claim (ClaimUnsupported) or taken by a
    device (DevicesUnsupported).

# Where it differs from the allocator of Kubernetes

It is more lenient where that fails a pod for one node's or one device's sake, and
stricter where that may overdraw: see the guarantees above, and counters of devices
that are no longer shown. adminAccess consumes nothing, of counters and capacity
neither. An alternative that cannot be had for whatever reason makes room for the
next one, also when it wants all devices and a pool is being updated.

# What it does not do

It does not choose between nodes and does not watch or write anything. Whether a
node has the allocatable resources that devices map to, and whether binding
conditions come true, is for the caller to find out. Amounts finer than their unit
and beyond 2^53 of it are refused. Problems whose counters and constraints cross in
ways that only trying can tell apart exist, and eat the budget; internal/assign says
which.
*/
package device
