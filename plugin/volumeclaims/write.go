// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/berth-scheduler/berth/internal/ledger"
)

const (
	// maxWrites is how often one object is written before the pod goes back to
	// the queue.
	maxWrites = 5
	// writeInterval is the time before the second write; it grows with each.
	writeInterval = 50 * time.Millisecond
)

// write makes the plan for one object true in the API.
//
// It sends patches of what it wants to change and nothing else, each for one
// resourceVersion: a write of somebody else is either seen and found harmless,
// or stops the plan, and is never overwritten, not even in fields that this
// program does not know.
type write[T metav1.Object] struct {
	plan    T
	entries *ledger.Ledger[T]
	read    func(context.Context, T) (T, error)
	patch   func(ctx context.Context, obj T, patch []byte) (T, error)
	// want returns what the object has to become, whether it is that already, and
	// an error when it can no longer be that.
	want func(now T) (next T, already bool, err error)
	// gone is the error for an object that was deleted or replaced.
	gone error
}

// commit starts from the object as it is in the store and returns the object as
// it was when it was found to be as planned.
func (w write[T]) commit(ctx context.Context, owner types.UID, now T) (done T, err error) {
	var none T
	var writeErr error
	for attempt := 1; ; attempt++ {
		next, already, err := w.want(now)
		if err != nil {
			return none, err
		}
		if already {
			w.entries.Wrote(owner, now)
			return now, nil
		}
		if attempt > maxWrites {
			return none, fmt.Errorf("gave up after %d attempts: %w", maxWrites, writeErr)
		}
		if attempt > 1 {
			if err := pause(ctx, time.Duration(attempt-1)*writeInterval); err != nil {
				return none, err
			}
		}
		patch, err := patchFor(now, next)
		if err != nil {
			return none, err
		}
		var written T
		if written, writeErr = w.patch(ctx, now, patch); writeErr == nil {
			w.entries.Wrote(owner, written)
			return written, nil
		}
		switch {
		case apierrors.IsConflict(writeErr), apierrors.IsNotFound(writeErr):
		case refused(writeErr):
			return none, writeErr
		default:
			w.entries.Doubt(w.plan.GetUID())
		}
		now, err = settle(ctx, w.entries, w.plan, w.read)
		if apierrors.IsNotFound(err) {
			return none, w.gone
		}
		if err != nil {
			return none, errors.Join(writeErr, err)
		}
	}
}

// refused is true for an error with which the API server says that it has not
// done what was asked.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// patchFor returns the patch that makes next of now, and that the API server
// refuses when now is not the object that it has.
func patchFor[T metav1.Object](now, next T) ([]byte, error) {
	before, err := json.Marshal(now)
	if err != nil {
		return nil, fmt.Errorf("encoding the object as it is: %w", err)
	}
	after, err := json.Marshal(next)
	if err != nil {
		return nil, fmt.Errorf("encoding the object as planned: %w", err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, now)
	if err != nil {
		return nil, fmt.Errorf("comparing the object with its plan: %w", err)
	}
	return precondition(patch, now)
}

func precondition(patch []byte, on metav1.Object) ([]byte, error) {
	var fields map[string]any
	if err := json.Unmarshal(patch, &fields); err != nil {
		return nil, fmt.Errorf("decoding the patch: %w", err)
	}
	metadata, ok := fields["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		fields["metadata"] = metadata
	}
	metadata["uid"] = on.GetUID()
	metadata["resourceVersion"] = on.GetResourceVersion()
	return json.Marshal(fields)
}
