// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// dumpedLines is how much of each log is worth reading in a test's output.
const dumpedLines = 40

// logDirectory is where the logs of the test's lab go.
func logDirectory(t testing.TB) string {
	t.Helper()
	kept := os.Getenv("BERTH_LAB_LOGS")
	if kept == "" {
		return t.TempDir()
	}
	dir := filepath.Join(kept, filepath.FromSlash(t.Name()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatalf("create directory for logs: %v", err)
	}
	return dir
}

// dumpLogs adds the end of every log to the output of the test.
func dumpLogs(t testing.TB, dir string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Errorf("find logs: %v", err)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("read log: %v", err)
			continue
		}
		lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
		lines = lines[max(0, len(lines)-dumpedLines):]
		t.Logf("the end of %s:\n%s", filepath.Base(path), bytes.Join(lines, []byte("\n")))
	}
}

// Log returns what a component of the lab has logged so far.
func (l *Lab) Log(t testing.TB, component string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(l.logs, component+".log"))
	if err != nil {
		t.Fatalf("read log of %s: %v", component, err)
	}
	return string(content)
}
