// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLastLines(t *testing.T) {
	long := strings.Repeat("x", tailBytes)
	for name, test := range map[string]struct{ content, want string }{
		"empty":             {"", ""},
		"fewer than wanted": {"a\n", "  a"},
		"more than wanted":  {"a\nb\nc\n", "  b\n  c"},
		"no newline at end": {"a\nb\nc", "  b\n  c"},
		"long line before":  {long + "\nb\nc\n", "  b\n  c"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := lastLines(path, 2)
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
