// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"os"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	appconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"

	"github.com/berth-scheduler/berth/cmd/internal/profile"
)

// setUp does what kube-scheduler's own set-up does, and puts Berth's plugins
// into the profiles after they were loaded and before a scheduler is made of
// them. With --write-config-to it writes the configuration and ends the process.
func setUp(ctx context.Context, opts *options.Options) (*appconfig.CompletedConfig, *scheduler.Scheduler, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, nil, fmt.Errorf("make the default configuration: %w", err)
	}
	opts.ComponentConfig = defaults
	if errs := opts.Validate(); len(errs) > 0 {
		return nil, nil, utilerrors.NewAggregate(errs)
	}
	loaded, err := opts.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := usePlugins(klog.FromContext(ctx), &loaded.ComponentConfig, opts.ConfigFile); err != nil {
		return nil, nil, err
	}

	completed := loaded.Complete()
	cfg := &completed.ComponentConfig
	var profiles []config.KubeSchedulerProfile
	sched, err := scheduler.New(ctx,
		completed.Client,
		completed.InformerFactory,
		completed.DynInformerFactory,
		func(profile string) events.EventRecorderLogger {
			return completed.EventBroadcaster.NewRecorder(profile)
		},
		scheduler.WithFrameworkOutOfTreeRegistry(profile.RegistryFor(cfg.Profiles)),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithBuildFrameworkCapturer(func(p config.KubeSchedulerProfile) { profiles = append(profiles, p) }),
		scheduler.WithComponentConfigVersion(cfg.APIVersion),
		scheduler.WithKubeConfig(completed.KubeConfig),
		scheduler.WithExtenders(cfg.Extenders...),
		scheduler.WithParallelism(cfg.Parallelism),
		scheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore),
		scheduler.WithPodInitialBackoffSeconds(cfg.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(cfg.PodMaxBackoffSeconds),
		scheduler.WithPodMaxInUnschedulablePodsDuration(completed.PodMaxInUnschedulablePodsDuration),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("make the scheduler: %w", err)
	}
	if err := options.LogOrWriteConfig(klog.FromContext(ctx), opts.WriteConfigTo, cfg, profiles); err != nil {
		return nil, nil, fmt.Errorf("write the configuration: %w", err)
	}
	return &completed, sched, nil
}

// usePlugins puts Berth's plugins into the profiles that may have them, and says
// which plugins each profile ends up with. File is where the configuration was
// loaded from, empty for the default one.
func usePlugins(logger klog.Logger, cfg *config.KubeSchedulerConfiguration, file string) error {
	if file == "" {
		for i := range cfg.Profiles {
			profile.Replace(&cfg.Profiles[i])
		}
	} else {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read configuration: %w", err)
		}
		changed, err := profile.ReplaceUnnamed(cfg, data)
		if err != nil {
			return fmt.Errorf("configuration file %s: %w", file, err)
		}
		for _, name := range changed {
			logger.Info("Profile names no plugin for claims and volumes, using Berth's", "profile", name)
		}
	}
	for i := range cfg.Profiles {
		p := &cfg.Profiles[i]
		if err := profile.CheckRivals(p); err != nil {
			return fmt.Errorf("profile %q: %w", p.SchedulerName, err)
		}
		logger.Info("Plugins for claims and volumes", "profile", p.SchedulerName, "plugins", profile.Plugins(p))
	}
	return nil
}
