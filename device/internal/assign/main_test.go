// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"testing"

	"github.com/berth-scheduler/berth/internal/property"
)

func TestMain(m *testing.M) { property.Main(m) }
