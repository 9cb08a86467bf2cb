package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
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

// configuration is a file for `run`. Zero fields are left out, apart from url, whose zero is the test broker.
type configuration struct {
	url          string
	total        time.Duration
	queue        string
	exec         []string
	subscription []string // more lines of [[subscription]]
	more         []string // lines at the end
}

// write writes the file into a folder of its own, which it returns.
func (c configuration) write(t *testing.T) (dir string) {
	t.Helper()
	if c.url == "" {
		c.url = rabbittest.URL()
	}
	if c.queue == "" {
		c.queue = "none"
	}
	if c.exec == nil {
		c.exec = []string{"cat"}
	}
	command, err := json.Marshal(c.exec)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[service]\nname = \"orders\"\n[broker]\nurl = %q\n[report]\ndir = \"reports\"\n", c.url)
	if c.total > 0 {
		fmt.Fprintf(&b, "[lifecycle]\nshutdown_timeout = \"%s\"\n", c.total)
	}
	fmt.Fprintf(&b, "[[subscription]]\nqueue = %q\nexec = %s\n%s\n%s\n", c.queue, command,
		strings.Join(c.subscription, "\n"), strings.Join(c.more, "\n"))
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lastcall.toml"), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// through returns the test broker's URL with another address.
func through(t *testing.T, addr string) string {
	t.Helper()
	u, err := url.Parse(rabbittest.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Host = addr
	return u.String()
}

// brokerAddr is the test broker's host and port.
func brokerAddr(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(rabbittest.URL())
	if err != nil {
		t.Fatal(err)
	}
	if u.Port() == "" {
		return u.Host + ":5672"
	}
	return u.Host
}

// shell is an exec whose handler says that it has started.
func shell(script string) []string { return []string{"sh", "-c", "echo started; " + script} }

func ids(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("m%d", i+1)
	}
	return out
}

// onTime runs a test whose claims are about milliseconds, on a machine that others use too. What is right or wrong at any speed
// fails at once; what was merely late is tried again, and fails if it is late every time.
func onTime(t *testing.T, f func(t *testing.T, c *clock)) {
	t.Helper()
	const tries = 3
	for i := 1; ; i++ {
		c := &clock{stop: make(chan struct{}), stopped: make(chan struct{})}
		go c.listen()
		f(t, c)
		close(c.stop)
		<-c.stopped
		if t.Failed() || len(c.late) == 0 {
			return
		}
		if i == tries {
			t.Fatalf("late %d times: %s", tries, strings.Join(c.late, "; "))
		}
		t.Logf("late, once more: %s", strings.Join(c.late, "; "))
	}
}

// clock notes what took too long. It allows for the machine being late: for twice the worst delay that a goroutine saw which
// wants to run every millisecond.
type clock struct {
	late          []string
	noise         atomic.Int64
	stop, stopped chan struct{}
}

func (c *clock) listen() {
	defer close(c.stopped)
	for {
		begun := time.Now()
		select {
		case <-c.stop:
			return
		case <-time.After(time.Millisecond):
			c.noise.Store(max(c.noise.Load(), int64(time.Since(begun)-time.Millisecond)))
		}
	}
}

func (c *clock) allowance() time.Duration { return 2 * time.Duration(c.noise.Load()) }

func (c *clock) within(limit, took time.Duration, what string) {
	if took > limit+c.allowance() {
		c.late = append(c.late, fmt.Sprintf("%s took %s, want at most %s and %s for the machine", what, took.Round(100*time.Microsecond), limit, c.allowance()))
	}
}

// at notes an instant that is before the one that was planned, or more than slack after it.
func (c *clock) at(planned, was, slack time.Duration, what string) {
	if d := was - planned; d < 0 || d > slack+c.allowance() {
		c.late = append(c.late, fmt.Sprintf("%s at %s, want %s and at most %s later, and %s for the machine", what, was.Round(100*time.Microsecond), planned, slack, c.allowance()))
	}
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
