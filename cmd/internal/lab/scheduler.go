// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import "fmt"

// Scheduler says who places the pods of a lab.
type Scheduler string

const (
	// BerthScheduler runs this project's scheduler with deploy/rbac.yaml.
	BerthScheduler Scheduler = "berth"
	// UpstreamScheduler runs kube-scheduler with its in-tree plugins.
	UpstreamScheduler Scheduler = "upstream"
	// NoScheduler runs none: the user starts one, with one of the kubeconfigs
	// in the lab's directory.
	NoScheduler Scheduler = "none"
)

// ParseScheduler reads the value of the --scheduler flag.
func ParseScheduler(text string) (Scheduler, error) {
	switch s := Scheduler(text); s {
	case BerthScheduler, UpstreamScheduler, NoScheduler:
		return s, nil
	}
	return "", fmt.Errorf("scheduler %q: want %q, %q or %q", text, BerthScheduler, UpstreamScheduler, NoScheduler)
}

// component names the component and identity of the scheduler, if there is one.
func (s Scheduler) component() (name string, id identity, found bool) {
	switch s {
	case BerthScheduler:
		return berthSchedulerComponent, berthSchedulerIdentity, true
	case UpstreamScheduler:
		return upstreamSchedulerComponent, upstreamSchedulerIdentity, true
	}
	return "", identity{}, false
}
