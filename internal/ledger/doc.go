// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps the plans that the informer stores do not show yet.
//
// The stores are the truth about a cluster, but they lag: a claim that was
// planned a moment ago, or even written, still looks free in them. A [Ledger]
// bridges exactly that gap, for one kind of object. It is the only state that
// Berth keeps between scheduling cycles, and nothing of it is persisted: after
// a restart the API objects alone give the same picture.
//
// # The life of an entry
//
//	Reserve ──► Planned ──Wrote──► Written ──(the store caught up)──► gone
//	               │                  │
//	               ├──Undo──► gone    └──Undo by the last owner──┐
//	               └──Doubt──► Doubtful ◄────────────────────────┘
//	                              ├──Settle, Wrote──► Written
//	                              └──Gone──► gone
//
// An entry has owners, the pods that plan to use the object. Pods that share an
// object share its entry. As long as one owner is still at work the plan stays
// in force, even when another owner has written it already: whoever is late may
// have to write it again, so nobody else may get what it promises.
//
// A write whose outcome is unknown (timeout, cancelled context, lost answer)
// makes the entry doubtful. So does taking back something that was written,
// until the API server has answered. A doubtful entry keeps what it promises
// taken until a read of the object settles it; Undo never frees it.
//
// Entries are keyed by UID, so an object that was deleted and created again
// inherits nothing.
package ledger
