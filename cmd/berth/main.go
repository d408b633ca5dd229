// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Berth says where pods with device and volume claims are, and why they are
// nowhere. Installed as kubectl-berth it is also `kubectl berth`.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
)

func main() { os.Exit(run()) }

// run is the program; it returns the exit code: 0 when the question could be
// answered, whatever the answer, and 1 otherwise.
func run() int {
	// The scheduler's plugins run inside this process. Their log and the flags
	// that come with them are for clusters.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError)

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	if err := newCommand(programName(os.Args[0]), streams).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(streams.ErrOut, message(err))
		return 1
	}
	return 0
}
