// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package profile says which plugins a profile of kube-scheduler has: where the
// in-tree DynamicResources and VolumeBinding would stand, DeviceClaims and
// VolumeClaims stand, with their weights. A profile in a configuration file
// keeps what it says as soon as it names one of the four, so that anything can
// still be configured.
//
// The scheduler and the simulation ask here, so both run the same plugins.
package profile
