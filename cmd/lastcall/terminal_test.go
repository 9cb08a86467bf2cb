//go:build linux

package main_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal of a width: what is written to tty can be read from the other side.
func terminal(t *testing.T, columns uint16) (tty, other *os.File) {
	t.Helper()
	other, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { _ = other.Close() })
	fd := int(other.Fd())
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	must(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: columns}))
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { _ = tty.Close() })
	return tty, other
}

var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// In a terminal a report is as wide as the terminal and in colour, unless the environment says that it must not be.
func TestTerminal(t *testing.T) {
	t.Parallel()
	made := demo(t, "--json", "--stuck")
	made.exit()
	for name, tc := range map[string]struct {
		columns  uint16
		env      string
		coloured bool
	}{
		"80 columns":  {80, "TERM=xterm", true},
		"140 columns": {140, "TERM=xterm", true},
		"NO_COLOR":    {80, "NO_COLOR=1", false},
		"dumb":        {80, "TERM=dumb", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := prepare(t, t.TempDir(), "lastcall", "report", "show", "report.json")
			must(t, os.WriteFile(filepath.Join(l.dir, "report.json"), made.stdout.Bytes(), 0o600))
			tty, other := terminal(t, tc.columns)
			l.cmd.Stdout = tty
			l.cmd.Env = append(l.cmd.Env, "TERM=xterm", tc.env)
			l.start()
			must(t, tty.Close())
			shown, _ := io.ReadAll(other) // it ends with EIO, as terminals do
			if code := l.exit(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if got := colour.Match(shown); got != tc.coloured {
				t.Errorf("in colour: %v, want %v", got, tc.coloured)
			}
			widest := 0
			for line := range strings.Lines(colour.ReplaceAllString(string(shown), "")) {
				if line = strings.TrimRight(line, "\r\n"); utf8.RuneCountInString(line) > int(tc.columns) {
					t.Errorf("wider than the terminal: %q", line)
				}
				widest = max(widest, utf8.RuneCountInString(line))
			}
			if widest < int(tc.columns)*9/10 {
				t.Errorf("%d columns of %d are used", widest, tc.columns)
			}
		})
	}
}
