// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The lab must not overwrite, and at its end remove, a kubeconfig that is not
// its own.
func TestUpRefusesFilesThatExist(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string]Options{
		"kubeconfig": {Kubeconfig: path},
		"ready file": {ReadyFile: path},
	} {
		options.Profile, options.Scheduler = "local-disks", NoScheduler
		err := Up(t.Context(), options, io.Discard)
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got error %v, want one that names %s", name, err, path)
		}
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "mine" {
		t.Errorf("file is %q, %v; want it untouched", content, err)
	}
}

func TestParseSchedulerNamesTheChoices(t *testing.T) {
	if _, err := ParseScheduler("default"); err == nil || !strings.Contains(err.Error(), `"upstream"`) {
		t.Errorf("got error %v, want the choices in it", err)
	}
}
