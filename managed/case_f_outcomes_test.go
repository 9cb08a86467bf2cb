package managed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
)

// logged is where a test's log goes.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// line returns the first line with all of the words.
func (l *logged) line(words ...string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for line := range strings.SplitSeq(l.buf.String(), "\n") {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		return line
	}
	return ""
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// deadLettering declares a queue whose rejected messages go to the second one.
func deadLettering(b *rabbittest.Broker) (queue, dead string) {
	dead = b.Queue(rabbittest.Classic)
	return b.Queue(rabbittest.Classic, map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}), dead
}

var errPanic = errors.New("an error to panic with")

// worse panics again when it is printed.
type worse struct{}

func (worse) Error() string { panic("in Error") }

// panicsHere is the frame that a panic's stack must show.
//
//go:noinline
func panicsHere(value any) { panic(value) }

// panicKinds are the ways to panic.
var panicKinds = map[string]struct {
	panics func()
	class  string // in the report's causes of requeues
}{
	"a text":         {func() { panicsHere("no") }, "*managed.PanicError"},
	"nil":            {func() { panicsHere(nil) }, "*runtime.PanicNilError"},
	"an error":       {func() { panicsHere(fmt.Errorf("wrapped: %w", errPanic)) }, "*errors.errorString"},
	"a nil map":      {func() { func(m map[string]int) { m["k"] = 1; panicsHere(m) }(nil) }, "runtime.plainError"},
	"out of range":   {func() { func(s []int, i int) { panicsHere(s[i]) }(nil, 3) }, "runtime.boundsError"},
	"a nil pointer":  {func() { func(p *call) { panicsHere(p.ID) }(nil) }, "runtime.errorString"},
	"its own cause":  {func() { panicsHere(context.Canceled) }, "context.Canceled"},
	"an Error panic": {func() { panicsHere(worse{}) }, "managed_test.worse"},
}

// A panic is an outcome of its delivery alone: settled by the policy, recorded with its value and where it happened; the worker
// goes on, and in a drain so do the other handlers.
func TestCase_F01_PanicInAHandler(t *testing.T) {
	t.Run("rabbitmq", func(t *testing.T) {
		for name, kind := range panicKinds {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := rabbittest.New(t)
				queue, dead := deadLettering(b)
				published := ids(10)
				b.Publish(queue, published...)
				var log logged
				// The fourth one panics; the seventh does in the drain, beside the eighth, which is longer. One slot is left to each.
				release := make(chan struct{})
				s := newStand(t, b, managed.Config{Logger: log.logger(), Subscriptions: []managed.Subscription{{Queue: queue, Prefetch: 2, Concurrency: 2, OnError: managed.OnErrorReject,
					Handler: func(ctx context.Context, d *managed.Delivery) managed.Outcome {
						switch d.MessageID {
						case "m4":
							kind.panics()
						case "m7":
							<-managed.Stopping(ctx)
							kind.panics()
						case "m8":
							<-release
						}
						return managed.Ack
					}}}})
				s.start()
				s.await(2) // the seventh and the eighth: the worker that panicked went on
				s.term()
				eventually(t, "the panic in the drain", func() bool { return s.calls.count(running) == 1 })
				close(release)
				d := s.end()
				// Settlements of the first six may still be on their way when the shutdown begins.
				s.verdict(d, report.GracefulCompleted, 0, d.Deliveries.InShutdown)
				if at := d.Deliveries; at.AtTrigger.Started != 2 || at.InShutdown.HandlerPanics != 1 {
					t.Errorf("%+v at the trigger, %+v in the shutdown", at.AtTrigger, at.InShutdown)
				}
				if diff := cmp.Diff(report.Sheet{Received: 8, Started: 8, Acked: 6, Rejected: 2, HandlerPanics: 2, Conserved: true}, startedOnly(d.Deliveries.SinceStart)); diff != "" {
					t.Errorf("since start (-want +got):\n%s", diff)
				}
				if d.Counts != (report.Counts{}) {
					t.Errorf("counts %+v, want none: handlers are no part of them", d.Counts)
				}
				if !slices.ContainsFunc(d.Findings, func(f report.Finding) bool {
					return f.Code == report.CodeHandlerPanicked && f.Subject == queue && slices.Contains(f.Evidence, "stacks[0]")
				}) || len(d.Stacks) != 1 || !strings.Contains(d.Stacks[0], "managed_test.TestCase_F01") {
					t.Errorf("findings %+v, stacks %q; want the first panic's", d.Findings, d.Stacks)
				}
				s.agrees(d, queue, published, over)
				if diff := cmp.Diff([]rabbittest.Message{{ID: "m4"}, {ID: "m7"}}, s.left(dead, 2)); diff != "" {
					t.Errorf("dead letters (-want +got):\n%s", diff)
				}
				for _, id := range []string{"m4", "m7"} {
					line := log.line("handler panicked", "message_id="+id)
					if !strings.Contains(line, "managed_test.TestCase_F01") || !strings.Contains(line, "stack=") {
						t.Errorf("no line with value and stack of %s: %q", id, line)
					}
				}
			})
		}
	})
	// Under the other policy the message comes once more, marked, and the report groups the causes.
	t.Run("requeued", func(t *testing.T) {
		for name, kind := range panicKinds {
			synctest.Test(t, func(t *testing.T) {
				h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q",
					Handler: func(_ context.Context, d *managed.Delivery) managed.Outcome {
						if d.MessageID == "m4" && !d.Redelivered {
							kind.panics()
						}
						return managed.Ack
					}}}})
				var calls calls
				if err := h.Consumer.Use(calls.record); err != nil {
					t.Fatal(err)
				}
				h.Publish("q", ids(6)...)
				h.Start()
				time.Sleep(2 * time.Second) // the requeue waits for 1 s in its slot
				h.Stop()
				_, d := verdictOf(t, h)
				if diff := cmp.Diff(report.Sheet{Received: 7, Started: 7, Acked: 6, Requeued: 1, HandlerPanics: 1, Conserved: true}, d.Deliveries.SinceStart); diff != "" {
					t.Errorf("%s: since start (-want +got):\n%s", name, diff)
				}
				if diff := cmp.Diff([]report.RequeueCause{{Class: kind.class, Count: 1}}, d.Subscriptions[0].RequeueCauses); diff != "" {
					t.Errorf("%s: causes (-want +got):\n%s", name, diff)
				}
				if d.ExitCode != 0 || calls.count(func(c call) bool { return c.ID == "m4" && c.Redelivered }) != 1 {
					t.Errorf("%s: exit code %d, calls %+v", name, d.ExitCode, calls.all())
				}
			})
		}
	})
}

// A handler that leaves its goroutine with runtime.Goexit has ended like any other: settled by the policy, its slot free.
func TestCase_F03_Goexit(t *testing.T) {
	leaves := func(ctx context.Context, d *managed.Delivery) managed.Outcome {
		switch d.MessageID {
		case "m2":
			runtime.Goexit()
		case "m4":
			<-managed.Stopping(ctx)
			runtime.Goexit()
		}
		return managed.Ack
	}
	t.Run("rabbitmq", func(t *testing.T) {
		t.Parallel()
		b := rabbittest.New(t)
		queue, dead := deadLettering(b)
		published := ids(6)
		b.Publish(queue, published...)
		s := newStand(t, b, managed.Config{Subscriptions: []managed.Subscription{{Queue: queue, Prefetch: 2, OnError: managed.OnErrorReject, Handler: leaves}}})
		s.start()
		eventually(t, "the fourth", func() bool { return s.calls.count(running) == 1 && s.calls.done.Load() == 3 })
		eventually(t, "the fifth is buffered", func() bool { return s.Snapshot().Subscriptions[0].Buffered == 1 })
		d := s.stop()
		// The third one's ack may still be on its way when the shutdown begins.
		s.verdict(d, report.GracefulCompleted, 0, d.Deliveries.InShutdown)
		if diff := cmp.Diff(report.Sheet{Received: 4, Started: 4, Acked: 2, Rejected: 2, Conserved: true}, startedOnly(d.Deliveries.SinceStart)); diff != "" {
			t.Errorf("since start (-want +got):\n%s", diff)
		}
		s.within(time.Second)
		s.agrees(d, queue, published, over)
		if diff := cmp.Diff([]rabbittest.Message{{ID: "m2"}, {ID: "m4"}}, s.left(dead, 2)); diff != "" {
			t.Errorf("dead letters (-want +got):\n%s", diff)
		}
	})
	t.Run("requeued", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Prefetch: 2,
				Handler: func(ctx context.Context, d *managed.Delivery) managed.Outcome {
					if d.MessageID == "m2" && d.Redelivered {
						return managed.Ack
					}
					return leaves(ctx, d)
				}}}})
			h.Publish("q", ids(6)...)
			h.Start()
			time.Sleep(3 * time.Second)
			begin := time.Now()
			h.Stop()
			if took := time.Since(begin); took != 0 {
				t.Errorf("took %s", took)
			}
			got, d := verdictOf(t, h)
			want(t, got, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 2, Started: 1, Requeued: 1, HandedBack: 1}})
			if diff := cmp.Diff([]report.RequeueCause{{Class: "managed.ErrGoexit", Count: 2}}, d.Subscriptions[0].RequeueCauses); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			if ready, unacked := h.Broker.Depth("q"); ready != 3 || unacked != 0 {
				t.Errorf("%d ready, %d unacked", ready, unacked)
			}
		})
	})
}

// Five handlers wait for their context and give back its error when it ends; that is no failure, so the policy "reject" does not
// send them to the dead letters. What fails of its own is rejected, in the drain as before.
func TestCase_F06_AStopDeadLettersNothing(t *testing.T) {
	// The ways in which a cancelled handler says so.
	ways := []func(ctx context.Context) managed.Outcome{
		func(ctx context.Context) managed.Outcome { return managed.Fail(ctx.Err()) },
		func(ctx context.Context) managed.Outcome { return managed.Fail(context.Cause(ctx)) },
		func(ctx context.Context) managed.Outcome {
			return managed.Reject(fmt.Errorf("not saved: %w", ctx.Err()))
		},
		func(ctx context.Context) managed.Outcome {
			return managed.Fail(managed.Permanent(fmt.Errorf("query: %w", context.DeadlineExceeded)))
		},
		func(context.Context) managed.Outcome { return managed.Outcome{} },
	}
	handler := func(ctx context.Context, d *managed.Delivery) managed.Outcome {
		var i int
		if _, err := fmt.Sscanf(d.MessageID, "wait-%d", &i); err == nil {
			<-ctx.Done()
			return ways[i](ctx)
		}
		<-managed.Stopping(ctx)
		return managed.Fail(errPanic)
	}
	waiting := []string{"wait-0", "wait-1", "wait-2", "wait-3", "wait-4"}
	published := append([]string{"fails-0", "fails-1"}, waiting...)
	for name, force := range map[string]bool{"the budget is used up": false, "a second signal": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := rabbittest.New(t)
			queue, dead := deadLettering(b)
			b.Publish(queue, published...)
			s := newStand(t, b, managed.Config{Lifecycle: budget(2 * time.Second), Subscriptions: []managed.Subscription{
				{Queue: queue, Prefetch: 7, Concurrency: 7, OnError: managed.OnErrorReject, HandlerTimeout: time.Hour, Handler: handler}}})
			s.start()
			s.await(7)
			s.term()
			s.await(5)
			cause := managed.ErrDeadline
			if force {
				time.Sleep(220 * time.Millisecond) // sooner it would be a duplicate
				s.signals <- sigterm
				cause = managed.ErrForced
			}
			d := s.end()
			s.verdict(d, report.ForcedCompleted, 3, report.Sheet{Received: 7, Started: 7, Rejected: 2, Interrupted: 5})
			s.within(2 * time.Second)
			if d.Messages.Verdict != report.VerdictDuplicates || !d.Success {
				t.Errorf("messages %s, success %t", d.Messages.Verdict, d.Success)
			}
			var named []string
			for _, u := range d.Unsettled {
				if u.Bucket != "interrupted" || u.Settlement != "written" {
					t.Errorf("unsettled %+v", u)
				}
				named = append(named, u.MessageID)
			}
			if diff := cmp.Diff(waiting, sorted(named)); diff != "" {
				t.Errorf("unsettled (-want +got):\n%s", diff)
			}
			for _, c := range s.calls.all() {
				if strings.HasPrefix(c.ID, "wait") && c.Cause != cause {
					t.Errorf("%s: cause %v, want %v", c.ID, c.Cause, cause)
				}
			}
			var back []string
			for _, m := range s.left(queue, 5) {
				if back = append(back, m.ID); !m.Redelivered {
					t.Errorf("%s came back as if never delivered", m.ID)
				}
			}
			if diff := cmp.Diff(waiting, sorted(back)); diff != "" {
				t.Errorf("in the queue again (-want +got):\n%s", diff)
			}
			var rejected []string
			for _, m := range s.left(dead, 2) {
				rejected = append(rejected, m.ID)
			}
			if diff := cmp.Diff([]string{"fails-0", "fails-1"}, sorted(rejected)); diff != "" {
				t.Errorf("dead letters (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("to the instant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := managedtest.New(t, managed.Config{Lifecycle: budget(8 * time.Second), Subscriptions: []managed.Subscription{{Queue: "q", Prefetch: 7, Concurrency: 7,
				OnError: managed.OnErrorReject, HandlerTimeout: time.Hour, Declare: transport.DeclareClassic, Arguments: map[string]any{memory.ArgDeadLetter: "dead"}, Handler: handler}}})
			for name, o := range map[string]memory.Options{"dead": {}, "q": {Arguments: map[string]any{memory.ArgDeadLetter: "dead"}}} {
				if err := h.Broker.Declare(name, o); err != nil {
					t.Fatal(err)
				}
			}
			h.Publish("q", published...)
			h.Start()
			synctest.Wait()
			begin := time.Now()
			h.Stop()
			if took := time.Since(begin); took != 6*time.Second {
				t.Errorf("took %s, want the graceful window of 6s", took)
			}
			got, _ := verdictOf(t, h)
			want(t, got, verdict{report.ForcedCompleted, 3, report.Sheet{Received: 7, Started: 7, Rejected: 2, Interrupted: 5}})
			ready, _ := h.Broker.Depth("q")
			dead, _ := h.Broker.Depth("dead")
			if ready != 5 || dead != 2 {
				t.Errorf("%d in the queue again, %d dead letters; want 5, 2", ready, dead)
			}
		})
	})
}
