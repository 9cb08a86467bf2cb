package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const configs = "../testdata/configs"

// TestBadFiles holds every problem of every bad file against the text that a person reads.
func TestBadFiles(t *testing.T) {
	for _, path := range files(t, "bad/*.toml") {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			f, err := Parse(name, read(t, path), nil)
			if f != nil || err == nil {
				t.Fatalf("Parse = %v, %v, want no file and an error", f, err)
			}
			want := string(read(t, strings.TrimSuffix(path, ".toml")+".txt"))
			if diff := cmp.Diff(want, err.Error()+"\n"); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("a password is printed:\n%v", err)
			}
			problems := err.(*Error).Problems
			if !slices.IsSortedFunc(problems, byPlace) {
				t.Errorf("not in the order of the file:\n%v", err)
			}
		})
	}
}

// byPlace is the order of problems in one file, written down a second time.
func byPlace(a, b Problem) int {
	switch {
	case a.Line == 0 && b.Line == 0, a.Line == b.Line && a.Col == b.Col:
		return 0
	case a.Line == 0, b.Line > 0 && (a.Line > b.Line || a.Line == b.Line && a.Col > b.Col):
		return 1
	default:
		return -1
	}
}

func TestGoodFiles(t *testing.T) {
	for _, path := range files(t, "good/*.toml") {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			f, err := Parse(name, read(t, path), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, w := range f.Warnings {
				fails := ""
				if w.FailsCheck() {
					fails = " (check fails)"
				}
				got.WriteString(string(w.Kind) + fails + " " + w.String() + "\n")
			}
			want := string(read(t, strings.TrimSuffix(path, ".toml")+".txt"))
			if diff := cmp.Diff(want, got.String()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(configs, pattern))
	if err != nil || len(list) == 0 {
		t.Fatalf("no files %s (%v)", pattern, err)
	}
	return list
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
