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

	"github.com/lastcall-go/lastcall/deadline"
)

// TestExecNotice: after our SIGTERM a child's own word counts where it cannot mean anything else.
func TestExecNotice(t *testing.T) {
	const sh = "/bin/sh"
	trap := func(what string) string { return "trap '" + what + "' TERM; echo ready; sleep 60 & wait; wait" }
	for name, c := range map[string]struct {
		script string
		zero   TermExitZero
		want   *Outcome // nil: no outcome
		how    string
	}{
		"dies":               {script: "echo ready; exec sleep 60", how: "signal: terminated"},
		"exits 0":            {script: trap("exit 0"), how: "exit code 0"},
		"exits 0, by word":   {script: trap("exit 0"), zero: TermExitZeroInterrupted, how: "exit code 0"},
		"exits 0, acks":      {script: trap("exit 0"), zero: TermExitZeroAck, want: &Ack},
		"exits 65":           {script: trap("exit 65"), want: new(Reject(&ExecExitError{sh, 65}))},
		"exits 75":           {script: trap("exit 75"), want: new(Requeue(&ExecExitError{sh, 75}))},
		"exits 1":            {script: trap("exit 1"), how: "exit code 1"},
		"exits 143":          {script: trap("exit 143"), how: "exit code 143"},
		"exits 127":          {script: trap("exit 127"), how: "exit code 127"},
		"dies, acks on zero": {script: "echo ready; exec sleep 60", zero: TermExitZeroAck, how: "signal: terminated"},
	} {
		for _, cause := range []error{ErrForced, ErrDeadline, ErrDeliveryTimeout, ErrSessionLost} {
			t.Run(name+"/"+cause.Error(), func(t *testing.T) {
				cfg := shell(c.script)
				cfg.TermExitZero = c.zero
				k := start(t, cfg, nil, never)
				k.log.await(t, "INFO stdout ready")
				k.cancel(cause)
				got := <-k.done
				if c.want != nil {
					if diff := cmp.Diff(*c.want, got, cmp.AllowUnexported(Outcome{})); diff != "" {
						t.Errorf("outcome (-want +got):\n%s", diff)
					}
					return
				}
				if got.Verdict() != VerdictError || !errors.Is(got.Cause(), cause) {
					t.Fatalf("outcome = %s, %v; want no outcome for %v", got.Verdict(), got.Cause(), cause)
				}
				if want := cause.Error() + " (child: " + c.how + ")"; got.Cause().Error() != want {
					t.Errorf("detail = %q, want %q", got.Cause(), want)
				}
			})
		}
	}
}

// TestExecKill: a child that ignores SIGTERM is killed at its instant, with everything in its group.
func TestExecKill(t *testing.T) {
	began := deadline.Now()
	at := began.Add(300 * time.Millisecond)
	var asked error
	k := start(t, shell("trap '' TERM; sleep 60 & echo $!; wait"), nil, func(cause error) time.Time {
		asked = cause
		return at
	})
	son, err := strconv.Atoi(k.log.await(t, "INFO stdout "))
	if err != nil {
		t.Fatal(err)
	}
	k.cancel(ErrDeliveryTimeout)
	out := <-k.done
	if now := deadline.Now(); now.Before(at) || now.After(at.Add(time.Second)) {
		t.Errorf("killed %s after its start, want 300ms", now.Sub(began))
	}
	if want := ErrDeliveryTimeout.Error() + " (child: signal: killed)"; out.Cause().Error() != want || asked != ErrDeliveryTimeout {
		t.Errorf("outcome = %v, asked for %v; want %q", out.Cause(), asked, want)
	}
	awaitGone(t, son)
}

// awaitGone returns once a process has ended. It is not our child: somebody else reaps it, a moment after its end.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
			return
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
		if err := deadline.Sleep(t.Context(), time.Millisecond); err != nil {
			t.Fatalf("process %d lives: %v", pid, err)
		}
	}
}

// TestExecKillComesNearer: a stop that is forced while a child winds down shortens what it has.
func TestExecKillComesNearer(t *testing.T) {
	var mu sync.Mutex
	at := deadline.Now().Add(time.Hour)
	asked := make(chan struct{}, 1)
	k := start(t, shell("trap '' TERM; echo ready; while :; do sleep 1; done"), nil, func(error) time.Time {
		select {
		case asked <- struct{}{}:
		default:
		}
		mu.Lock()
		defer mu.Unlock()
		return at
	})
	k.log.await(t, "INFO stdout ready")
	k.cancel(ErrDeliveryTimeout)
	<-asked
	mu.Lock()
	at = deadline.Now()
	mu.Unlock()
	if out := <-k.done; !errors.Is(out.Cause(), ErrDeliveryTimeout) {
		t.Errorf("outcome = %s, %v", out.Verdict(), out.Cause())
	}
}

// TestExecRevoked: a child whose delivery is given up while it winds down is killed at once.
func TestExecRevoked(t *testing.T) {
	leaks(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	log, revoked, asked := newLines(), make(chan struct{}), make(chan struct{}, 1)
	cfg := shell("trap '' TERM; echo ready; sleep 60")
	c := child{cfg: cfg, env: os.Environ(), revoked: revoked, log: slog.New(log), killAt: func(cause error) time.Time {
		select {
		case asked <- struct{}{}:
		default:
		}
		return never(cause)
	}}
	done := make(chan Outcome, 1)
	go func() { done <- cfg.outcome(c.run(ctx)) }()
	log.await(t, "INFO stdout ready")
	cancel(ErrForced)
	<-asked
	close(revoked)
	if want, out := ErrForced.Error()+" (child: signal: killed)", <-done; out.Verdict() != VerdictError || out.Cause().Error() != want {
		t.Errorf("outcome = %s, %v; want %s", out.Verdict(), out.Cause(), want)
	}
}

// TestExecGroupIsTold: SIGTERM reaches the child's own children.
func TestExecGroupIsTold(t *testing.T) {
	k := start(t, shell("trap 'wait; exit 75' TERM; (trap 'echo told; exit' TERM; echo ready; sleep 60 & wait) & wait"), nil, never)
	k.log.await(t, "INFO stdout ready")
	k.cancel(ErrForced)
	if out := <-k.done; out.Verdict() != VerdictRequeue {
		t.Errorf("outcome = %s, %v", out.Verdict(), out.Cause())
	}
	if log := k.log.all(); !slices.Contains(log, "INFO stdout told") {
		t.Errorf("log = %q, want the child's child to have been told", log)
	}
}

// TestExecGroupEndsWithItsLeader: what ignores SIGTERM does not outlive a leader that obeyed it, long before its instant.
func TestExecGroupEndsWithItsLeader(t *testing.T) {
	k := start(t, shell("trap 'exit 75' TERM; (trap '' TERM; echo ready; exec sleep 60) & echo $! >&2; wait"), nil, never)
	son, err := strconv.Atoi(k.log.await(t, "WARN stderr "))
	if err != nil {
		t.Fatal(err)
	}
	k.log.await(t, "INFO stdout ready")
	k.cancel(ErrForced)
	if out := <-k.done; out.Verdict() != VerdictRequeue {
		t.Errorf("outcome = %s, %v", out.Verdict(), out.Cause())
	}
	awaitGone(t, son)
}

// TestExecNoticeTooLate: a context that ends after the child has makes no difference.
func TestExecNoticeTooLate(t *testing.T) {
	e := &ending{group: -1 << 30, killAt: never, exited: make(chan struct{}), done: make(chan struct{})} // nobody's group
	close(e.exited)
	e.run(ErrForced)
	<-e.done
	if e.notice != nil {
		t.Errorf("notice = %v, want none", e.notice)
	}
}

// TestExecNotStarted: a handler whose context has ended starts nothing.
func TestExecNotStarted(t *testing.T) {
	leaks(t)
	file := filepath.Join(t.TempDir(), "touched")
	cfg := ExecConfig{Command: []string{"/usr/bin/touch", file}, TermExitZero: TermExitZeroAck}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrForced)
	c := child{cfg: cfg, killAt: never, log: slog.New(newLines())}
	out := cfg.outcome(c.run(ctx))
	if want := ErrForced.Error() + " (child: not started)"; out.Verdict() != VerdictError || !errors.Is(out.Cause(), ErrForced) || out.Cause().Error() != want {
		t.Errorf("outcome = %s, %v; want %s", out.Verdict(), out.Cause(), want)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the program has run: %v", err)
	}
}
