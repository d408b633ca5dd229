// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Berth-lab runs a whole local Kubernetes control plane in one binary.
package main

import (
	"fmt"
	"os"

	"github.com/berth-scheduler/berth/cmd/internal/demo"
	"github.com/berth-scheduler/berth/cmd/internal/lab"
)

func main() {
	command := lab.NewCommand()
	command.AddCommand(demo.NewCommand())
	if err := command.Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}
