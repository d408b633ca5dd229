// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

const (
	root   = "../.."
	module = "github.com/berth-scheduler/berth"
	header = "// Copyright The Berth Authors.\n// SPDX-License-Identifier: Apache-2.0\n\n"
)

// A rule says what the packages of some rooms may not import. Test files are
// exempt, they may compare with whatever they like.
type rule struct {
	rooms  []string
	banned []string
	why    string
}

var rules = []rule{
	{
		rooms:  []string{"device", "volume", "reason"},
		banned: []string{"k8s.io/client-go", "k8s.io/klog", "k8s.io/kubernetes", "k8s.io/component-base", "k8s.io/kube-scheduler", "log", "log/slog", "net/http", "os"},
		why:    "the core takes data and gives decisions: no client, informer, logger or scheduler",
	},
	{
		rooms:  []string{"device", "volume", "reason"},
		banned: []string{module + "/internal", module + "/plugin", module + "/deploy"},
		why:    "the core stands on nothing of ours but itself",
	},
	{
		rooms:  []string{"reason"},
		banned: []string{module + "/device", module + "/volume"},
		why:    "both engines speak in reasons, so reasons know neither",
	},
	{
		rooms:  []string{"device"},
		banned: []string{module + "/volume"},
		why:    "each engine can be used without the other",
	},
	{
		rooms:  []string{"volume"},
		banned: []string{module + "/device"},
		why:    "each engine can be used without the other",
	},
	{
		rooms:  []string{"plugin/deviceclaims"},
		banned: []string{module + "/volume", module + "/plugin/volumeclaims"},
		why:    "each plugin can be used without the other",
	},
	{
		rooms:  []string{"plugin/volumeclaims"},
		banned: []string{module + "/device", module + "/plugin/deviceclaims"},
		why:    "each plugin can be used without the other",
	},
	{
		rooms:  []string{"device", "volume", "reason", "structured", "plugin", "internal/live", "internal/ledger", "internal/draws", "internal/gate"},
		banned: []string{module + "/internal/faults", module + "/internal/property"},
		why:    "it is for tests",
	},
	{
		rooms:  []string{"."},
		banned: []string{"k8s.io/kubernetes", module + "/cmd", module + "/tests"},
		why:    "the root module is for import by others and needs only staging modules",
	},
}

// TestImports holds the walls of the house.
func TestImports(t *testing.T) {
	for _, file := range sources(t) {
		if strings.HasSuffix(file.path, "_test.go") {
			continue
		}
		for _, r := range rules {
			if !slices.ContainsFunc(r.rooms, func(room string) bool { return within(file.path, room) }) {
				continue
			}
			for _, spec := range file.syntax.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				for _, banned := range r.banned {
					if within(path, banned) {
						t.Errorf("%s imports %s: %s", file.position(spec), path, r.why)
					}
				}
			}
		}
	}
}

// TestCoreIsPure: a decision depends on its input alone, so the core starts no
// goroutine and reads no clock.
func TestCoreIsPure(t *testing.T) {
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}
	for _, file := range sources(t) {
		if strings.HasSuffix(file.path, "_test.go") ||
			!within(file.path, "device") && !within(file.path, "volume") && !within(file.path, "reason") {
			continue
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a goroutine in the core", file.position(n))
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && slices.Contains(clock, n.Sel.Name) {
					t.Errorf("%s: time.%s in the core", file.position(n), n.Sel.Name)
				}
			}
			return true
		})
	}
}

// TestHeaders: every source file names its license the same way.
func TestHeaders(t *testing.T) {
	for _, file := range allSources(t) {
		if !strings.HasPrefix(file.text, header) {
			t.Errorf("%s does not begin with the license header", file.path)
		}
	}
}

// TestRootModule: whoever imports the root module inherits neither a scheduler
// nor a replace directive, which would not work for them anyway.
func TestRootModule(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Replace {
		t.Errorf("go.mod replaces %s", r.Old.Path)
	}
	const staging = "v0.37.2"
	versioned := []string{"api", "apimachinery", "client-go", "component-base", "component-helpers", "dynamic-resource-allocation", "kube-scheduler"}
	for _, r := range mod.Require {
		if r.Mod.Path == "k8s.io/kubernetes" {
			t.Errorf("go.mod requires %s", r.Mod)
		}
		if name, ok := strings.CutPrefix(r.Mod.Path, "k8s.io/"); ok && slices.Contains(versioned, name) && r.Mod.Version != staging {
			t.Errorf("go.mod requires %s, want %s of every staging module", r.Mod, staging)
		}
	}
}

// source is a parsed file; path is relative to the root, with slashes.
type source struct {
	path   string
	text   string
	syntax *ast.File
	files  *token.FileSet
}

func (s source) position(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.path, s.files.Position(n.Pos()).Line)
}

// sources returns the files of the root module.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	for _, file := range allSources(t) {
		if !within(file.path, "cmd") && !within(file.path, "tests") && !within(file.path, "tools") {
			out = append(out, file)
		}
	}
	return out
}

// allSources returns the Go files of the repository.
func allSources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		syntax, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		out = append(out, source{path: filepath.ToSlash(relative), text: string(text), syntax: syntax, files: files})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatal("found no source file, so nothing was checked")
	}
	return out
}

// within says whether a path is the room or lies in it.
func within(path, room string) bool {
	return room == "." || path == room || strings.HasPrefix(path, room+"/")
}
