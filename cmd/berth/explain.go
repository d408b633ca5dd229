// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/cmd/internal/explain"
)

// Text that does not go to a terminal is this wide.
const plainWidth = 100

func newExplain(name string, flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	output, from := "text", newCluster(flags, streams.ErrOut)
	answer := func(cmd *cobra.Command, arg string) error {
		write, ok := writers[output]
		if !ok {
			return fmt.Errorf("unknown output format %q, allowed are: text, json, yaml", output)
		}
		report, err := explainPod(cmd.Context(), from, arg)
		if err != nil {
			return err
		}
		return write(streams.Out, report)
	}
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Say why something is where it is, or why it is nowhere",
		// pod/NAME needs no word for the kind before it, as with kubectl.
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && strings.Contains(args[0], "/") {
				return nil
			}
			return cobra.NoArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return answer(cmd, args[0])
		},
	}
	pod := &cobra.Command{
		Use:     "pod NAME",
		Aliases: []string{"pods", "po"},
		Short:   "Say where a pod is and what it holds, or what keeps it Pending",
		Long: `Say where a pod is and what devices and volumes it holds, or what keeps it Pending.

The pod is run through a scheduler's own plugins, here in this program, on a copy
of the cluster's objects: every node is asked, and every "no" is explained. That
takes the right to list nodes, pods, claims and what belongs to them in the whole
cluster. Nothing is changed. docs/explain.md in Berth's sources says what the fields
of the JSON and YAML forms mean.`,
		Example: fmt.Sprintf(`  # Why is this pod Pending?
  %[1]s explain pod trainer-3 -n ml

  # Every fact about every node, for programs
  %[1]s explain pod trainer-3 -n ml -o json

  # The same of a cluster in a file, see %[1]s snapshot, or of manifests
  %[1]s explain pod trainer-3 -n ml -f cluster.yaml`, name),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("one pod is needed, %d arguments were given\nSee '%s --help' for usage", len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return answer(cmd, args[0]) },
	}
	cmd.PersistentFlags().StringVarP(&output, "output", "o", output, "Output format: text, json or yaml")
	from.addFlags(cmd.PersistentFlags())
	cmd.AddCommand(pod)
	return cmd
}

// writers are the output formats by name.
var writers = map[string]func(io.Writer, *explain.Report) error{
	"text": func(out io.Writer, report *explain.Report) error { return report.WriteText(out, width(out)) },
	"json": func(out io.Writer, report *explain.Report) error {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	},
	"yaml": func(out io.Writer, report *explain.Report) error {
		text, err := yaml.Marshal(report)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	},
}

func explainPod(ctx context.Context, from *cluster, name string) (*explain.Report, error) {
	name, err := podName(name)
	if err != nil {
		return nil, err
	}
	namespace, err := from.namespace()
	if err != nil {
		return nil, err
	}
	objects, err := from.take(ctx)
	if err != nil {
		return nil, err
	}
	report, err := explain.Pod(ctx, objects, namespace, name)
	if apierrors.IsNotFound(err) && from.inFiles() {
		return nil, fmt.Errorf("there is no pod %q in namespace %q of the files", name, namespace)
	}
	return report, err
}

// podName accepts NAME and pod/NAME, as kubectl prints them.
func podName(arg string) (string, error) {
	kind, name, qualified := strings.Cut(arg, "/")
	if !qualified {
		kind, name = "pod", arg
	}
	switch kind {
	case "pod", "pods", "po":
		if name == "" {
			return "", errors.New("the name of the pod is empty")
		}
		return name, nil
	}
	return "", fmt.Errorf("%q is not a pod", arg)
}

func width(out io.Writer) int {
	if file, ok := out.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return plainWidth
}
