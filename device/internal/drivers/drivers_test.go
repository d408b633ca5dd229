// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package drivers_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the files of testdata anew")

// real are files of objects that drivers publish; they come with the project's
// shared data, not with the project.
const real = "../../../../shared/data/real"

// Every claim of every file is placed, namespace by namespace, each on a cluster of
// its own; testdata has what came of it.
func TestClaimsOfRealDrivers(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(real, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("the files of real drivers are not here")
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			o := load(t, file)
			var printed strings.Builder
			for _, namespace := range o.namespaces {
				text, _ := o.run(t, namespace, variant{})
				printed.WriteString(text)
			}
			if printed.Len() == 0 {
				return // has no claims for devices
			}
			golden := filepath.Join("testdata", name+".txt")
			if *rewrite {
				if err := os.WriteFile(golden, []byte(printed.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), printed.String()); diff != "" {
				t.Errorf("-golden +now:\n%s", diff)
			}
		})
	}
}
