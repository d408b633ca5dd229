// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// patience is how long a test waits for what must happen. It bounds a failing
	// test and says nothing of speed.
	patience = 3 * time.Minute
	// pollInterval is the time between two looks.
	pollInterval = 50 * time.Millisecond
)

// Eventually returns when check says true. It fails the test, with what check
// said last, when that does not come to be at all.
func Eventually(ctx context.Context, t testing.TB, what string, check func(context.Context) (done bool, seen string)) {
	t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(ctx, pollInterval, patience, true, func(ctx context.Context) (bool, error) {
		done, seen := check(ctx)
		if ctx.Err() == nil {
			last = seen
		}
		return done, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v; last seen: %s", what, err, last)
	}
}
