// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"errors"
	"maps"
	"math"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/ledger"
)

// settleLater reads the claim of a doubtful entry until it is known what became
// of it, in the background. It takes nothing back that the API server has: the
// pod is tried again meanwhile and may count on it, and what no pod needs is
// released by PostFilter and by Kubernetes' resourceclaim controller.
func (p *Plugin) settleLater(b *binding) {
	if p.ledger.State(b.uid()) != ledger.Doubtful {
		return
	}
	go func() {
		for attempt := 0; ; attempt++ {
			if p.settling.wait(p.ctx, attempt) != nil {
				return
			}
			if p.ledger.State(b.uid()) != ledger.Doubtful {
				return // another pod's attempt has settled it
			}
			err := p.settle(p.ctx, b)
			if err == nil {
				p.observeLedger()
				p.wakeWaiting(math.MaxInt32)
				return
			}
			klog.FromContext(p.ctx).V(3).Info("It is still unknown what became of a write", "claim", klog.KObj(b.seen), "err", err)
		}
	}()
}

// wakeWaiting lets pods up to a priority try again that may be waiting for devices
// which nobody keeps from them any more: those of a claim that was in doubt, or that
// were left for a pod which went elsewhere. No event of the API tells them.
func (p *Plugin) wakeWaiting(priority int32) {
	logger := klog.FromContext(p.ctx)
	pods, err := p.devices.Waiting()
	if err != nil {
		logger.Error(err, "Cannot wake the pods that wait for devices")
		return
	}
	maps.DeleteFunc(pods, func(_ string, pod *v1.Pod) bool { return corev1helpers.PodPriority(pod) > priority })
	p.handle.Activate(logger, pods)
}

func (p *Plugin) settle(ctx context.Context, b *binding) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	if b.mappings != nil {
		return p.discard(ctx, b) // only Undo leaves it in doubt
	}
	claim, err := p.read(ctx, b)
	switch {
	case errors.Is(err, errDeleted), errors.Is(err, errRecreated):
		p.ledger.Gone(b.uid())
		return nil
	case err != nil:
		return err
	case claim.Status.Allocation == nil:
		return p.closeFree(ctx, claim)
	}
	p.ledger.Settle(claim)
	return nil
}
