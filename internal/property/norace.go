// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package property

const checks = 2000
