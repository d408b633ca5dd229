// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deploy holds the manifests that a cluster needs to run Berth.
package deploy

import _ "embed"

// RBAC is the content of rbac.yaml: what berth-scheduler may do in a cluster, as
// the user berth-scheduler or as the service account kube-system/berth-scheduler.
// Several YAML documents; callers must not change it.
//
//go:embed rbac.yaml
var RBAC []byte
