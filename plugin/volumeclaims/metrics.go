// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"errors"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-scheduler/berth/reason"
)

const metricsSubsystem = "berth_volume_claims"

// stage is a part of the work for one pod that is measured by itself.
type stage string

const (
	// stageCompile: View and Compile, once for a pod.
	stageCompile stage = "compile"
	// stageFind: Solve on one node.
	stageFind stage = "find"
	// stageAssume: Reserve.
	stageAssume stage = "assume"
	// stageBindAPI: one object written, with all retries.
	stageBindAPI stage = "bind_api"
	// stageBindProvisioning: from then until a claim has the volume made for it.
	stageBindProvisioning stage = "bind_provisioning"
	// stageBindWaiting: from then until a claim is bound to an existing volume.
	stageBindWaiting stage = "bind_waiting"
)

var stages = []stage{stageCompile, stageFind, stageAssume, stageBindAPI, stageBindProvisioning, stageBindWaiting}

// scope is what was refused: a node, or the pod on all of them.
type scope string

const (
	scopePod  scope = "pod"
	scopeNode scope = "node"
)

// What Commit counts beside the Ends.
const (
	endBound  = "Bound"
	endFailed = "WriteFailed"
)

var (
	stageSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: metricsSubsystem,
		Name:      "stage_duration_seconds",
		Help:      "How long the stages of placing and binding the volumes of a pod take.",
		// From 4 µs, where a node is solved, to 18 minutes, where a provisioner
		// is slow.
		Buckets:        metrics.ExponentialBuckets(4e-6, 4, 15),
		StabilityLevel: metrics.ALPHA,
	}, []string{"stage"})

	rejectionsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      metricsSubsystem,
		Name:           "rejections_total",
		Help:           "Rejections by reason, of nodes for a pod, or of a pod as a whole.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"scope", "reason"})

	commitsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem:      metricsSubsystem,
		Name:           "commits_total",
		Help:           "Pods whose volumes were to be bound, by how that ended.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"end"})
)

// seconds are the stages of stageSeconds, looked up once: a node is solved in
// less time than a lookup takes.
var seconds = map[stage]metrics.ObserverMetric{}

// registerMetrics may be called for each profile; all of a process share the
// metrics.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(stageSeconds, rejectionsTotal, commitsTotal)
	for _, s := range stages {
		seconds[s] = stageSeconds.WithLabelValues(string(s))
	}
})

func (s stage) observe(since time.Time) { seconds[s].Observe(time.Since(since).Seconds()) }

func (s scope) count(rejection *reason.Rejection) {
	for _, one := range rejection.All() {
		rejectionsTotal.WithLabelValues(string(s), string(one.Code)).Inc()
	}
}

func countCommit(err error) {
	end := endBound
	if ended, ok := errors.AsType[*EndError](err); ok {
		end = string(ended.End)
	} else if err != nil {
		end = endFailed
	}
	commitsTotal.WithLabelValues(end).Inc()
}
