//go:build linux

package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/report/reporttest"
)

// fullPipe returns the writing end of a pipe that holds all it can, and that nobody reads until the end of the test.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var fds [2]int
	must(t, syscall.Pipe2(fds[:], syscall.O_CLOEXEC))
	t.Cleanup(func() { _ = syscall.Close(fds[0]) })
	must(t, syscall.SetNonblock(fds[1], true))
	for b := make([]byte, 4096); ; {
		_, err := syscall.Write(fds[1], b)
		if err == syscall.EAGAIN && len(b) == 1 {
			break
		}
		if err == syscall.EAGAIN {
			b = b[:1]
		} else if err != nil {
			t.Fatal(err)
		}
	}
	must(t, syscall.SetNonblock(fds[1], false))
	w := os.NewFile(uintptr(fds[1]), "full pipe")
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// brokenPipe returns the writing end of a pipe whose reader is gone.
func brokenPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// What becomes of stderr and stdout is no reason to end late, in another way, or without a report. One warning about the
// configuration is written before anything reads signals, and what handlers write is more than a pipe holds. The last log lines
// have until the root deadline; where they are refused there is nothing to wait for.
func TestShown12_NobodyReads(t *testing.T) {
	t.Parallel()
	const total = 2 * time.Second
	for name, tc := range map[string]struct {
		limit time.Duration
		wire  func(t *testing.T, l *life)
	}{
		"stderr is full":    {total, func(t *testing.T, l *life) { l.cmd.Stderr = fullPipe(t) }},
		"both are one pipe": {total, func(t *testing.T, l *life) { l.cmd.Stderr = fullPipe(t); l.cmd.Stdout = l.cmd.Stderr }},
		"stderr is full, log in text": {total, func(t *testing.T, l *life) {
			l.cmd.Stderr = fullPipe(t)
			l.cmd.Args = l.cmd.Args[:len(l.cmd.Args)-2] // --log json
		}},
		"stderr is broken": {total / 8, func(t *testing.T, l *life) { l.cmd.Stderr = brokenPipe(t) }},
		"all are closed": {total / 8, func(t *testing.T, l *life) {
			args := append([]string{"-c", `exec "$0" "$@" <&- >&- 2>&-`}, l.cmd.Args...)
			l.cmd.Path, l.cmd.Args = "/bin/sh", append([]string{"sh"}, args...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := rabbittest.New(t)
			onTime(t, func(t *testing.T, c *clock) {
				queue := b.Queue(rabbittest.Classic)
				b.Publish(queue, ids(3)...)
				dir := configuration{queue: queue, total: total, subscription: []string{"prefetch = 1", "concurrency = 2"},
					exec: []string{"sh", "-c", `yes | head -c 60000; echo "$(cat)" >> out`}}.write(t)
				l := prepare(t, dir, "lastcall", "run", "-c", "lastcall.toml", "--log", "json")
				tc.wire(t, l)
				l.start()
				for until := time.Now().Add(patience); len(l.lines("out")) < 3; time.Sleep(2 * time.Millisecond) {
					if time.Now().After(until) {
						t.Fatalf("handled within %s: %v", patience, l.lines("out"))
					}
				}
				c.begin()
				stop := l.signal(syscall.SIGTERM)
				d := l.report()
				if c.missed(d.Deliveries.InShutdown.Unresolved > 0, "the broker's answers came after the share of the channel") {
					return
				}
				if d.Completion != report.GracefulCompleted || d.Deliveries.SinceStart.Acked != 3 {
					t.Errorf("%s, since the start %+v", d.Completion, d.Deliveries.SinceStart)
				}
				c.within(tc.limit, 50*time.Millisecond, l.ended.Sub(stop), "the shutdown")
			})
		})
	}
}

// A directory that does not take the report changes nothing but where the report is: one JSON line on stderr.
func TestShown12_ReportNotStored(t *testing.T) {
	t.Parallel()
	spoils := map[string]func(t *testing.T, dir string){
		"vanished": func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) },
		"replaced by a file": func(t *testing.T, dir string) {
			must(t, os.RemoveAll(dir))
			must(t, os.WriteFile(dir, nil, 0o600))
		},
	}
	if os.Getuid() != 0 {
		spoils["read-only"] = func(t *testing.T, dir string) {
			must(t, os.Chmod(dir, 0o500))
			t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		}
	} else if mounts(t) { // permissions stop nobody here
		spoils["read-only"] = func(t *testing.T, dir string) { mount(t, dir, "ro") }
		spoils["full"] = func(t *testing.T, dir string) {
			mount(t, dir, "size=4k")
			must(t, os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 4096), 0o600))
		}
	}
	for name, spoil := range spoils {
		t.Run(name, func(t *testing.T) {
			l := idle(t)
			spoil(t, filepath.Join(l.dir, "reports"))
			l.signal(syscall.SIGTERM)
			if code := l.exit(); code != 0 {
				t.Errorf("exit code %d, want 0 all the same", code)
			}
			var found []*report.ShutdownReport
			for line := range strings.Lines(l.stderr.text()) {
				var head struct{ Schema string }
				if json.Unmarshal([]byte(line), &head) == nil && head.Schema == report.SchemaID {
					found = append(found, reporttest.Check(t, []byte(line)))
				}
			}
			if len(found) != 1 || found[0].Completion != report.GracefulCompleted || found[0].Trigger.Detail != "SIGTERM" {
				t.Errorf("%d reports on stderr, want one of a graceful end", len(found))
			}
			l.await(1, "could not be stored")
		})
	}
}

// mounts reports whether this system lets us mount.
func mounts(t *testing.T) bool {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "none", dir).CombinedOutput(); err != nil {
		t.Logf("without a read-only and a full file system, which cannot be mounted here: %s", out)
		return false
	}
	must(t, syscall.Unmount(dir, 0))
	return true
}

func mount(t *testing.T, dir, options string) {
	t.Helper()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "none", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, 0)) })
}
