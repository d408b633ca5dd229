// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever upstream's package exports can be had here under the same name, but for a
// switch between upstream's allocators that is meant for its tests.
func TestEverythingIsExported(t *testing.T) {
	output, err := exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/dynamic-resource-allocation/structured").Output()
	if err != nil {
		t.Fatalf("find upstream's package: %v", err)
	}
	want := exported(t, strings.TrimSpace(string(output)))
	want = slices.DeleteFunc(want, func(name string) bool { return name == "EnableAllocators" })
	if diff := cmp.Diff(want, exported(t, ".")); diff != "" {
		t.Errorf("-upstream +ours:\n%s", diff)
	}
}

func exported(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range syntax.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names = append(names, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						names = append(names, s.Name.Name)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							names = append(names, name.Name)
						}
					}
				}
			}
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool { return !ast.IsExported(name) })
}
