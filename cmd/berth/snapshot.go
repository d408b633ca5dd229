// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
)

func newSnapshot(name string, flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	from := newCluster(flags, streams.ErrOut)
	return &cobra.Command{
		Use:   "snapshot",
		Short: "Print all objects that a decision can depend on, to be asked about later or elsewhere",
		Long: `Print all objects that a decision can depend on, as YAML: nodes, pods, claims, devices,
volumes and what belongs to them, of all namespaces.

What containers run and their environment, managed fields and the manifests that
kubectl notes are left out. Names, labels and annotations are not.`,
		Example: fmt.Sprintf(`  # Ask about a cluster that is out of reach
  %[1]s snapshot > cluster.yaml
  %[1]s explain pod trainer-3 -n ml -f cluster.yaml`, name),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			taken, err := from.take(cmd.Context())
			if err != nil {
				return err
			}
			if len(taken.NotAllowed) > 0 {
				return fmt.Errorf("a snapshot without these would lead to wrong answers, and you may not list them: %s",
					strings.Join(taken.NotAllowed, ", "))
			}
			return write(taken, streams)
		},
	}
}

func write(taken *snapshot.Snapshot, streams genericiooptions.IOStreams) error {
	out := bufio.NewWriter(streams.Out)
	if err := taken.Write(out); err != nil {
		return err
	}
	return out.Flush()
}
