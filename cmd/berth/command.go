// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// programName is how the program is called: a file kubectl-berth is a plugin,
// which people call `kubectl berth`.
func programName(file string) string {
	if strings.HasPrefix(filepath.Base(file), "kubectl-") {
		return "kubectl berth"
	}
	return "berth"
}

// newCommand returns the command and all below it. name is what examples call it.
func newCommand(name string, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name,
		Short: "See where pods with device and volume claims go, and why not",
		Long: `Berth finds a node, and on it devices and volumes, for every pod that claims some.
This program answers questions about a cluster. It reads, and changes nothing.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	cmd.CompletionOptions.HiddenDefaultCmd = true

	flags := genericclioptions.NewConfigFlags(true)
	flags.AddFlags(cmd.PersistentFlags())
	cmd.AddCommand(newExplain(name, flags, streams), newSnapshot(name, flags, streams), newVersion(streams))
	return cmd
}
