// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live makes the inputs of the engines from informer stores.
//
// Facts are read through index functions (claims by pool, for example), never
// collected by event handlers, so there is no second queue that could lag behind
// the stores. What is derived from them (compiled pools, their use) is memoised
// and valid only while the very objects that it came from are still the ones in
// the store: pointers are compared, not times.
//
// The one exception is what claims draw from storage that does not show it yet:
// that rests on the order of changes, so package draws is told of them by event
// handlers. It is told again of each object that is looked at, and whoever has
// been refused in between is woken.
//
// There is one [Stores] for each informer factory, whatever the number of
// scheduler profiles. It also holds the ledgers, so that all profiles see what
// any of them has planned. Where a store and a ledger both know an object, the
// newer one counts.
package live
