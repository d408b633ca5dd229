// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"errors"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/internal/ledger"
	"github.com/berth-scheduler/berth/reason"
)

// The metrics of all profiles together, under scheduler's own /metrics. Labels
// take values from closed lists only: how a search or a wait ended, the codes of
// package reason, the states of package ledger.
var (
	solveDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: "berth", Subsystem: "devices", Name: "solve_duration_seconds",
		Help:           "How long the search for devices took on one node, by whether there is a plan (planned), there is none (refused), or the budget of steps ended (ended).",
		Buckets:        metrics.ExponentialBuckets(0.000001, 4, 12),
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	solveSteps = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace: "berth", Subsystem: "devices", Name: "solve_steps",
		Help:           "How many steps of its budget the search took on one node where it found a plan.",
		Buckets:        metrics.ExponentialBuckets(10, 10, 8),
		StabilityLevel: metrics.ALPHA,
	})
	rejections = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "berth", Subsystem: "devices", Name: "rejections_total",
		Help:           "How often a node, or all nodes at once, were refused to a pod, by reason.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
	inFlight = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "berth", Subsystem: "devices", Name: "claims_in_flight",
		Help:           "Claims whose allocation is planned or written and not yet seen in the informer's store (Planned, Written), or of which it is not known whether it was written (Doubtful).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"state"})
	conflicts = metrics.NewCounter(&metrics.CounterOpts{
		Namespace: "berth", Subsystem: "devices", Name: "commit_conflicts_total",
		Help:           "How often a claim had changed when its allocation or reservation was written, and was read again.",
		StabilityLevel: metrics.ALPHA,
	})
	bindingWaits = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: "berth", Subsystem: "devices", Name: "binding_wait_seconds",
		Help:           "How long pods waited for the binding conditions of their devices, by how it ended: ready, failed (or late), given up for another reason.",
		Buckets:        metrics.ExponentialBuckets(0.1, 3, 10),
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	memoLookups = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "berth", Subsystem: "devices", Name: "memo_lookups",
		Help:           "How often what was derived from the list of all ResourceSlices (slices) or from the claims of a pool (uses) was still valid (hit) or had to be derived again (miss).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"memo", "result"})
)

var registerOnce sync.Once

func registerMetrics() {
	registerOnce.Do(func() {
		legacyregistry.MustRegister(solveDuration, solveSteps, rejections, inFlight, conflicts, bindingWaits, memoLookups)
	})
}

func observeSolve(took time.Duration, plan device.Plan, rejection *reason.Rejection) {
	result := "planned"
	switch {
	case rejection == nil:
		solveSteps.Observe(float64(plan.Steps()))
	case rejection.Kind() == reason.OutOfBudget:
		result = "ended"
	default:
		result = "refused"
	}
	solveDuration.WithLabelValues(result).Observe(took.Seconds())
}

func (p *Plugin) observeLedger() {
	counts := p.ledger.Count()
	for _, state := range []ledger.State{ledger.Planned, ledger.Written, ledger.Doubtful} {
		inFlight.WithLabelValues(string(state)).Set(float64(counts[state]))
	}
}

// observeMemos copies the counters of package live, which knows no metrics.
func (p *Plugin) observeMemos() {
	lookups := p.devices.Lookups()
	memoLookups.WithLabelValues("slices", "hit").Set(float64(lookups.Slices.Hits.Load()))
	memoLookups.WithLabelValues("slices", "miss").Set(float64(lookups.Slices.Misses.Load()))
	memoLookups.WithLabelValues("uses", "hit").Set(float64(lookups.Uses.Hits.Load()))
	memoLookups.WithLabelValues("uses", "miss").Set(float64(lookups.Uses.Misses.Load()))
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "ready"
	case errors.Is(err, errNotReady):
		return "failed"
	default:
		return "gave_up"
	}
}
