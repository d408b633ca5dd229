// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

// supervisor starts the children of a lab and ends them. It is used by one
// goroutine.
type supervisor struct {
	executable string
	logs       string
	// alive is the write end of the pipe whose end tells the reaper that the
	// parent and all children are gone.
	alive *os.File
	// group is the process group of all children. It is not the terminal's, so
	// Ctrl-C reaches the parent only, which then ends the children.
	group  int
	reaper *child
	byName map[string]*child
	// leftovers are the paths that are removed at the end.
	leftovers []string
	// failed receives the children that end while nobody asked them to.
	failed chan *child

	mu       sync.Mutex
	stopping bool
}

// child is one process of the lab.
type child struct {
	name     string
	logFile  string
	command  *exec.Cmd
	lifeline io.WriteCloser
	ended    chan struct{}
	// err is valid once ended is closed.
	err error
}

// newSupervisor starts the reaper, so that from here on nothing that is
// listed in leftovers survives the parent.
func newSupervisor(logs string, leftovers []string) (*supervisor, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own executable: %w", err)
	}
	aliveRead, aliveWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create pipe: %w", err)
	}
	defer aliveRead.Close()
	s := &supervisor{
		executable: executable,
		logs:       logs,
		alive:      aliveWrite,
		leftovers:  leftovers,
		byName:     map[string]*child{},
		failed:     make(chan *child, 16),
	}
	s.reaper, err = s.startWith(aliveRead, reaperComponent, leftovers)
	if err != nil {
		aliveWrite.Close()
		return nil, err
	}
	s.group = s.reaper.command.Process.Pid
	return s, nil
}

// start runs a component. It does nothing before it is released.
func (s *supervisor) start(component string, args ...string) error {
	c, err := s.startWith(s.alive, component, args)
	if err != nil {
		return err
	}
	s.byName[component] = c
	return nil
}

// all lists the children, the reaper among them.
func (s *supervisor) all() []*child {
	return append(slices.Collect(maps.Values(s.byName)), s.reaper)
}

func (s *supervisor) startWith(inherited *os.File, component string, args []string) (*child, error) {
	logFile := filepath.Join(s.logs, component+".log")
	log, err := os.Create(logFile)
	if err != nil {
		return nil, fmt.Errorf("create log of %s: %w", component, err)
	}
	defer log.Close()
	command := exec.Command(s.executable, append([]string{"component", component, "--"}, args...)...)
	command.Stdout = log
	command.Stderr = log
	command.ExtraFiles = []*os.File{inherited}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: s.group}
	lifeline, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("create lifeline of %s: %w", component, err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", component, err)
	}
	c := &child{name: component, logFile: logFile, command: command, lifeline: lifeline, ended: make(chan struct{})}
	go s.wait(c)
	return c, nil
}

func (s *supervisor) wait(c *child) {
	c.err = c.command.Wait()
	close(c.ended)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping {
		s.failed <- c
	}
}

// release lets the child begin its work.
func (c *child) release() error {
	if _, err := c.lifeline.Write([]byte{'\n'}); err != nil {
		return fmt.Errorf("release %s: %w", c.name, err)
	}
	return nil
}

// stop ends all children and removes the leftovers. The children are killed,
// not asked: nothing that they could still write is kept. The reaper is the
// last to go, so that it takes over when the parent is killed meanwhile.
func (s *supervisor) stop() error {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	for _, c := range s.byName {
		c.kill()
	}
	for _, c := range s.byName {
		<-c.ended
	}
	err := removeAll(s.leftovers)
	s.reaper.kill()
	<-s.reaper.ended
	s.alive.Close()
	return err
}

func (c *child) kill() {
	// An error means that it has ended already.
	_ = c.command.Process.Kill()
}

// failure describes a child that ended on its own, with the end of its log.
func (c *child) failure() error {
	how := "ended"
	if c.err != nil {
		how = c.err.Error()
	}
	return fmt.Errorf("%s ended unexpectedly: %s\n%s", c.name, how, c.logTail())
}

func (c *child) logTail() string {
	const lines = 15
	tail, err := lastLines(c.logFile, lines)
	if err != nil {
		return fmt.Sprintf("(its log cannot be read: %v)", err)
	}
	if tail == "" {
		return "(its log is empty)"
	}
	return fmt.Sprintf("the end of its log:\n%s", tail)
}
