// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/internal/gate"
	"github.com/berth-scheduler/berth/internal/live"
	"github.com/berth-scheduler/berth/volume"
)

// Name is the name of the plugin in a KubeSchedulerConfiguration.
const Name = "VolumeClaims"

// Plugin puts package volume behind the extension points of the scheduler.
type Plugin struct {
	handle      fwk.Handle
	client      kubernetes.Interface
	stores      *live.Volumes
	options     volume.Options
	scorer      scorer
	bindTimeout time.Duration
	holdFor     time.Duration
	holds       holds
	refusals    *refusals
	seeking     seeking
	// freed has word when less is drawn from a capacity than before.
	freed chan struct{}
	// deferredResize: pods may pass that run already and wait to be resized.
	deferredResize bool
	// lifetime ends with the scheduler. Undo works under it, since the context
	// of the pod that it cleans up after may be the reason why it is needed.
	lifetime context.Context
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.PreScorePlugin    = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.PreBindPlugin     = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// New makes the plugin. args is nil, a *runtime.Unknown with the JSON or YAML of
// Args, or any object with the JSON form of Args; an unknown field is an error.
// Plugins with the same informer factory share what they have reserved.
func New(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	parsed, err := readArgs(args)
	if err != nil {
		return nil, fmt.Errorf("args of plugin %s: %w", Name, err)
	}
	stores, err := live.For(ctx, h.SharedInformerFactory()).Volumes()
	if err != nil {
		return nil, fmt.Errorf("preparing plugin %s: %w", Name, err)
	}
	registerMetrics()
	p := &Plugin{
		handle:         h,
		client:         h.ClientSet(),
		stores:         stores,
		options:        parsed.options(),
		scorer:         scorer{static: parsed.StaticShape, dynamic: parsed.Shape},
		freed:          make(chan struct{}, 1),
		bindTimeout:    parsed.BindTimeout.Duration,
		holdFor:        defaultHold,
		refusals:       newRefusals(clock.RealClock{}),
		deferredResize: gate.Enabled(gate.DeferredResize),
		lifetime:       ctx,
	}
	stores.Draws.SettleWithin(parsed.CapacitySettle.Duration)
	stores.Draws.OnFree(p.noteFree)
	go p.wakeOnFree(ctx)
	return p, nil
}

// Name returns the name of the plugin.
func (p *Plugin) Name() string { return Name }

// SignPod makes pods alike whose volumes are, apart from those that the kubelet
// makes of ConfigMaps and Secrets: the others decide where a pod can go.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: fwk.VolumesSignerName, Value: fwk.VolumesSigner(pod)}}, nil
}
