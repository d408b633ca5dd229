// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

/*
Package assign decides which devices each request gets. It knows nothing of
Kubernetes: a [Problem] is numbers and sets, and a [Solver] answers it.

# The problem

Each request is met by one of its choices, and a choice wants a number of its
candidates. A device is used once, unless it is shared. What a use takes from
counters has to be there. Constraints want the devices of several requests to have
a value in common (Match), or no value twice (Distinct). And a claim may only have
so many devices.

A search that gives devices one by one, and goes back when it is stuck, is right
but does not end: that 24 alike devices are not to be had of 23 it finds after
trying 23! ways. What follows never looks at devices one by one where they are
alike.

# The steps

 1. First fit (firstfit.go). Each request makes its first choice and takes the first
    devices that are left to it. If that works out nothing comes before it in order,
    and it is the answer of InOrder; it is that of Packed as well, if there is
    nothing to pack. Most pods need no more than this.
 2. Can it be done at all? (complete.go) The answer to this question is a witness,
    one way to do it, or that there is none.
 3. InOrder (inorder.go): walk through requests, choices and devices in order, and
    take whatever the rest can still be completed with: step 2 again. Mostly it is
    not asked, as the witness has the device already, or can be repaired to have it
    by changing two devices. A device that is refused takes along all those that
    are alike.
 4. Packed (packed.go): make the first choices that can be completed, then find the
    best devices for them.

# Can it be completed?

A state (state.go) is what has been decided so far: choices, values of Match that
are pinned, devices that are taken. It is relaxed, solved, and split:

Relaxed: what makes it hard is left out. Constraints that are open do not count,
though the devices that are against pinned values, or against devices taken, are
no candidates any more (hold.go, pay.go). A request that has not chosen wants the
least that any of its choices does, of what all of them accept. Requests that want
the same devices on the same terms become one want (wants.go).

Solved: exactly, see below. If the relaxed state cannot be met, neither can the
state. If what was found keeps to the constraints anyway, that is the witness.

Split: otherwise there is something to decide, and what has the fewest options is
decided first: an open Match, whose options are the values that each of its
requests has enough devices of (values.go), or an open choice. Each option makes a
new state.

Two things keep the number of states small. A value that looks like one that was
refused is skipped. And a state that looks like one that was refused is refused.
What looks the same is decided by a portrait (portrait.go): a description of all
that can still matter, without the names of devices, counters and values.

# How a relaxed state is solved

A use of a device takes from resources: counters, and the values of Distinct
constraints, of which there is one each (uses.go). Resources that cannot run out
are forgotten. Devices that take from the same resources make a cluster
(clusters.go), for example the partitions of one GPU. Clusters do not depend on each
other. A device that takes from no resource, and is used once, is plain.

For each cluster its fills are computed (fills.go): the ways to give devices of it
to the wants. Devices of the cluster that are the same in everything form a lot, and
of a lot only numbers are given. Rows that are no better than another in anything
are dropped after each lot, so few are left in the end. Clusters that look the same
have the same fills, and these are computed once, whichever wants use them. A cluster
that can give a want three devices can give it two, so only the best fills are kept.

Distinct constraints join clusters that are easy for themselves, such as GPUs. So a
state is first solved without them, and with them only if it can be met and what was
found does not keep to them.

Then the fills are combined (combine.go): cluster by cluster, one of its fills is
taken off the demand. All that matters later is how much demand is left, so a rest
that was found hopeless before a cluster is not tried there again; and it is hopeless
at once if all clusters that follow have too few devices for a want, or in total, or
if the rest weighs more than they hold (scale.go).
The last rest has to be met by the plain devices. That is a matching along
augmenting paths (matching.go).

Without counters and constraints all devices are plain, and the matching is all
there is to it.

Before all this come tests that cost little: each request needs enough devices for
itself, and each Distinct constraint enough values (seats.go).

# An example

Two GPUs, each with a memory of 80 and 7 slices, and with 14 partitions: one whole
(80, 7), two halves (40, 3), four quarters (20, 1), seven smalls (10, 1). Wanted are
four quarters and eight smalls.

First fit puts the quarters on the first GPU: its memory is used up, and the second
has room for seven smalls by its slices. It is stuck with one missing.

Two wants then, quarters × 4 and smalls × 8. The devices of a GPU take from the same
two counters, so each GPU is a cluster. Both look the same. A lot of four quarters
and one of seven smalls remain of it, as nobody wants the others. After the first
lot there are five rows: 0 to 4 quarters, with memory 80, 60, 40, 20, 0 left. After
the second the fills (quarters, smalls) are

	(0,7) (1,6) (2,4) (3,2) (4,0)

Combined: (0,7) of the first GPU leaves (4,1), more than the second can do: its
fills end at four quarters and no small. (1,6) leaves (3,2), which is a fill of the
second. That is the witness. One small more is wanted: (4,9). (0,7) leaves (4,2),
(1,6) leaves (3,3), (2,4) leaves (2,5), (3,2) leaves (1,7), (4,0) leaves (0,9), and
none of these is within a fill of the second GPU: impossible, after five trials.

InOrder goes on: the first quarter is on the first GPU in the witness. For the second
quarter, the next partition there is not in the witness, and exchanging it does not
work out; the question is asked again, with one more quarter on the first GPU: (2,4)
and (2,4) complete it. So it is accepted. And so on, until each quarter and each
small is on the first partition that leaves enough for the others: three quarters
and two smalls on the first GPU, one quarter and six smalls on the second.

# What Packed prefers

After the first choices that can be made, of all ways to give devices to them, the
one whose price is the smallest. The price is compared column by column:

 1. How many whole devices are broken. The devices that are joined by counters that
    they charge make up one device; it is whole while all of them are idle.
 2. By how much the largest partition that is left of each shrinks, in total. That
    is the largest idle partition at the start that what is left of the counters
    would pay for. The size of a partition is the number of devices beside it that
    take no more than it does of any counter.
 3. For each level of the topology, the more important first: over how many groups
    the devices of each request are spread, for those that want more than one; a
    device in no group counts as a group. Then how many groups are broken that were
    complete, that is all of whose devices were idle.
 4. How many idle devices that could be shared are taken.

To observe a device costs nothing. Of those that are equally cheap it is one that
fills earlier clusters first and, of each lot, takes earlier devices first; then
whatever can be had for nothing by exchanging single devices for earlier ones
(tidy.go). Where nothing has a price, it is the first in order.

It is the same search: rows have a price, a row is no better than another only if it
is not cheaper either, and the combination looks for the cheapest fills (packed.go,
packing.go, unit.go). By weight it is known how many whole devices have to be broken
at least; fills are first looked for that break no more, as mostly there are some. A
state that cannot be completed at a lower price than the best so far is not split.

Groups of the topology make large clusters of small ones. Where that takes too long,
what has other prices as well is packed again without the topology, and the better of
both is the answer. Each may spend a part of the budget only, one in 32.

# Steps

Everything is counted in steps of a few nanoseconds, and the budget of steps is the
only bound. If it ends in step 2, nobody knows the answer (Ended); if it ends later,
the witness is the answer, though maybe not the one that was wanted (Settled).
There will always be problems on which it ends, as packing into several counters at
once is hard in theory, and so are Distinct constraints that cross each other.

# Why not

What makes a problem impossible is found out by whoever asks, who leaves out one
thing after the other and asks again. [Solver.Core] does this with requests. It asks
many questions, and is meant for when somebody wants to know.
*/
package assign
