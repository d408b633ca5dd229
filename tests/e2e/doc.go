// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests Berth's programs on a real control plane.
//
// Each test starts a lab of its own from the prebuilt binaries (`make build`),
// creates objects as users and controllers do, and judges by what the API
// server holds in the end, never by what the scheduler says of itself. The
// invariants at the end of every test are in invariants_test.go.
package e2e
