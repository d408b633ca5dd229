// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command berth-scheduler is kube-scheduler with Berth's plugins.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"github.com/berth-scheduler/berth/cmd/internal/scheduler"
)

func main() {
	os.Exit(cli.Run(scheduler.NewCommand()))
}
