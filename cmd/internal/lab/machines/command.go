// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/cmd/internal/lab/profiles"
)

// NewCommand is the process that simulates the machines of a lab. It serves
// /readyz over HTTP: 200 once everything in the profile exists and works.
func NewCommand() *cobra.Command {
	var kubeconfig, readyAddress, profile string
	var nodes int
	command := &cobra.Command{
		Use:          "machines",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("read kubeconfig: %w", err)
			}
			// One process does the work of all kubelets and drivers.
			config.QPS = -1
			described, err := profiles.Load(profile)
			if err != nil {
				return err
			}
			expanded, err := described.Expand(nodes)
			if err != nil {
				return fmt.Errorf("profile %s: %w", profile, err)
			}
			room, err := newRoom(config, described, expanded)
			if err != nil {
				return err
			}
			ready := &readiness{}
			if err := ready.serve(readyAddress); err != nil {
				return err
			}
			return room.run(contextOf(command), ready)
		},
	}
	flags := command.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "how to reach the API server")
	flags.StringVar(&readyAddress, "ready-address", "", "where to serve /readyz")
	flags.StringVar(&profile, "profile", profiles.Default, "name or file of the profile")
	flags.IntVar(&nodes, "nodes", 1, "number of nodes")
	return command
}

func contextOf(command *cobra.Command) context.Context {
	if ctx := command.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// readiness is false until it is set.
type readiness struct {
	atomic.Bool
}

func (r *readiness) serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serve readiness: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !r.Load() {
			http.Error(w, "machines are being set up", http.StatusServiceUnavailable)
		}
	})
	go func() { _ = http.Serve(listener, mux) }() // until the process ends
	return nil
}
