// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/internal/ledger"
	"github.com/berth-scheduler/berth/internal/live"
)

// Name is the name of the plugin in configurations, events and metrics.
const Name = "DeviceClaims"

// selectorCacheSize is the number of CEL expressions kept compiled.
const selectorCacheSize = 256

// Plugin allocates ResourceClaims. Use New to make one; plugins of several
// profiles that have the same informer factory share what they know.
type Plugin struct {
	// ctx ends with the scheduler. What outlives a scheduling cycle ends with it.
	ctx       context.Context
	handle    fwk.Handle
	client    kubernetes.Interface
	dra       fwk.SharedDRAManager
	devices   *live.Devices
	ledger    *ledger.Ledger[*resourceapi.ResourceClaim]
	features  features
	options   device.Options
	conflicts backoff
	settling  backoff
	clock     clock.WithTicker
	failures  *failures
	overtaken *overtaken
	// bindingTimeout is how long after its allocation a claim may wait for its
	// devices to become ready.
	bindingTimeout time.Duration
	// besideInTree: the in-tree plugin allocates claims in this process too.
	besideInTree bool
}

var (
	_ fwk.PreEnqueuePlugin         = (*Plugin)(nil)
	_ fwk.EnqueueExtensions        = (*Plugin)(nil)
	_ fwk.PreFilterPlugin          = (*Plugin)(nil)
	_ fwk.PreFilterExtensions      = (*Plugin)(nil)
	_ fwk.FilterPlugin             = (*Plugin)(nil)
	_ fwk.PostFilterPlugin         = (*Plugin)(nil)
	_ fwk.PodGroupPostFilterPlugin = (*Plugin)(nil)
	_ fwk.PreScorePlugin           = (*Plugin)(nil)
	_ fwk.ScorePlugin              = (*Plugin)(nil)
	_ fwk.ReservePlugin            = (*Plugin)(nil)
	_ fwk.PreBindPlugin            = (*Plugin)(nil)
	_ fwk.SignPlugin               = (*Plugin)(nil)
)

// New makes the plugin for one profile. Args may be nil, the undecoded
// pluginConfig entry, or any object that has the fields of DeviceClaimsArgs. The plugin is in
// use until ctx ends; its indexes are added to the handle's informer factory,
// which is not started here.
func New(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	decoded, err := readArgs(args)
	if err != nil {
		return nil, err
	}
	if h.SharedDRAManager() == nil {
		return nil, fmt.Errorf("%s needs dynamic resource allocation, which is switched off", Name)
	}
	devices, err := live.For(ctx, h.SharedInformerFactory()).Devices()
	if err != nil {
		return nil, fmt.Errorf("set up %s: %w", Name, err)
	}
	registerMetrics()
	features := componentFeatures()
	realClock := clock.RealClock{}
	return &Plugin{
		ctx:      ctx,
		handle:   h,
		client:   h.ClientSet(),
		dra:      h.SharedDRAManager(),
		devices:  devices,
		ledger:   devices.Ledger(),
		features: features,
		options: device.Options{
			Features:           features.device,
			Strategy:           strategies[decoded.Strategy],
			TopologyAttributes: decoded.TopologyAttributes,
			Budget:             *decoded.StepBudget,
			Selectors:          device.NewSelectors(selectorCacheSize),
		},
		conflicts:      conflictBackoff,
		settling:       settleBackoff,
		clock:          realClock,
		failures:       newFailures(realClock),
		overtaken:      newOvertaken(),
		bindingTimeout: decoded.BindingTimeout.Duration,
	}, nil
}

// Name returns the name of the plugin.
func (p *Plugin) Name() string { return Name }

// SignPod refuses pods that need devices: where one of them fits says nothing
// about the next one, which finds fewer.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if p.needsDevices(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods that need devices are placed one by one")
	}
	return nil, nil
}
