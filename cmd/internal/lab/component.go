// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	upstreamscheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/berth-scheduler/berth/cmd/internal/lab/machines"
	berthscheduler "github.com/berth-scheduler/berth/cmd/internal/scheduler"
)

// The components, by the names of their subcommand and log.
const (
	etcdComponent              = "etcd"
	apiserverComponent         = "kube-apiserver"
	controllerManagerComponent = "kube-controller-manager"
	upstreamSchedulerComponent = "kube-scheduler"
	berthSchedulerComponent    = "berth-scheduler"
	machinesComponent          = "machines"
	reaperComponent            = "reaper"
)

// garbagePercent is GOGC of the components.
const garbagePercent = 400

// componentCommands builds the command of a component. A command is built only
// in the process that runs it: upstream's commands install signal handlers and
// register global flags when they are built.
var componentCommands = map[string]func() *cobra.Command{
	etcdComponent:              newEtcdCommand,
	apiserverComponent:         apiserver.NewAPIServerCommand,
	controllerManagerComponent: controllermanager.NewControllerManagerCommand,
	upstreamSchedulerComponent: func() *cobra.Command { return upstreamscheduler.NewSchedulerCommand() },
	berthSchedulerComponent:    berthscheduler.NewCommand,
	machinesComponent:          machines.NewCommand,
}

// newComponentCommand is the entry of the children.
func newComponentCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "component NAME -- [FLAGS]",
		Short:  "Run one component of a lab (used by `up`)",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			name, args := args[0], args[1:]
			if name == reaperComponent {
				return reap(args)
			}
			build, known := componentCommands[name]
			if !known {
				return fmt.Errorf("unknown component %q", name)
			}
			// Everything is short-lived here, and memory cheaper than start-up time.
			debug.SetGCPercent(garbagePercent)
			command := build()
			command.SetArgs(args)
			command.SilenceErrors = true // main prints it
			if err := holdLifeline(); err != nil {
				return err
			}
			return command.Execute()
		},
	}
}

// holdLifeline returns when the parent says "go", and from then on ends the
// process at once when the parent is gone.
func holdLifeline() error {
	buffer := make([]byte, 1)
	if _, err := os.Stdin.Read(buffer); err != nil {
		return fmt.Errorf("wait for the parent: %w", err)
	}
	go func() {
		for {
			if _, err := os.Stdin.Read(buffer); err != nil {
				os.Exit(1)
			}
		}
	}()
	return nil
}
