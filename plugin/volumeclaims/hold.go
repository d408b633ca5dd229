// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/reason"
)

// defaultHold is how long after its first failure a pod keeps what could not be
// written. The scheduler tries the pod again several times in that.
const defaultHold = time.Minute

// holds are what pods keep reserved between two attempts: of a pod's volumes some
// were written and the others could not be. The pod has to go where the written
// ones are, so nobody may take the others meanwhile. The plans stay in the
// ledgers, owned by the pod: its own next View finds its claims on their way, and
// its next Reserve joins the entries.
//
// A hold ends with the next Reserve, when the pod is gone, or when its time is up.
type holds struct {
	// mutex also makes one step of the end of a hold and what it takes out of the
	// ledgers, and of a Reserve and the end of the hold before it.
	mutex sync.Mutex
	byPod map[types.UID]*hold
}

type hold struct {
	steps steps
	until time.Time
	// stop ends the goroutine that watches over the hold.
	stop context.CancelFunc
}

// reserve enters the steps into the ledgers in place of what the pod holds, and
// returns until when it may hold on, zero if it did not hold anything.
func (p *Plugin) reserve(pod *v1.Pod, s steps) (until time.Time, err error) {
	p.holds.mutex.Lock()
	defer p.holds.mutex.Unlock()
	if err := p.stores.Reserve(pod.UID, s.plans(p.options.Capacity)); err != nil {
		return time.Time{}, err
	}
	h := p.holds.byPod[pod.UID]
	if h == nil {
		return time.Time{}, nil
	}
	delete(p.holds.byPod, pod.UID)
	h.stop()
	p.settleLater(p.undo(pod.UID, h.steps.without(s)))
	return h.until, nil
}

// hold keeps the steps reserved for the pod.
func (p *Plugin) hold(pod *v1.Pod, s steps, until time.Time) {
	ctx, cancel := context.WithCancel(p.lifetime)
	h := &hold{steps: s, until: until, stop: cancel}
	p.holds.mutex.Lock()
	if p.holds.byPod == nil {
		p.holds.byPod = map[types.UID]*hold{}
	}
	p.holds.byPod[pod.UID] = h
	p.holds.mutex.Unlock()
	go func() {
		defer cancel()
		if p.awaitEnd(ctx, pod, until) {
			p.letGo(pod, h)
		}
	}()
}

// awaitEnd returns true when the pod is gone or the time is up, and false when
// the context has ended before.
func (p *Plugin) awaitEnd(ctx context.Context, pod *v1.Pod, until time.Time) bool {
	changed, stop := p.stores.Watch([]reason.Ref{podRef(pod)})
	defer stop()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for p.stands(pod) {
		select {
		case <-changed:
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// letGo ends the hold, unless a Reserve has done so, and wakes those who may have
// waited for it.
func (p *Plugin) letGo(pod *v1.Pod, h *hold) {
	unsettled, held := p.endHold(pod, h)
	if !held {
		return
	}
	p.settleLater(unsettled)
	for _, class := range h.steps.classes() {
		p.wake(class)
	}
}

func (p *Plugin) endHold(pod *v1.Pod, h *hold) (unsettled []doubt, held bool) {
	p.holds.mutex.Lock()
	defer p.holds.mutex.Unlock()
	if p.holds.byPod[pod.UID] != h {
		return nil, false
	}
	delete(p.holds.byPod, pod.UID)
	return p.undo(pod.UID, h.steps), true
}
