// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults lets calls to an API server in memory go wrong. It is for tests:
//
//	calls := faults.At(fault, n)        // the nth call goes wrong in this way
//	client.PrependReactor("*", resource, ... calls.Do(func() (runtime.Object, error) { ... }))
//
// A test tells one story again and again, with another call going wrong each time,
// until there is no such call any more. [Watches] hold back what the informers see.
package faults
