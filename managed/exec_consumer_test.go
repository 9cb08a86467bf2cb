//go:build unix

package managed_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/transport/memory"
)

// program is a handler that runs a shell script in dir.
func program(t *testing.T, dir, script string) managed.Handler {
	t.Helper()
	h, err := managed.Exec(managed.ExecConfig{Command: []string{"/bin/sh", "-c", script}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// awaitFiles returns once every named file is in dir.
func awaitFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		for {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				break
			}
			if t.Context().Err() != nil {
				t.Fatalf("no file %q", name)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// TestExecIsKilled: children that ignore SIGTERM are killed within the force phase, reaped, and so nothing is abandoned.
func TestExecIsKilled(t *testing.T) {
	dir := t.TempDir()
	h := managedtest.New(t, managed.Config{Lifecycle: budget(time.Second), Subscriptions: []managed.Subscription{
		{Queue: "orders", Handler: program(t, dir, "trap '' TERM; : >$LASTCALL_MESSAGE_ID; sleep 60"), Prefetch: 5, Concurrency: 2,
			HandlerTimeout: time.Minute},
	}})
	h.Publish("orders", ids(5)...)
	h.Start()
	awaitFiles(t, dir, "m1", "m2")
	h.Stop()
	got, d := verdictOf(t, h)
	want(t, got, verdict{report.ForcedCompleted, 3, report.Sheet{Received: 5, Started: 2, Interrupted: 2, HandedBack: 3}})
	if d.Budget.OverrunUS != 0 {
		t.Errorf("the stop took %d us too long", d.Budget.OverrunUS)
	}
	if ready, unacked := h.Broker.Depth("orders"); ready != 5 || unacked != 0 {
		t.Errorf("the queue holds %d ready, %d unacked; want 5, 0", ready, unacked)
	}
}

// TestExecFinishes: a stop waits for children within the graceful window, and their words count.
func TestExecFinishes(t *testing.T) {
	dir := t.TempDir()
	child := program(t, dir, ": >$LASTCALL_MESSAGE_ID; while ! [ -e go ]; do sleep 0.01; done; read id; exit ${id#m}")
	stopping := make(chan (<-chan struct{}), 3)
	h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{
		Queue: "orders", Concurrency: 3, RequeueDelay: managed.NoRequeueDelay,
		Handler: func(ctx context.Context, d *managed.Delivery) managed.Outcome {
			stopping <- managed.Stopping(ctx)
			return child(ctx, d)
		},
	}}})
	h.Publish("orders", "m0", "m65", "m75")
	h.Start()
	awaitFiles(t, dir, "m0", "m65", "m75")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		h.Stop()
	}()
	<-<-stopping
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-stopped
	got, _ := verdictOf(t, h)
	want(t, got, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 3, Started: 3, Acked: 1, Rejected: 1, Requeued: 1}})
}

// TestExecStartFailures: a program that is not there is a fault after a few tries, and no message is lost by it.
func TestExecStartFailures(t *testing.T) {
	handler, err := managed.Exec(managed.ExecConfig{Command: []string{"./no-such-program"}})
	if err != nil {
		t.Fatal(err)
	}
	h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{
		{Queue: "orders", Handler: handler, OnError: managed.OnErrorReject, RequeueDelay: managed.NoRequeueDelay},
	}})
	h.Publish("orders", ids(3)...)
	h.Start()
	d := h.Report()
	if d.Trigger.Kind != report.TriggerFault || d.Completion != report.Failed {
		t.Errorf("trigger %s, %s; want a fault", d.Trigger.Kind, d.Completion)
	}
	if ready, _ := h.Broker.Depth("orders"); ready != 3 {
		t.Errorf("the queue holds %d messages, want all 3", ready)
	}
}

// TestExecMadeUp: a handler called by a test, without a consumer, ends its child as well.
func TestExecMadeUp(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		awaitFiles(t, dir, "here")
		cancel(managed.ErrForced)
	}()
	out := managedtest.Call(ctx, program(t, dir, ": >here; exec sleep 60"), memory.Message{})
	if out.Verdict() != managed.VerdictError || !errors.Is(out.Cause(), managed.ErrForced) {
		t.Errorf("outcome = %s, %v; want no outcome", out.Verdict(), out.Cause())
	}
}
