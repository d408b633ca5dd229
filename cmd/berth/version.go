// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

const kubernetesModule = "k8s.io/kubernetes"

func newVersion(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program and of the scheduler inside it",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			berth, kubernetes := "(unknown)", "(unknown)"
			if info, ok := debug.ReadBuildInfo(); ok {
				berth = info.Main.Version
				for _, module := range info.Deps {
					if module.Path == kubernetesModule {
						kubernetes = module.Version
					}
				}
			}
			_, err := fmt.Fprintf(streams.Out, "berth %s, with the scheduler of Kubernetes %s\n", berth, kubernetes)
			return err
		},
	}
}
