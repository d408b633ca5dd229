// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo shows Berth at work: it runs a lab, creates the example pods,
// and prints where each one went and why one of them could go nowhere. What it
// prints is read back from the API objects, and it fails when anything is not
// where it must be.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/cmd/internal/explain"
	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
)

const (
	namespace = v1.NamespaceDefault
	width     = 100
)

// NewCommand returns the command "demo", for the program that is the lab: the
// lab's components are started from this process's executable.
func NewCommand() *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "demo",
		Short: "Place example pods on a control plane of its own, show where they went, and stop it",
		Long: `Runs a control plane like "up", creates the manifests of examples/, waits, and
prints which node, devices and volumes each pod got, as the API objects say. One
pod cannot fit anywhere: the reason is printed as "berth explain" prints it.

The exit code is 0 only when every pod is where it must be, no device is in two
claims, and nothing of the control plane is left.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return run(ctx, command.OutOrStdout())
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", 3*time.Minute, "give up after this long")
	return command
}

func run(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "Starting etcd, kube-apiserver, kube-controller-manager, berth-scheduler, simulated nodes and drivers ...")
	plane, err := startLab(ctx)
	if err != nil {
		return err
	}
	summary, err := show(ctx, out, plane)
	if stopErr := plane.stop(); stopErr != nil && err == nil {
		err = stopErr
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s Control plane up in %.1f s. Everything stopped and removed.\n", summary, plane.took.Seconds())
	return nil
}

// show does all that needs the lab, and returns the sentence that sums it up.
func show(ctx context.Context, out io.Writer, plane *runningLab) (string, error) {
	config, err := plane.clientConfig()
	if err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("making a client of the lab's kubeconfig: %w", err)
	}
	if err := writeNodes(ctx, out, plane, client); err != nil {
		return "", err
	}
	watch, err := watchPods(ctx, client)
	if err != nil {
		return "", err
	}
	defer watch.stop()
	files, err := applyExamples(ctx, config)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(out, "Created examples/: %s\n\n", strings.Join(files, " "))

	waitErr := watch.settled(ctx, expectations)
	objects, err := snapshot.Take(ctx, client)
	if err != nil {
		return "", err
	}
	if err := writeTable(out, objects, watch); err != nil {
		return "", err
	}
	if waitErr != nil {
		return "", errors.Join(waitErr, explainUnsettled(ctx, out, objects, watch))
	}
	if err := check(objects, expectations); err != nil {
		return "", err
	}

	explained := 0
	for _, want := range expectations {
		if !want.pending {
			continue
		}
		report, err := writeExplanation(ctx, out, objects, want.pod)
		if err != nil {
			return "", err
		}
		if report.State != explain.Refused {
			return "", fmt.Errorf("every node must have refused pod %s, the explanation says %s", want.pod, report.State)
		}
		explained++
	}
	return fmt.Sprintf("%d pods, %d placed as expected, %d explained.",
		len(expectations), len(expectations)-explained, explained), nil
}

func writeExplanation(ctx context.Context, out io.Writer, objects *snapshot.Snapshot, pod string) (*explain.Report, error) {
	report, err := explain.Pod(ctx, objects, namespace, pod)
	if err != nil {
		return nil, fmt.Errorf("explaining pod %s: %w", pod, err)
	}
	fmt.Fprintf(out, "\n$ berth explain pod %s\n", pod)
	return report, report.WriteText(out, width)
}

// explainUnsettled says why pods that must run do not.
func explainUnsettled(ctx context.Context, out io.Writer, objects *snapshot.Snapshot, watch *podWatch) error {
	for _, want := range expectations {
		if _, ok := watch.after(want.pod); ok || want.pending || objects.Pod(namespace, want.pod) == nil {
			continue
		}
		if _, err := writeExplanation(ctx, out, objects, want.pod); err != nil {
			return err
		}
	}
	return nil
}
