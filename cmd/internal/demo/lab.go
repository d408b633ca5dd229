// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/cmd/internal/lab"
)

const poll = 20 * time.Millisecond

// runningLab is a lab whose parent is this process.
type runningLab struct {
	status lab.Status
	// took is the time until all of it was ready.
	took time.Duration

	dir    string
	cancel context.CancelFunc
	// ended gets the result of the lab, once.
	ended chan error
}

// startLab returns when the lab is ready. It leaves nothing behind on failure.
func startLab(ctx context.Context) (*runningLab, error) {
	dir, err := os.MkdirTemp("", "berth-demo-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	l := &runningLab{dir: dir, ended: make(chan error, 1)}
	options := lab.Options{Profile: "demo", Scheduler: lab.BerthScheduler, ReadyFile: filepath.Join(dir, "ready.json")}
	// The lab outlives an interrupted demo until stop.
	labContext, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	began := time.Now()
	go func() { l.ended <- lab.Up(labContext, options, io.Discard) }()
	if err := l.await(ctx, options.ReadyFile); err != nil {
		return nil, errors.Join(err, l.stop())
	}
	l.took = time.Since(began)
	return l, nil
}

func (l *runningLab) await(ctx context.Context, ready string) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		content, err := os.ReadFile(ready)
		switch {
		case err == nil:
			if err := json.Unmarshal(content, &l.status); err != nil {
				return fmt.Errorf("reading what the lab says of itself: %w", err)
			}
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("waiting for the lab: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the lab to be ready: %w", ctx.Err())
		case err := <-l.ended:
			l.ended <- nil
			return fmt.Errorf("the lab ended before it was ready: %w", err)
		case <-ticker.C:
		}
	}
}

func (l *runningLab) clientConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.status.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the lab's kubeconfig: %w", err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

// stop ends the lab and checks that nothing of it is left.
func (l *runningLab) stop() error {
	l.cancel()
	err := <-l.ended
	if err != nil {
		err = fmt.Errorf("stopping the lab: %w", err)
	}
	err = errors.Join(err, os.RemoveAll(l.dir))
	for name, pid := range l.status.Processes {
		if pid != os.Getpid() && syscall.Kill(pid, 0) == nil {
			err = errors.Join(err, fmt.Errorf("process %d (%s) of the lab is still there", pid, name))
		}
	}
	if l.status.Directory != "" {
		if _, statErr := os.Stat(l.status.Directory); !errors.Is(statErr, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("directory %s of the lab is still there", l.status.Directory))
		}
	}
	return err
}
