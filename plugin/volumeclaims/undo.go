// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storage "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/ledger"
)

const (
	// readTimeout bounds the read that settles a write of unknown outcome.
	readTimeout = 10 * time.Second
	// settleFirst is the time before another attempt at it; it doubles with each
	// until it is settleLongest.
	settleFirst   = 100 * time.Millisecond
	settleLongest = 10 * time.Second
)

// doubt is an entry whose last write nobody knows the outcome of.
type doubt struct {
	class  string
	settle func(context.Context) error
}

// Unreserve takes back what Reserve entered. What was written already is left to
// the PersistentVolume controller, as a claimRef or selected node that nobody
// waits for does no harm; the ledger forgets it when the store shows it. When a
// part was written and a part could not be, the pod keeps the rest for its next
// attempt (see holds). It may be called at any time, also again.
//
// The scheduler wakes other pods when Unreserve returns. A write in doubt is
// therefore settled before that, unless the API server does not answer: then the
// volume stays reserved and the attempts go on until it does.
func (p *Plugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	c, err := readCycle(state)
	if err != nil || c == nil {
		return
	}
	p.holdRest(c, pod)
	var unsettled []doubt
	for _, d := range p.undo(pod.UID, c.steps) {
		if err := d.settle(p.lifetime); err != nil {
			klog.FromContext(ctx).Error(err, "Volumes stay reserved until the API server answers", "pod", klog.KObj(pod))
			unsettled = append(unsettled, d)
		}
	}
	p.settleLater(unsettled)
}

// holdRest keeps what could not be written of a plan that was written in part.
func (p *Plugin) holdRest(c *cycle, pod *v1.Pod) {
	open, closed := c.steps.split()
	if open.empty() || !closed.wrote() || !p.stands(pod) {
		return
	}
	if c.holdUntil.IsZero() {
		c.holdUntil = time.Now().Add(p.holdFor)
	}
	if time.Now().After(c.holdUntil) {
		return
	}
	c.steps = closed
	p.hold(pod, open, c.holdUntil)
}

// undo takes the pod out of the entries for the steps and returns those that are
// in doubt by that.
func (p *Plugin) undo(owner types.UID, s steps) []doubt {
	var unsettled []doubt
	for _, b := range s.bindings {
		if settle := undo(p.stores.BoundVolumes, owner, b.plan, p.readVolume); settle != nil {
			unsettled = append(unsettled, doubt{storage.GetPersistentVolumeClass(b.plan), settle})
		}
	}
	for _, d := range s.provisions {
		settle := undo(p.stores.PlacedClaims, owner, d.plan, p.readClaim)
		if settle == nil {
			p.undoDraw(owner, d)
			continue
		}
		unsettled = append(unsettled, doubt{storage.GetPersistentVolumeClaimClass(d.plan), func(ctx context.Context) error {
			if err := settle(ctx); err != nil {
				return err
			}
			p.undoDraw(owner, d)
			return nil
		}})
	}
	return unsettled
}

// undoDraw gives back what the claim was to draw from a capacity. Whether its
// provisioner is at work must be known by then.
func (p *Plugin) undoDraw(owner types.UID, d *provision) {
	p.stores.UndoDraws(owner, []*v1.PersistentVolumeClaim{d.plan})
}

// undo takes the owner out of the entry for the plan. When a write is in doubt
// then, it returns the read that settles it: other owners, which may have written
// what they had to, have no reason to.
func undo[T metav1.Object](entries *ledger.Ledger[T], owner types.UID, plan T, read func(context.Context, T) (T, error)) func(context.Context) error {
	entries.Undo(owner, plan.GetUID())
	if !doubtful(entries, plan) {
		return nil
	}
	return func(ctx context.Context) error {
		if !doubtful(entries, plan) {
			return nil // another pod has settled it
		}
		_, err := settle(ctx, entries, plan, read)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
}

func doubtful[T metav1.Object](entries *ledger.Ledger[T], plan T) bool {
	return entries.State(plan.GetUID()) == ledger.Doubtful
}

// settle reads the object of a plan and tells the ledger. It returns a NotFound
// error when the object is gone, also when another has taken its name.
//
// A write names the resourceVersion it applies to, so one that arrives after
// this read is refused if anybody else has written the volume or claim by then.
func settle[T metav1.Object](ctx context.Context, entries *ledger.Ledger[T], plan T, read func(context.Context, T) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	obj, err := read(ctx, plan)
	if err == nil && obj.GetUID() != plan.GetUID() {
		err = apierrors.NewNotFound(v1.Resource("object"), plan.GetName())
	}
	if err != nil {
		if apierrors.IsNotFound(err) {
			entries.Gone(plan.GetUID())
		}
		var none T
		return none, err
	}
	entries.Settle(obj)
	return obj, nil
}

// settleLater settles in the background, and then wakes the pods that were kept
// waiting: the API has no event for it.
func (p *Plugin) settleLater(unsettled []doubt) {
	for _, d := range unsettled {
		go func() {
			if keepSettling(p.lifetime, d.settle) {
				p.wake(d.class)
			}
		}()
	}
}

// keepSettling returns false when the context ended before it could.
func keepSettling(ctx context.Context, settle func(context.Context) error) bool {
	for delay := settleFirst; ; delay = min(2*delay, settleLongest) {
		if pause(ctx, delay) != nil {
			return false
		}
		if settle(ctx) == nil {
			return true
		}
	}
}

func (p *Plugin) readVolume(ctx context.Context, pv *v1.PersistentVolume) (*v1.PersistentVolume, error) {
	return p.client.CoreV1().PersistentVolumes().Get(ctx, pv.Name, metav1.GetOptions{})
}

func (p *Plugin) readClaim(ctx context.Context, claim *v1.PersistentVolumeClaim) (*v1.PersistentVolumeClaim, error) {
	return p.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
}
