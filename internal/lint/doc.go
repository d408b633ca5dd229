// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lint holds the rules of this repository that no linter knows, as
// tests: who may import whom, what the core may not do, and how a file begins.
package lint
