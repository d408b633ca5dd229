// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/tests/lab"
)

// Eight pods with two local volumes and a provisioned one each take all sixteen
// local volumes of the lab, whatever goes wrong on the way: no claim has two
// volumes and no volume two claims. When they are gone, eight others do the same
// with the same scheduler: nothing stayed reserved.
func TestVolumes(t *testing.T) {
	cluster := lab.Start(t, lab.Options{Profile: "testdata/disks-and-pools.yaml", Scheduler: lab.None})
	client := cluster.Client
	for _, fault := range []fault{fails, slow, lost} {
		for _, at := range positions() {
			t.Run(fmt.Sprintf("every third write %s, from %d", fault, at), func(t *testing.T) {
				proxy := newProxy(t, cluster, "persistentvolumes", "persistentvolumeclaims")
				proxy.strike(fault, 3, at%3)
				cluster.StartScheduler(t, "--kubeconfig="+proxy.kubeconfig)
				placeAll(t.Context(), t, client)
				if proxy.hits() == 0 {
					t.Error("no write was struck")
				}
				proxy.strike(none, 0, 0)
				releaseAll(t.Context(), t, client)
				placeAll(t.Context(), t, client)
				releaseAll(t.Context(), t, client)
			})
		}
	}
	t.Run("informers are held back", func(t *testing.T) {
		proxy := newProxy(t, cluster, "persistentvolumes", "persistentvolumeclaims")
		cluster.StartScheduler(t, "--kubeconfig="+proxy.kubeconfig)
		stop := proxy.holdNowAndThen()
		placeAll(t.Context(), t, client)
		releaseAll(t.Context(), t, client)
		stop()
		placeAll(t.Context(), t, client)
		releaseAll(t.Context(), t, client)
	})
	t.Run("the scheduler is killed", func(t *testing.T) {
		scheduler := cluster.StartScheduler(t)
		createPods(t.Context(), t, client)
		for _, bound := range []int{1, 4, 7} {
			lab.Eventually(t.Context(), t, fmt.Sprintf("%d pods have a node", bound), podsWithNode(client, bound))
			scheduler.Kill(t)
			lab.CheckVolumes(t.Context(), t, client)
			scheduler = cluster.StartScheduler(t)
		}
		lab.Eventually(t.Context(), t, "all pods run", podsRun(client))
		lab.CheckVolumes(t.Context(), t, client)
		releaseAll(t.Context(), t, client)
		placeAll(t.Context(), t, client)
		releaseAll(t.Context(), t, client)
	})
}

// positions are the writes that a fault begins with.
func positions() []int {
	if os.Getenv("BERTH_LONG") != "" {
		return []int{0, 1, 2}
	}
	return []int{1}
}

// holdNowAndThen holds the informers back half of the time, until stop is called.
func (p *proxy) holdNowAndThen() (stop func()) {
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer p.held.Store(false)
		for {
			p.held.Store(!p.held.Load())
			select {
			case <-done:
				return
			case <-time.After(slowness):
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func placeAll(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	createPods(ctx, t, client)
	lab.Eventually(ctx, t, "all pods run", podsRun(client))
	lab.CheckVolumes(ctx, t, client)
}
