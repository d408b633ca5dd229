// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduler is kube-scheduler's own command with Berth's plugins in it.
//
// The queue, the cache, preemption, leader election, serving and every flag are
// kube-scheduler's. What differs is which plugins a profile has, see package
// profile.
package scheduler
