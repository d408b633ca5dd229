// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// table prints results as they come, as a long run should show that it moves.
type table struct {
	out     io.Writer
	results []result
}

const row = "%-44s %-7s %14s %14s %12s\n"

func newTable(out io.Writer) *table {
	fmt.Fprintf(out, row, "CASE", "UNIT", "UPSTREAM", "OURS", "RATIO")
	return &table{out: out, results: []result{}}
}

func (t *table) add(r result) {
	t.results = append(t.results, r)
	bound := ""
	if r.AtLeast {
		bound = ">= "
	}
	fmt.Fprintf(t.out, row, r.Case, r.Unit, bound+figure(r.Upstream), figure(r.Ours), bound+figure(r.Ratio))
}

// figure has three digits that count.
func figure(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

func (t *table) write(file string) error {
	encoded, err := json.MarshalIndent(t.results, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the results: %w", err)
	}
	if err := os.WriteFile(file, append(encoded, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}
