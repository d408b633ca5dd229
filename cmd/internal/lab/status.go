// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// Status describes a lab that is ready, for programs.
type Status struct {
	Directory  string `json:"directory"`
	Logs       string `json:"logs"`
	Kubeconfig string `json:"kubeconfig"`
	// Kubeconfigs are files by the name of the identity they belong to.
	Kubeconfigs map[string]string `json:"kubeconfigs"`
	// Processes are the ids of the lab's processes by component, the parent
	// included as "berth-lab".
	Processes map[string]int `json:"processes"`
	// FeatureGates are those that every component was started with.
	FeatureGates map[string]bool `json:"featureGates"`
}

// announce tells people and programs that the lab is ready.
func (l *lab) announce(out io.Writer, took time.Duration) error {
	status := Status{
		Directory:    l.dir,
		Logs:         l.logs,
		Kubeconfig:   adminIdentity.kubeconfig(l.kubeconfigs()),
		Kubeconfigs:  map[string]string{},
		Processes:    map[string]int{"berth-lab": os.Getpid()},
		FeatureGates: l.featureGates,
	}
	for _, c := range l.children.all() {
		status.Processes[c.name] = c.command.Process.Pid
	}
	for _, id := range identities {
		status.Kubeconfigs[id.name] = id.kubeconfig(l.kubeconfigs())
	}
	if path := l.options.Kubeconfig; path != "" {
		content, err := os.ReadFile(status.Kubeconfig)
		if err != nil {
			return fmt.Errorf("read kubeconfig: %w", err)
		}
		if err := writeAtomically(path, content); err != nil {
			return err
		}
		status.Kubeconfig = path
	}
	fmt.Fprintf(out, "Kubernetes %s on %s, ready in %.1f s.\n", kubernetesVersion, l.server(), took.Seconds())
	fmt.Fprintf(out, "  profile    %s, %d nodes\n", l.options.Profile, l.options.Nodes)
	fmt.Fprintf(out, "  scheduler  %s\n", l.options.Scheduler)
	logs := l.logs
	if l.options.Logs == "" {
		logs += " (removed at the end; --logs DIRECTORY keeps them)"
	}
	fmt.Fprintf(out, "  logs       %s\n\n", logs)
	fmt.Fprintf(out, "export KUBECONFIG=%s\n\n", status.Kubeconfig)
	fmt.Fprintln(out, "Ctrl-C stops and removes everything.")
	if l.options.ReadyFile == "" {
		return nil
	}
	content, err := json.MarshalIndent(status, "", "  ")
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	return writeAtomically(l.options.ReadyFile, append(content, '\n'))
}
