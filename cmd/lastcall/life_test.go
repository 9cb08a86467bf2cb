//go:build linux

package main_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/report/reporttest"
)

// patience is how long a test waits for what must come; a test that passes never waits that long.
const patience = 20 * time.Second

// life is one process under test, in a folder of its own.
type life struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	stdout bytes.Buffer // complete once the process is over
	stderr stream
	over   chan struct{}
	ended  time.Time // valid once over is closed
	last   *report.ShutdownReport
}

// prepare makes a process of a program in bin, not yet started. It is killed at the end of the test.
func prepare(t *testing.T, dir, program string, args ...string) *life {
	t.Helper()
	l := &life{t: t, dir: dir, over: make(chan struct{})}
	l.stderr.changed = make(chan struct{})
	l.cmd = exec.Command(filepath.Join(bin, program), args...)
	l.cmd.Dir, l.cmd.Env = dir, environment()
	l.cmd.Stdout, l.cmd.Stderr = &l.stdout, &l.stderr
	l.cmd.WaitDelay = time.Second
	return l
}

// environment is the test's own, without what would configure Lastcall or its tests.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LASTCALL_") && !strings.HasPrefix(v, "NO_COLOR") {
			env = append(env, v)
		}
	}
	return append(env, "GORACE=atexit_sleep_ms=0") // the race detector's own second at the exit
}

func (l *life) start() {
	l.t.Helper()
	if err := l.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		defer close(l.over)
		_ = l.cmd.Wait()
		l.ended = time.Now()
	}()
	l.t.Cleanup(func() {
		_ = l.cmd.Process.Kill()
		<-l.over
		if l.t.Failed() {
			l.t.Logf("stderr of %s:\n%s", filepath.Base(l.cmd.Path), l.stderr.text())
			if l.last != nil {
				l.t.Logf("its report:\n%s", report.Text(l.last, report.TextOptions{Width: 120}))
			}
		}
	})
}

// runs starts `lastcall run` with a configuration; its log lines are JSON.
func runs(t *testing.T, c configuration) *life {
	t.Helper()
	l := prepare(t, c.write(t), "lastcall", "run", "-c", "lastcall.toml", "--log", "json")
	l.start()
	return l
}

// signal sends sig and returns when.
func (l *life) signal(sig syscall.Signal) time.Time {
	l.t.Helper()
	at := time.Now()
	if err := l.cmd.Process.Signal(sig); err != nil {
		l.t.Fatalf("%v: %v", sig, err)
	}
	return at
}

// await waits for the nth line of stderr that holds every one of the words.
func (l *life) await(n int, words ...string) {
	l.t.Helper()
	if !l.stderr.await(n, l.over, words) {
		l.t.Fatalf("stderr does not say %q %d times", words, n)
	}
}

// awaitStarted waits until n handlers run.
func (l *life) awaitStarted(n int) {
	l.t.Helper()
	l.await(n, `"msg":"started"`, `"stream":"stdout"`)
}

// exit waits for the end and returns the exit code, 128 plus its number for a signal.
func (l *life) exit() int {
	l.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-l.over:
	case <-timeout.C:
		_ = l.cmd.Process.Signal(syscall.SIGABRT) // the goroutines are worth seeing
		kill := time.AfterFunc(time.Second, func() { _ = l.cmd.Process.Kill() })
		<-l.over
		kill.Stop()
		l.t.Fatalf("still running after %s", patience)
	}
	if text := l.stderr.text(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "\npanic: ") {
		l.t.Error("a race or a panic, see stderr")
	}
	status := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// report waits for the end and returns the one report it left, which must be valid and say what the exit code says.
func (l *life) report() *report.ShutdownReport {
	l.t.Helper()
	code := l.exit()
	raw := l.reports()
	if len(raw) != 1 {
		l.t.Fatalf("%d reports, exit code %d; want one report", len(raw), code)
	}
	d := reporttest.Check(l.t, raw[0])
	if d == nil {
		l.t.FailNow()
	}
	if d.ExitCode != code {
		l.t.Errorf("exit code %d, but the report says %d", code, d.ExitCode)
	}
	l.last = d
	return d
}

// reports returns what lies in the folder for reports.
func (l *life) reports() (raw [][]byte) {
	l.t.Helper()
	entries, err := os.ReadDir(filepath.Join(l.dir, "reports"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(l.dir, "reports", e.Name()))
		if err != nil {
			l.t.Fatal(err)
		}
		raw = append(raw, b)
	}
	return raw
}

// lines returns the lines of a file that handlers write.
func (l *life) lines(name string) []string {
	l.t.Helper()
	b, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// stream collects what a process writes.
type stream struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{} // closed and replaced at each write
}

func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
	return s.b.Write(b)
}

func (s *stream) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *stream) await(n int, over <-chan struct{}, words []string) bool {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for ended := false; ; {
		s.mu.Lock()
		changed, found := s.changed, 0
		for line := range strings.Lines(s.b.String()) {
			if holds(line, words) {
				found++
			}
		}
		s.mu.Unlock()
		if found >= n {
			return true
		}
		if ended {
			return false
		}
		select {
		case <-changed:
		case <-over:
			ended = true
		case <-timeout.C:
			return false
		}
	}
}

func holds(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
