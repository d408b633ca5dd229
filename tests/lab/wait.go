// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"testing"
	"time"
)

const (
	// patience is how long a test waits for what must happen while nothing changes. It
	// bounds a failing test and says nothing of speed.
	patience = 3 * time.Minute
	// pollInterval is the least time between two looks.
	pollInterval = 50 * time.Millisecond
)

// Eventually returns when check says true. It fails the test, with what check
// said last, when check has said the same for a long time.
//
// A check that takes long is made less often, so that looking does not keep the
// machine from what is waited for.
func Eventually(ctx context.Context, t testing.TB, what string, check func(context.Context) (done bool, seen string)) {
	t.Helper()
	last, changed := "", time.Now()
	for {
		start := time.Now()
		done, seen := check(ctx)
		if done {
			return
		}
		if seen != last {
			last, changed = seen, time.Now()
		}
		if time.Since(changed) > patience {
			t.Fatalf("waiting until %s: nothing changes any more; last seen: %s", what, last)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v; last seen: %s", what, context.Cause(ctx), last)
		case <-time.After(max(pollInterval, 4*time.Since(start))):
		}
	}
}
