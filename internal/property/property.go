// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package property sets how thorough property tests are.
package property

import (
	"flag"
	"os"
	"strconv"
	"testing"

	// It defines the flags.
	_ "pgregory.net/rapid"
)

// Main runs the tests of a package, each property with the same 2,000 cases every
// time, so that a failure is the fault of the change at hand; -rapid.checks asks
// for another number and -rapid.seed=0 for others. Under the race detector, which
// is there for what the cases have in common and makes each ten times as slow, they
// are 100. It is to be called from TestMain and does not return.
func Main(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": strconv.Itoa(checks), "rapid.seed": "1"} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
