// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package draws remembers what claims take from CSIStorageCapacity objects that
// do not show it yet, so that no capacity is promised twice.
//
// A driver reports its free storage from time to time. A pod that is placed
// between two reports takes storage that the object still offers to the next
// pod. A [Book] holds that against it: what is free is what the object says, less
// what is drawn.
//
// # The life of a draw
//
//	Reserve ──► reserved ──Placed──► provisioning ──Bound, Gone──► settling ──► gone
//	               │                     │
//	               └──Undo──► gone       └──Unplaced──► gone
//
// A draw is reserved with its pod and ends when the last pod that reserved it
// gives up, unless the claim has been given to its provisioner. Then it lasts
// until the provisioner gives the claim back, or until the claim is bound and
// the object has changed once more or the settling time has passed.
//
// # Credit
//
// Drivers report when they have made the storage, before the volume exists as an
// object, and not at all when the number has not changed. A fall of the number is
// therefore credited to the draws: of draws of 3Gi each and a fall from 10Gi to
// 7Gi, one is no longer held against the object. Which one does not matter for
// the sum, so a capacity has one credit: the fall since its draws began, less
// any rise, at least nothing and at most their sum. It is told to the draws that
// settle first and then to the oldest. A draw that ends takes its credit along if
// it settled, and leaves it to the others if it was undone: then the fall was not
// its own.
//
// Two numbers that belong together are always read together: a Book is told of
// the object that is looked at before it says what is drawn from it.
package draws
