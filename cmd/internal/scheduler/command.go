// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/berth-scheduler/berth/cmd/internal/version"
)

const name = "berth-scheduler"

// NewCommand returns the command berth-scheduler. It takes the flags of
// kube-scheduler, runs until a signal or an error ends it, and must be executed
// at most once in a process, because feature gates and metrics are global.
func NewCommand() *cobra.Command {
	opts := options.NewOptions()
	cmd := &cobra.Command{
		Use:   name,
		Short: "A scheduler that finds nodes, devices and volumes for pods",
		Long: `The Berth scheduler is kube-scheduler with plugins of its own for ResourceClaims
and PersistentVolumeClaims. It takes kube-scheduler's flags and configuration.

Profiles in a configuration file that name none of DynamicResources,
VolumeBinding, DeviceClaims and VolumeClaims get DeviceClaims and VolumeClaims in
place of the other two. Other profiles are left as they are written.

Do not run it at the same time as another scheduler that allocates
ResourceClaims. By default it takes the same leader election lease as
kube-scheduler, which prevents that.`,
		Args: cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if err := opts.ComponentGlobalsRegistry.Set(); err != nil {
				return fmt.Errorf("set feature gates: %w", err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, opts) },
	}

	sections := opts.Flags
	verflag.AddFlags(sections.FlagSet("global"))
	globalflag.AddGlobalFlags(sections.FlagSet("global"), name, logs.SkipLoggingConfigurationFlags())
	for _, section := range sections.Order {
		cmd.Flags().AddFlagSet(sections.FlagSets[section])
	}
	columns, _, err := term.TerminalSize(cmd.OutOrStdout())
	if err != nil {
		columns = 0 // not a terminal: do not wrap
	}
	cliflag.SetUsageAndHelpFunc(cmd, *sections, columns)
	return cmd
}

func run(cmd *cobra.Command, opts *options.Options) error {
	version.PrintAndExitIfRequested()
	gate := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gate); err != nil {
		return fmt.Errorf("set up logging: %w", err)
	}
	cliflag.PrintFlags(cmd.Flags())

	informers, err := cache.NewInformerName(name)
	if err != nil {
		return fmt.Errorf("name the informers: %w", err)
	}
	opts.InformerName = informers

	ctx, cancel := context.WithCancel(server.SetupSignalContext())
	defer cancel()
	completed, sched, err := setUp(ctx, opts)
	if err != nil {
		return err
	}
	if mutable, ok := gate.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	return app.Run(ctx, completed, sched)
}
