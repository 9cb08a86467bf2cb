package arch

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// tree is the source of one module, whatever its build tags.
type tree struct {
	module string
	files  []file
	set    *token.FileSet
}

// file is one Go file. dir is its package's path below the module, "." for the root.
type file struct {
	dir, name string
	test      bool
	syntax    *ast.File
}

func readTree(fsys fs.FS) (*tree, error) {
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, err
	}
	module, ok := modulePath(string(mod))
	if !ok {
		return nil, errors.New("go.mod names no module")
	}
	t := &tree{module: module, set: token.NewFileSet()}
	err = fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skip(fsys, name)
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(t.set, name, src, parser.ParseComments)
		if err != nil {
			return err
		}
		t.files = append(t.files, file{path.Dir(name), name, strings.HasSuffix(name, "_test.go"), syntax})
		return nil
	})
	return t, err
}

func modulePath(mod string) (string, bool) {
	for line := range strings.Lines(mod) {
		if module, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(module), true
		}
	}
	return "", false
}

// skip returns fs.SkipDir for a folder whose files are not the module's.
func skip(fsys fs.FS, dir string) error {
	base := path.Base(dir)
	if dir == "." {
		return nil
	}
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "vendor" {
		return fs.SkipDir
	}
	if _, err := fs.Stat(fsys, path.Join(dir, "go.mod")); !errors.Is(err, fs.ErrNotExist) {
		return fs.SkipDir
	}
	return nil
}

// at names a place in the tree.
func (t *tree) at(node ast.Node) string {
	p := t.set.Position(node.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// sibling returns the path below the module of an import path of its own.
func (t *tree) sibling(importPath string) (dir string, ok bool) {
	if importPath == t.module {
		return ".", true
	}
	return strings.CutPrefix(importPath, t.module+"/")
}

// in reports whether dir is one of the patterns: a path, or "path/..." for everything below it.
func in(dir string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		below, wild := strings.CutSuffix(pattern, "...")
		return dir == pattern || wild && strings.HasPrefix(dir, below)
	})
}

// realTree reads the module that this test stands in.
func realTree(t *testing.T) *tree {
	t.Helper()
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(root)
		if up == root {
			t.Fatal("no go.mod above this test")
		}
		root = up
	}
	tree, err := readTree(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// madeTree reads a module "m" made of the given files.
func madeTree(t *testing.T, files map[string]string) *tree {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module m\n")}}
	for name, src := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(src)}
	}
	tree, err := readTree(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestWhatBelongsToTheTree(t *testing.T) {
	made := madeTree(t, map[string]string{
		"a/a.go":              "package a",
		"a/a_test.go":         "package a",
		"a/windows.go":        "//go:build windows\n\npackage a",
		"a/notes.txt":         "not Go",
		"a/testdata/x.go":     "package x",
		".cache/x.go":         "package x",
		"_old/x.go":           "package x",
		"benchmarks/go.mod":   "module other\n",
		"benchmarks/x.go":     "package x",
		"benchmarks/b/x.go":   "package x",
		"vendor/other/x/x.go": "package x",
	})
	var names []string
	for _, f := range made.files {
		names = append(names, f.name)
	}
	if want := []string{"a/a.go", "a/a_test.go", "a/windows.go"}; !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
}
