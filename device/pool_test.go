// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"testing"

	"github.com/berth-scheduler/berth/device"
)

// A pool whose last slice has gone can still be asked for its name.
func TestPoolWithoutSlicesHasNoName(t *testing.T) {
	if id := device.CompilePool(nil).ID(); id != (device.PoolID{}) {
		t.Errorf("ID() = %v, want none", id)
	}
}
