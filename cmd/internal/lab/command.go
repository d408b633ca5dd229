// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/cmd/internal/lab/profiles"
	"github.com/berth-scheduler/berth/cmd/internal/version"
)

// kubernetesVersion is the version of the modules that the components are
// built from.
const kubernetesVersion = "v1.37.2"

// NewCommand is the berth-lab command.
func NewCommand() *cobra.Command {
	command := &cobra.Command{
		Use:           "berth-lab",
		Short:         "A whole local Kubernetes control plane in one binary",
		SilenceUsage:  true,
		SilenceErrors: true,
		// Kubernetes' packages bring the flag --version, and leave it to the program to answer.
		PersistentPreRun: func(*cobra.Command, []string) { version.PrintAndExitIfRequested() },
		RunE:             func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newUpCommand(), newComponentCommand())
	return command
}

func newUpCommand() *cobra.Command {
	var options Options
	var scheduler string
	var untilEOF bool
	command := &cobra.Command{
		Use:   "up",
		Short: "Run a control plane until interrupted",
		Long:  upHelp(),
		Args:  cobra.NoArgs,
		Example: `  berth-lab up
  berth-lab up --profile mig --nodes 10 --scheduler upstream
  berth-lab up --profile ./my-cluster.yaml --kubeconfig ./lab.kubeconfig`,
		RunE: func(command *cobra.Command, _ []string) error {
			var err error
			if options.Scheduler, err = ParseScheduler(scheduler); err != nil {
				return err
			}
			if command.Flags().Changed("nodes") && options.Nodes < 1 {
				return fmt.Errorf("--nodes %d: a lab has at least one node", options.Nodes)
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			// A second signal ends the parent at once, and the reaper the rest.
			context.AfterFunc(ctx, stop)
			if untilEOF {
				go func() {
					// Whatever ends the reading, there is nobody to run for.
					_, _ = io.Copy(io.Discard, command.InOrStdin())
					stop()
				}()
			}
			return Up(ctx, options, command.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.IntVar(&options.Nodes, "nodes", 0, "number of nodes in all, dealt to the profile's groups in turn (default: as in the profile)")
	flags.StringVar(&options.Profile, "profile", profiles.Default, "`NAME` of a built-in profile, or a file")
	flags.StringVar(&scheduler, "scheduler", string(BerthScheduler), "berth, upstream (kube-scheduler with its in-tree plugins) or none")
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "write the administrator's kubeconfig to this new `FILE`, and remove it at the end")
	flags.StringVar(&options.ReadyFile, "ready-file", "", "write a description of the lab in JSON to this new `FILE` once it is ready, and remove it at the end")
	flags.BoolVar(&untilEOF, "until-eof", false, "stop when standard input ends, for programs that start a lab")
	flags.StringVar(&options.Logs, "logs", "", "write the components' logs to this `DIRECTORY` and keep them")
	return command
}

func upHelp() string {
	var text strings.Builder
	text.WriteString(`Runs etcd, kube-apiserver, kube-controller-manager, a scheduler and a simulation
of nodes, device drivers and storage, all on loopback ports, and prints the
kubeconfig to use once everything is ready. kubectl works against it unchanged.

SIGINT and SIGTERM stop everything, remove it and exit with 0. When the process
is killed in another way, the rest still stops and is removed.

Profiles:
`)
	for _, name := range profiles.Names() {
		description := "(unreadable)"
		if profile, err := profiles.Load(name); err == nil {
			description = profile.Description
		}
		fmt.Fprintf(&text, "  %-12s %s\n", name, description)
	}
	text.WriteString(`
A profile file describes groups of nodes, what their drivers publish, and
storage. This one has two nodes with four devices each:

  nodes:
  - name: gpu
    count: 2
    zones: [zone-a, zone-b]
    allocatable: {cpu: "8", memory: 32Gi, pods: "110"}
    drivers:
    - name: gpu.example.com
      slices:
      - devices:
        - repeat: 4
          name: gpu-$(index)
          attributes: {uuid: {string: GPU-$(uuid)}}
    localVolumes:
    - {storageClass: local, count: 2, capacity: 100Gi}
  storage:
  - {driver: csi.example.com, topologyKey: topology.kubernetes.io/zone, capacity: 500Gi}
  objects:          # any Kubernetes objects: device classes, storage classes, ...
  - apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: local}
    provisioner: kubernetes.io/no-provisioner
    volumeBindingMode: WaitForFirstConsumer

Parameters of a StorageClass make its driver misbehave: "delay: 3s" takes time,
"fail: NODES" fails for these nodes and tries again, "refuse: NODES" gives the
claim back to the scheduler. NODES are names with commas, or *.

The documentation of package cmd/internal/lab/profiles has all fields.`)
	return text.String()
}
