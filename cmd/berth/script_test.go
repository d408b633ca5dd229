// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	program := func() { os.Exit(run()) }
	testscript.Main(m, map[string]func(){"berth": program, "kubectl-berth": program})
}

// What people see on the command line: each file of testdata/script is a session.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}
