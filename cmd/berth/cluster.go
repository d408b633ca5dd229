// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
)

// cluster is what a command is asked about: the live one of the kubeconfig, or one
// in files.
type cluster struct {
	flags  *genericclioptions.ConfigFlags
	files  genericclioptions.FileNameFlags
	strict bool
	// errOut gets what is wrong with files.
	errOut io.Writer
}

func newCluster(flags *genericclioptions.ConfigFlags, errOut io.Writer) *cluster {
	return &cluster{flags: flags, errOut: errOut, files: genericclioptions.FileNameFlags{
		Usage:     "Files, directories or URLs to read the cluster from, - for standard input, instead of asking an API server",
		Filenames: &[]string{}, Recursive: new(bool),
	}}
}

func (c *cluster) addFlags(flags *pflag.FlagSet) {
	c.files.AddFlags(flags)
	flags.BoolVar(&c.strict, "strict", false, "With --filename, give no answer if something is wrong with an object")
}

// namespace is that of the flag, or of the kubeconfig.
func (c *cluster) namespace() (string, error) {
	namespace, _, err := c.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return namespace, nil
}

// inFiles says that no API server is asked.
func (c *cluster) inFiles() bool { return len(*c.files.Filenames) > 0 }

// take returns the cluster's objects.
func (c *cluster) take(ctx context.Context) (*snapshot.Snapshot, error) {
	if c.inFiles() {
		return c.read()
	}
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	// All kinds are listed at the same time, and the server has its own limits.
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the kubeconfig: %w", err)
	}
	return snapshot.Take(ctx, client)
}

func (c *cluster) read() (*snapshot.Snapshot, error) {
	namespace, err := c.namespace()
	if err != nil {
		return nil, err
	}
	reading, err := snapshot.Read(c.flags, c.files.ToOptions(), namespace)
	if err != nil {
		return nil, err
	}
	if len(reading.Ignored) > 0 {
		var kinds []string
		for kind, count := range reading.Ignored {
			kinds = append(kinds, fmt.Sprintf("%s (%d)", kind, count))
		}
		slices.Sort(kinds)
		fmt.Fprintf(c.errOut, "note: objects of these kinds are left out: %s\n", strings.Join(kinds, ", "))
	}
	if len(reading.Problems) == 0 {
		return reading.Snapshot, nil
	}
	if c.strict {
		return nil, errors.Join(reading.Problems...)
	}
	for _, problem := range reading.Problems {
		fmt.Fprintf(c.errOut, "error: %v\n", problem)
	}
	fmt.Fprintln(c.errOut, "An object that an API server would not take is left out, and so is a field. Use --strict to stop here.")
	return reading.Snapshot, nil
}
