// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Scheduler says which scheduler a lab runs.
type Scheduler string

const (
	// Berth is this project's scheduler, inside the lab. It is the default.
	Berth Scheduler = "berth"
	// Upstream is kube-scheduler with its in-tree plugins.
	Upstream Scheduler = "upstream"
	// None leaves pods alone until the test calls StartScheduler.
	None Scheduler = "none"
)

// Options says what lab to start. The zero value is the default profile with
// this project's scheduler.
type Options struct {
	// Profile is the name of a built-in profile or a file, relative to the
	// directory of the test.
	Profile string
	// Nodes is the number of nodes; 0 takes the profile's.
	Nodes     int
	Scheduler Scheduler
}

// Lab is a running cluster. Its methods may be called by several goroutines,
// except those that end the test.
type Lab struct {
	// Client, Config and Kubeconfig are the administrator's, without a limit
	// on the rate of requests.
	Client     kubernetes.Interface
	Config     *rest.Config
	Kubeconfig string
	// Kubeconfigs are files by the identity they authenticate as: "admin",
	// "berth-scheduler", "kube-scheduler" and others.
	Kubeconfigs map[string]string
	// Processes are the process ids by component; "berth-lab" is the parent.
	Processes map[string]int
	// Directory is where the lab keeps its data.
	Directory string
	// FeatureGates are those that every component was started with.
	FeatureGates map[string]bool

	logs    string
	process *process
}

// Start returns when the cluster is ready and fails the test when it does not
// become so. The test's cleanup ends it.
func Start(t testing.TB, options Options) *Lab {
	t.Helper()
	l := &Lab{logs: logDirectory(t)}
	scratch := t.TempDir()
	ready := filepath.Join(scratch, "ready.json")
	args := []string{"up", "--until-eof", "--ready-file=" + ready, "--logs=" + l.logs}
	if options.Profile != "" {
		args = append(args, "--profile="+options.Profile)
	}
	if options.Nodes != 0 {
		args = append(args, "--nodes="+strconv.Itoa(options.Nodes))
	}
	if options.Scheduler != "" {
		args = append(args, "--scheduler="+string(options.Scheduler))
	}
	command := exec.Command(binary(t, "berth-lab"), args...)
	// The lab ends when its standard input does, which the test process holds.
	if _, err := command.StdinPipe(); err != nil {
		t.Fatalf("start lab: %v", err)
	}
	output := &bytes.Buffer{}
	l.process = start(t, "lab", command, output)
	t.Cleanup(func() { l.stop(t) })
	for !exists(t, ready) {
		select {
		case <-l.process.ended:
			t.Fatalf("lab ended before it was ready: %v\n%s", l.process.err, output)
		case <-time.After(20 * time.Millisecond):
		}
	}
	l.read(t, ready)
	return l
}

// read takes over what the lab says of itself.
func (l *Lab) read(t testing.TB, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read lab status: %v", err)
	}
	if err := json.Unmarshal(content, l); err != nil {
		t.Fatalf("decode lab status: %v", err)
	}
	if l.Config, err = clientcmd.BuildConfigFromFlags("", l.Kubeconfig); err != nil {
		t.Fatalf("read kubeconfig: %v", err)
	}
	l.Config.QPS = -1
	if l.Client, err = kubernetes.NewForConfig(l.Config); err != nil {
		t.Fatalf("create client: %v", err)
	}
}

// Interrupt ends the lab as Ctrl-C does and returns its exit code. It is for
// tests of the lab itself.
func (l *Lab) Interrupt(t testing.TB) int {
	t.Helper()
	l.process.signal(t, syscall.SIGINT)
	<-l.process.ended
	return l.process.command.ProcessState.ExitCode()
}

// Kill ends the parent of the lab, and only it, with SIGKILL. It is for tests
// of the lab itself.
func (l *Lab) Kill(t testing.TB) {
	t.Helper()
	l.process.signal(t, syscall.SIGKILL)
	<-l.process.ended
}

func (l *Lab) stop(t testing.TB) {
	if t.Failed() {
		dumpLogs(t, l.logs)
	}
	if l.process.running() {
		l.Interrupt(t)
	}
}

func exists(t testing.TB, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// binary finds a program of this repository.
func binary(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("BERTH_BIN")
	if dir == "" {
		dir = filepath.Join(repository(t), "bin")
	}
	path := filepath.Join(dir, name)
	if !exists(t, path) {
		t.Fatalf("%s does not exist: run `make build` first, or set BERTH_BIN", path)
	}
	return path
}

// repository is the nearest directory above the test with a go.work.
func repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for !exists(t, filepath.Join(dir, "go.work")) {
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.work above the test's directory: set BERTH_BIN")
		}
		dir = parent
	}
	return dir
}

// process is a child of the test.
type process struct {
	name    string
	command *exec.Cmd
	ended   chan struct{}
	// err is valid once ended is closed.
	err error
}

func start(t testing.TB, name string, command *exec.Cmd, output io.Writer) *process {
	t.Helper()
	command.Stdout = output
	command.Stderr = output
	if err := command.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	p := &process{name: name, command: command, ended: make(chan struct{})}
	go func() {
		p.err = command.Wait()
		close(p.ended)
	}()
	return p
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) signal(t testing.TB, signal os.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		t.Errorf("send %v to %s: %v", signal, p.name, err)
	}
}
