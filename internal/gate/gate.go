// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gate reads the feature gates of the component that a plugin runs in.
package gate

import (
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// DeferredResize: a running pod may pass through the scheduler to be resized.
const DeferredResize featuregate.Feature = "InPlacePodVerticalScalingSchedulerPreemption"

// Enabled says whether the gate is on. Kubernetes registers its gates in a module
// that plugins must not import; a gate that is not registered is off.
func Enabled(name featuregate.Feature) bool {
	gates := utilfeature.DefaultMutableFeatureGate
	return sets.KeySet(gates.GetAll()).Has(name) && gates.Enabled(name)
}
