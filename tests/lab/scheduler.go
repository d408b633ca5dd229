// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// SchedulerProcess is a bin/berth-scheduler that works in a lab.
type SchedulerProcess struct {
	process *process
	log     *os.File
}

// StartScheduler runs bin/berth-scheduler with this project's identity, without
// leader election, and with more arguments as given. It is for labs with
// Scheduler None. The test's cleanup ends it; a test may start the next one
// after it has killed the last.
func (l *Lab) StartScheduler(t testing.TB, args ...string) *SchedulerProcess {
	t.Helper()
	log, err := os.CreateTemp(l.logs, "berth-scheduler-*.log")
	if err != nil {
		t.Fatalf("create log of the scheduler: %v", err)
	}
	arguments := []string{
		"--kubeconfig=" + l.Kubeconfigs["berth-scheduler"],
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=2000",
		"--kube-api-burst=4000",
	}
	for _, name := range slices.Sorted(maps.Keys(l.FeatureGates)) {
		arguments = append(arguments, fmt.Sprintf("--feature-gates=%s=%t", name, l.FeatureGates[name]))
	}
	command := exec.Command(binary(t, "berth-scheduler"), append(arguments, args...)...)
	command.Dir = filepath.Dir(log.Name())
	endWithParent(command)
	s := &SchedulerProcess{process: start(t, "scheduler", command, log), log: log}
	t.Cleanup(func() {
		if s.process.running() {
			s.Kill(t)
		}
	})
	return s
}

// Kill ends the scheduler with SIGKILL, as a crash would.
func (s *SchedulerProcess) Kill(t testing.TB) {
	t.Helper()
	s.end(t, syscall.SIGKILL)
}

// Stop ends the scheduler in its usual way.
func (s *SchedulerProcess) Stop(t testing.TB) {
	t.Helper()
	s.end(t, syscall.SIGTERM)
}

func (s *SchedulerProcess) end(t testing.TB, signal os.Signal) {
	t.Helper()
	if !s.process.running() {
		t.Errorf("scheduler ended on its own: %v", s.process.err)
		return
	}
	s.process.signal(t, signal)
	<-s.process.ended
	s.log.Close()
}
