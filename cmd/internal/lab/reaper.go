// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// A child that still lives this long after the parent is killed. Only one that
// is stopped or wedged does: the others end with their lifeline.
const reaperPatience = 5 * time.Second

// aliveFile is the descriptor of the alive pipe in the children (the first of
// exec.Cmd's ExtraFiles).
const aliveFile = 3

// reap waits until the parent and all its children are gone and removes what
// they left. When a lab ends in the usual way its parent has removed that and
// kills the reaper.
func reap(leftovers []string) error {
	// The reaper outlives whoever is told to end.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	allGone := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, os.NewFile(aliveFile, "alive"))
		allGone <- err
	}()
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return fmt.Errorf("wait for the end of the parent: %w", err)
	}
	select {
	case err := <-allGone:
		return errors.Join(err, removeAll(leftovers))
	case <-time.After(reaperPatience):
		err := removeAll(leftovers)
		// The children are in the group that the reaper leads, and so is the
		// reaper itself: this is the last thing it does.
		return errors.Join(err, syscall.Kill(0, syscall.SIGKILL))
	}
}

func removeAll(paths []string) error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}
