//go:build linux

package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// bin is the folder with the binaries under test: lastcall, and blocked, a program that uses the library.
var bin string

// TestMain builds the binaries, with the race detector if the tests have it: what is tested here are whole processes, with
// signals, groups, namespaces and mounts as Linux has them.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if bin, err = os.MkdirTemp("", "lastcall-bin"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(bin)
		args := []string{"build", "-o", bin + string(filepath.Separator)}
		if raceDetector() {
			args = append(args, "-race")
		}
		build := exec.Command("go", append(args, ".", "./testdata/blocked")...)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, build, err)
			return 1
		}
		return m.Run()
	}())
}

func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}
