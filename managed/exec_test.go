//go:build unix

package managed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

// lines is a slog.Handler that keeps what it is given as "LEVEL stream text".
type lines struct {
	mu   sync.Mutex
	kept []string
	more chan struct{}
}

func newLines() *lines { return &lines{more: make(chan struct{})} }

func (*lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l *lines) WithGroup(string) slog.Handler          { return l }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	text := r.Level.String()
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.Value.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, text+" "+r.Message)
	close(l.more)
	l.more = make(chan struct{})
	return nil
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.kept)
}

// await returns the text of the first line that begins with prefix, once it has come.
func (l *lines) await(t *testing.T, prefix string) string {
	t.Helper()
	for {
		l.mu.Lock()
		more := l.more
		for _, line := range l.kept {
			if text, ok := strings.CutPrefix(line, prefix); ok {
				l.mu.Unlock()
				return text
			}
		}
		l.mu.Unlock()
		select {
		case <-more:
		case <-t.Context().Done():
			t.Fatalf("no line %q", prefix)
		}
	}
}

// kid is one child under test.
type kid struct {
	log    *lines
	cancel context.CancelCauseFunc
	done   chan Outcome
}

// never is the killAt of a child that is to end by itself.
func never(error) time.Time { return deadline.Now().Add(time.Hour) }

// start runs a child beside the test.
func start(t *testing.T, cfg ExecConfig, body []byte, killAt func(error) time.Time) *kid {
	t.Helper()
	leaks(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	k := &kid{log: newLines(), cancel: cancel, done: make(chan Outcome, 1)}
	c := child{cfg: cfg, body: body, env: os.Environ(), killAt: killAt, log: slog.New(k.log)}
	go func() { k.done <- cfg.outcome(c.run(ctx)) }()
	return k
}

// leaks fails the test if it leaves a goroutine, a file descriptor or a child behind.
func leaks(t *testing.T) {
	t.Helper()
	var warm pipe // the runtime's poller opens descriptors of its own at its first use
	warm.r, warm.w, _ = os.Pipe()
	warm.close()
	ignore := goleak.IgnoreCurrent()
	before := descriptors(t)
	t.Cleanup(func() {
		goleak.VerifyNone(t, ignore)
		if after := descriptors(t); after > before {
			t.Errorf("%d file descriptors are open, %d were before", after, before)
		}
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
			t.Errorf("wait4 = %d, %v: a child is not reaped", pid, err)
		}
	})
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

func shell(script string) ExecConfig { return ExecConfig{Command: []string{"/bin/sh", "-c", script}} }

// run runs a child that ends by itself.
func run(t *testing.T, cfg ExecConfig, body []byte) (Outcome, []string) {
	t.Helper()
	k := start(t, cfg, body, never)
	out := <-k.done
	return out, k.log.all()
}

// TestExecExitCodes: what the exit code says, and that what says nothing about the message never rejects it.
func TestExecExitCodes(t *testing.T) {
	const sh = "/bin/sh"
	for script, want := range map[string]Outcome{
		"exit 0":        Ack,
		"exit 65":       Reject(&ExecExitError{sh, 65}),
		"exit 75":       Requeue(&ExecExitError{sh, 75}),
		"exit 1":        Fail(&ExecExitError{sh, 1}),
		"exit 64":       Fail(&ExecExitError{sh, 64}),
		"exit 137":      Fail(&ExecExitError{sh, 137}),
		"exit 255":      Fail(&ExecExitError{sh, 255}),
		"exit 126":      Requeue(&ExecStartError{Program: sh, Code: 126}),
		"exit 127":      Requeue(&ExecStartError{Program: sh, Code: 127}),
		"/no/such":      Requeue(&ExecStartError{Program: sh, Code: 127}),
		"kill -KILL $$": Requeue(&ExecSignalError{sh, syscall.SIGKILL}),
		"kill -TERM $$": Requeue(&ExecSignalError{sh, syscall.SIGTERM}),
		"kill -SEGV $$": Requeue(&ExecSignalError{sh, syscall.SIGSEGV}),
	} {
		t.Run(script, func(t *testing.T) {
			got, _ := run(t, shell(script), nil)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(Outcome{})); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExecCannotStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		cfg  ExecConfig
		want error
	}{
		"missing":            {ExecConfig{Command: []string{filepath.Join(dir, "none")}}, fs.ErrNotExist},
		"not in PATH":        {ExecConfig{Command: []string{"no-such-program-anywhere"}}, nil},
		"not executable":     {ExecConfig{Command: []string{write("plain", "#!/bin/sh\n", 0o600)}}, fs.ErrPermission},
		"a directory":        {ExecConfig{Command: []string{dir}}, fs.ErrPermission},
		"no program at all":  {ExecConfig{Command: []string{write("noise", "\x01\x02", 0o700)}}, syscall.ENOEXEC},
		"no interpreter":     {ExecConfig{Command: []string{write("script", "#!/no/such\n", 0o700)}}, fs.ErrNotExist},
		"no such directory":  {ExecConfig{Command: []string{"/bin/sh", "-c", "exit 65"}, Dir: filepath.Join(dir, "none")}, fs.ErrNotExist},
		"too many arguments": {ExecConfig{Command: []string{"/bin/sh", "-c", "exit 65", strings.Repeat("x", 4<<20)}}, syscall.E2BIG},
	} {
		t.Run(name, func(t *testing.T) {
			out, _ := run(t, c.cfg, []byte("body"))
			e, ok := errors.AsType[*ExecStartError](out.Cause())
			if out.Verdict() != VerdictRequeue || !ok || e.Program != c.cfg.Command[0] {
				t.Fatalf("outcome = %s, %v; want requeue for an *ExecStartError", out.Verdict(), out.Cause())
			}
			if c.want != nil && !errors.Is(e, c.want) {
				t.Errorf("cause = %v, want one that Is %v", e, c.want)
			}
		})
	}
}

// TestExecKilled: somebody else kills the child.
func TestExecKilled(t *testing.T) {
	k := start(t, shell("echo $$; exec sleep 60"), nil, never)
	pid, err := strconv.Atoi(k.log.await(t, "INFO stdout "))
	if err != nil {
		t.Fatal(err)
	}
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("process group of %d = %d, %v; want its own", pid, group, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	want := Requeue(&ExecSignalError{"/bin/sh", syscall.SIGKILL})
	if diff := cmp.Diff(want, <-k.done, cmp.AllowUnexported(Outcome{})); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func TestExecBody(t *testing.T) {
	for _, n := range []int{0, 1, 4096, 64 << 10, 64<<10 + 1, 3 << 20} {
		_, log := run(t, shell("wc -c | tr -d ' '"), make([]byte, n))
		if diff := cmp.Diff([]string{fmt.Sprintf("INFO stdout %d", n)}, log); diff != "" {
			t.Errorf("a body of %d bytes (-want +got):\n%s", n, diff)
		}
	}
}

// TestExecPrompt: the grace for output is for what a child leaves behind, and nobody else waits for it.
func TestExecPrompt(t *testing.T) {
	const n = 20
	began := deadline.Now()
	for range n {
		if out, _ := run(t, shell("echo x; echo y >&2"), []byte("body")); out != Ack {
			t.Fatalf("outcome = %s, %v", out.Verdict(), out.Cause())
		}
	}
	if took := deadline.Since(began); took > n*outputGrace {
		t.Errorf("%d children took %s", n, took)
	}
}

// TestExecBodyUnread: a child that does not want the body is neither kept waiting nor at fault.
func TestExecBodyUnread(t *testing.T) {
	body := make([]byte, 8<<20)
	for name, script := range map[string]string{
		"not read":      "exit 0",
		"read in part":  "head -c 100000 >/dev/null",
		"closed early":  "exec <&-; head -c 100 /dev/zero >/dev/null",
		"kept by a son": "exec 3<&0; sleep 3 <&3 >/dev/null 2>&1 & exit 0",
	} {
		t.Run(name, func(t *testing.T) {
			began := deadline.Now()
			if out, _ := run(t, shell(script), body); out != Ack {
				t.Errorf("outcome = %s, %v", out.Verdict(), out.Cause())
			}
			if took := deadline.Since(began); took > 2*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// TestExecLeftBehind: a process that a child leaves behind keeps its output open and holds nobody up; what was written before
// is logged.
func TestExecLeftBehind(t *testing.T) {
	began := deadline.Now()
	out, log := run(t, shell("sleep 3 & echo done; echo $! >&2; exit 75"), []byte("body"))
	if took := deadline.Since(began); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
	if out.Verdict() != VerdictRequeue {
		t.Errorf("outcome = %s, %v", out.Verdict(), out.Cause())
	}
	if len(log) != 2 || !slices.Contains(log, "INFO stdout done") {
		t.Fatalf("log = %q", log)
	}
	slices.Sort(log)
	pid, err := strconv.Atoi(strings.TrimPrefix(log[1], "WARN stderr "))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("what the child left behind by itself: %v, want it alive", err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// TestExecStorm runs many children at once and cuts some of them short: every one is reaped, and nothing is left.
func TestExecStorm(t *testing.T) {
	leaks(t)
	body := make([]byte, 200_000)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 8 {
				cfg := shell("head -c 1000; echo x >&2; exit 0")
				ctx, cancel := context.WithCancelCause(t.Context())
				if cut := (i+j)%2 == 0; cut {
					timer := deadline.AfterFunc(time.Duration(i*j)*100*time.Microsecond, func() { cancel(ErrForced) })
					defer timer.Stop()
				}
				c := child{cfg: cfg, body: body, env: os.Environ(), log: slog.New(newLines()),
					killAt: func(error) time.Time { return deadline.Now().Add(time.Duration(j) * time.Millisecond) }}
				out := cfg.outcome(c.run(ctx))
				if out != Ack && !errors.Is(out.Cause(), ErrForced) {
					t.Errorf("outcome = %s, %v", out.Verdict(), out.Cause())
				}
				cancel(nil)
			}
		})
	}
	all.Wait()
}

func TestExecErrors(t *testing.T) {
	for _, command := range [][]string{nil, {}, {""}, {"", "x"}} {
		if h, err := Exec(ExecConfig{Command: command}); h != nil || !errors.Is(err, ErrNoCommand) {
			t.Errorf("Exec(%q) = %v, want ErrNoCommand", command, err)
		}
	}
}

// TestExecEnvironment runs a real handler and looks at what its child is given.
func TestExecEnvironment(t *testing.T) {
	leaks(t)
	t.Setenv("LASTCALL_BROKER_URL", "amqp://guest:s3cret@h/")
	t.Setenv("LASTCALL_REPLY_TO", "somebody else's")
	t.Setenv("INHERITED", "yes")
	dir := t.TempDir()
	cfg := ExecConfig{Command: []string{"/bin/sh", "-c", "env | grep -a -e LASTCALL -e INHERITED -e ADDED | sort >env; cat >body; pwd -P >dir"},
		Dir: dir, Env: []string{"ADDED=one", "LASTCALL_QUEUE=not this one", "LASTCALL_EXTRA=kept"}}
	handler, err := Exec(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Command[0] = "changed later"
	d := &Delivery{Queue: "orders", Session: 3, Delivery: &transport.Delivery{
		Tag: 1<<63 + 1, Body: []byte("the body"), Redelivered: true, DeliveryCount: 2, MessageID: "m\x00\x00=1", CorrelationID: "two\tparts",
		Type: "t", AppID: "app", ContentType: "text/plain", Encoding: "gzip", Exchange: "x", RoutingKey: "r.k", Priority: 9,
		Published: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600)),
	}}
	if out := handler(t.Context(), d); out != Ack {
		t.Fatalf("outcome = %s, %v", out.Verdict(), out.Cause())
	}
	want := map[string]string{
		"body": "the body",
		"dir":  dir + "\n",
		"env": "ADDED=one\nINHERITED=yes\nLASTCALL_APP_ID=app\nLASTCALL_CONTENT_ENCODING=gzip\nLASTCALL_CONTENT_TYPE=text/plain\n" +
			"LASTCALL_CORRELATION_ID=two\tparts\nLASTCALL_DELIVERY_COUNT=2\nLASTCALL_DELIVERY_TAG=9223372036854775809\nLASTCALL_EXCHANGE=x\n" +
			"LASTCALL_EXTRA=kept\nLASTCALL_MESSAGE_ID=m\ufffd\ufffd=1\nLASTCALL_PRIORITY=9\nLASTCALL_PUBLISHED=2026-01-02T02:04:05.000006Z\n" +
			"LASTCALL_QUEUE=orders\nLASTCALL_REDELIVERED=true\nLASTCALL_REPLY_TO=\nLASTCALL_ROUTING_KEY=r.k\nLASTCALL_SESSION=3\nLASTCALL_TYPE=t\n",
	}
	got := make(map[string]string)
	for name := range want {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = string(text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the child was given (-want +got):\n%s", diff)
	}
	documented, err := os.ReadFile("exec.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range cfg.environ(nil, &Delivery{Delivery: &transport.Delivery{}}) {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, envPrefix) && name != "LASTCALL_EXTRA" && !strings.Contains(string(documented), "//\t"+name) &&
			!strings.Contains(string(documented), "  "+name) {
			t.Errorf("%s is not documented", name)
		}
	}
}

// BenchmarkExec is the cost of one child that does nothing.
func BenchmarkExec(b *testing.B) {
	cfg := ExecConfig{Command: []string{"/bin/true"}}
	body := make([]byte, 1024)
	for b.Loop() {
		c := child{cfg: cfg, body: body, env: os.Environ(), killAt: never, log: slog.New(slog.DiscardHandler)}
		if out := cfg.outcome(c.run(b.Context())); out != Ack {
			b.Fatal(out.Cause())
		}
	}
}
