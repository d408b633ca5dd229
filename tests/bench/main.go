// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Bench measures our engines against the code of Kubernetes that they stand in
// for: both in this process, in turns, on the same objects. It prints a table and
// writes the same as JSON.
//
//	bench -out bench-results.json            everything
//	bench -run '^device/' -rounds 15         some cases, more carefully
//
// A case is measured in rounds, ours and upstream's one after the other, and the
// table has the medians. A ratio is upstream's figure divided by ours: more is
// better. Where upstream does not end within -limit it is stopped; its figure is
// then the limit, and the ratio a lower bound.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	out := flag.String("out", "", "file for the results as JSON")
	pattern := flag.String("run", "", "regular expression for the names of the cases to run")
	var m meter
	flag.IntVar(&m.rounds, "rounds", 7, "rounds per case")
	flag.DurationVar(&m.sample, "sample", 20*time.Millisecond, "least time that one figure is measured over")
	flag.DurationVar(&m.limit, "limit", 2*time.Second, "time after which upstream is stopped")
	flag.Parse()

	selected, err := regexp.Compile(*pattern)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	t := newTable(os.Stdout)
	for _, c := range cases {
		if !selected.MatchString(c.name) {
			continue
		}
		result, err := m.measure(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		t.add(result)
	}
	if *out == "" {
		return nil
	}
	return t.write(*out)
}
