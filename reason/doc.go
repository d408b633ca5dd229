// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reason holds every "no" that Berth can say, as data.
//
// A [Rejection] is made where the decision is made, by the engines in packages
// device and volume, and carries facts: which claim and request or volume, what
// was wanted, what was there, who holds the rest. It is turned into words late
// and in one place, this package:
//
//   - [Rejection.Error] is the one-line status that the scheduling framework
//     counts ("0/500 nodes are available: 12 not enough free devices"). It has
//     no value that differs from node to node, so that equal reasons group.
//   - [Write] is the long form with every fact, as `berth explain` and the
//     golden files of the engines print it.
//   - The JSON encoding of a Rejection is the machine's form of the same facts.
//
// # The closed list
//
// A [Code] is one of the constants of this package, each of exactly one [Kind].
// The kind says what follows from the "no" and is never mixed:
//
//   - [DoesNotFit]: all facts are known and the pod does not fit. Another node
//     may do, and evicting other pods may help.
//   - [CannotKnow]: something is being created or updated; asking again after
//     the next event may give another answer. Never a ground for eviction.
//   - [BrokenInput]: an object says something that cannot be followed. The
//     rejection names the object and the field. Never a ground for eviction.
//   - [OutOfBudget]: the search ended before it knew. Never reported as "does
//     not fit" and never a ground for eviction.
package reason
