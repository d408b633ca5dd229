// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// unknownOutcome says whether a write that failed with err may have taken effect
// or may still do so: the answer was lost, not negative.
func unknownOutcome(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status().Code >= http.StatusInternalServerError
	}
	return !utilnet.IsConnectionRefused(err)
}

// backoff spaces attempts: each waits twice as long as the last, up to longest.
type backoff struct {
	first, longest time.Duration
}

var (
	// conflictBackoff is for writers that keep overtaking each other on a claim.
	conflictBackoff = backoff{first: 5 * time.Millisecond, longest: 500 * time.Millisecond}
	// settleBackoff is for reads that shall tell what became of a write.
	settleBackoff = backoff{first: 100 * time.Millisecond, longest: 10 * time.Second}
)

// maxConflicts is enough for every pod that may share a claim to come before.
const maxConflicts = 100

// wait returns nil when it is time for the next attempt, or the error of the
// context. Attempts are counted from 0.
func (b backoff) wait(ctx context.Context, attempt int) error {
	delay := min(b.first<<min(attempt, 16), b.longest)
	timer := time.NewTimer(delay/2 + rand.N(delay)/2)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
