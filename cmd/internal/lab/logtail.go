// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
)

// tailBytes bounds what is read of a log: components may write long lines.
const tailBytes = 64 << 10

// lastLines returns the last n lines of a file, each indented by two spaces.
func lastLines(path string, n int) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open log: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("stat log: %w", err)
	}
	start := max(0, info.Size()-tailBytes)
	content, err := io.ReadAll(io.NewSectionReader(file, start, info.Size()-start))
	if err != nil {
		return "", fmt.Errorf("read log: %w", err)
	}
	if start > 0 {
		// The first line is a part only.
		_, content, _ = bytes.Cut(content, []byte("\n"))
	}
	text := strings.TrimRight(string(content), "\n")
	if text == "" {
		return "", nil
	}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-n):]
	return "  " + strings.Join(lines, "\n  "), nil
}
