// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-scheduler/berth/reason"
)

// explainer is a plugin that can say more than its Filter: every fact. It reads
// the state that its own PreFilter left behind; nil means that the pod fits.
type explainer interface {
	Explain(ctx context.Context, state fwk.CycleState, node fwk.NodeInfo) *reason.Rejection
}

// explainers are the plugins of a framework that can explain, by name.
type explainers map[string]explainer

// watch returns a registry of the same plugins, which notes those that can
// explain when the framework makes them.
func (e explainers) watch(registry frameworkruntime.Registry) frameworkruntime.Registry {
	watched := frameworkruntime.Registry{}
	for name, factory := range registry {
		watched[name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			plugin, err := factory(ctx, args, h)
			if known, ok := plugin.(explainer); ok && err == nil {
				e[name] = known
			}
			return plugin, err
		}
	}
	return watched
}
