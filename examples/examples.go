// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package examples holds manifests of pods that claim devices and volumes. They
// run on the lab's "demo" profile, and on any cluster that has its classes: the
// DeviceClass gpu.nvidia.com and the StorageClasses local and zonal.
package examples

import "embed"

// Manifests are the YAML files of this directory, each with one or more documents.
//
//go:embed *.yaml
var Manifests embed.FS
