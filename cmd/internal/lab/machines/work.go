// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

func newQueue[T comparable](name string) workqueue.TypedRateLimitingInterface[T] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[T](20*time.Millisecond, time.Second),
		workqueue.TypedRateLimitingQueueConfig[T]{Name: name},
	)
}

// errNotYet asks for another try without being worth a line in the log.
var errNotYet = errors.New("not yet")

// work calls do for each item in the queue, for different items from several
// goroutines at once, until the context ends. An item that fails is tried again.
func work[T comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[T], workers int, do func(context.Context, T) error) {
	context.AfterFunc(ctx, queue.ShutDown)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				item, shutdown := queue.Get()
				if shutdown {
					return
				}
				if err := do(ctx, item); err != nil {
					logError(ctx, err)
					queue.AddRateLimited(item)
				} else {
					queue.Forget(item)
				}
				queue.Done(item)
			}
		})
	}
	group.Wait()
}

// logError leaves out what is usual: the retry after a conflict, and the end.
func logError(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, errNotYet) || apierrors.IsConflict(err) {
		return
	}
	klog.FromContext(ctx).Error(err, "Will be tried again")
}
