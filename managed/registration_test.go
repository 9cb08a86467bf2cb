package managed_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/report/reporttest"
	"github.com/lastcall-go/lastcall/resources"
)

// Once a shutdown has begun nothing can be registered, and what was refused was not touched.
func TestRegistrationAfterTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Handler: returns(managed.Ack)}}})
		if code := h.Consumer.ExitCode(); code != 1 {
			t.Errorf("exit code %d while there is no report, want 1", code)
		}
		if err := h.Consumer.Borrow("cache", resources.Other); err != nil {
			t.Fatal(err)
		}
		h.Start()
		if err := h.Consumer.Use(func(next managed.Handler) managed.Handler { return next }); err != managed.ErrStarted {
			t.Errorf("Use after Start: %v", err)
		}
		if err := h.Consumer.Start(t.Context()); err != managed.ErrStarted {
			t.Errorf("second Start: %v", err)
		}
		h.Stop()
		for name, err := range map[string]error{
			"Own":       h.Consumer.Own("late", resources.Pool, func() { t.Error("closed") }),
			"Borrow":    h.Consumer.Borrow("late", resources.Pool),
			"Go":        h.Consumer.Go("late", func(context.Context) error { t.Error("ran"); return nil }),
			"Subscribe": h.Consumer.Subscribe(managed.Subscription{Queue: "r", Handler: returns(managed.Ack)}),
		} {
			if err != managed.ErrStopping {
				t.Errorf("%s after the stop: %v", name, err)
			}
		}
		if diff := cmp.Diff(map[string]flags{"cache": {}}, flagsOf(h.Report(), "cache")); diff != "" {
			t.Errorf("a borrowed resource (-want +got):\n%s", diff)
		}
	})
}

// A consumer that was never started ends as well, with a report, and never starts after.
func TestShutdownBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Handler: returns(managed.Ack)}}})
		h.Stop()
		got, _ := verdictOf(t, h)
		want(t, got, verdict{Completion: report.GracefulCompleted})
		if err := h.Consumer.Start(t.Context()); err != managed.ErrStopping {
			t.Errorf("Start after the end: %v", err)
		}
	})
}

// The end of Run's context is a trigger, and not the context of any handler.
func TestContextTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Handler: sleeps(2 * time.Second)}}})
		h.Publish("q", "m1")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("the parent has had enough")) })
		if err := h.Consumer.RunWith(ctx, managed.RunConfig{Signals: make(chan osSignal)}); err != nil {
			t.Error(err)
		}
		got, d := verdictOf(t, h)
		want(t, got, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 1, Started: 1, Acked: 1}})
		if d.Trigger.Kind != report.TriggerContext || d.Trigger.Detail != "the parent has had enough" {
			t.Errorf("trigger %+v", d.Trigger)
		}
	})
}

// Middleware wraps in the order in which it was given, the first one outermost.
func TestUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		around := func(name string) func(managed.Handler) managed.Handler {
			return func(next managed.Handler) managed.Handler {
				return func(ctx context.Context, d *managed.Delivery) managed.Outcome {
					s.add(name)
					return next(ctx, d)
				}
			}
		}
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Handler: s.handler(0)}}})
		if err := h.Consumer.Use(around("outer"), around("inner")); err != nil {
			t.Fatal(err)
		}
		h.Publish("q", "m1")
		h.Start()
		synctest.Wait()
		h.Stop()
		if diff := cmp.Diff([]string{"outer", "inner", "m1"}, s.list()); diff != "" {
			t.Error(diff)
		}
	})
}

// What a handler sees of its context: its own deadline, the stop, the notice with its cause, in derived contexts too.
func TestHandlerContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		h := managedtest.New(t, managed.Config{Lifecycle: budget(8 * time.Second), Subscriptions: []managed.Subscription{{Queue: "q", HandlerTimeout: time.Hour,
			Handler: func(ctx context.Context, _ *managed.Delivery) managed.Outcome {
				begin := time.Now()
				at, ok := ctx.Deadline()
				if !ok || at.Sub(begin) != time.Hour-time.Second {
					t.Errorf("deadline in %s", at.Sub(begin))
				}
				if _, stopping := managed.StopOf(ctx); stopping || ctx.Err() != nil || context.Cause(ctx) != nil || ctx.Value(key{}) != nil {
					t.Error("something has ended before the stop")
				}
				derived, cancel := context.WithCancel(context.WithValue(ctx, key{}, 1))
				defer cancel()
				<-managed.Stopping(derived)
				if since := time.Since(begin); since != time.Second || ctx.Err() != nil {
					t.Errorf("told of the stop after %s, context %v", since, ctx.Err())
				}
				stop, stopping := managed.StopOf(derived)
				if at, _ := derived.Deadline(); !stopping || at != stop.Graceful || stop.Graceful.Sub(begin) != 7*time.Second {
					t.Errorf("deadline during the stop %s, stop %+v", at.Sub(begin), stop)
				}
				<-derived.Done()
				if context.Cause(derived) != managed.ErrDeadline || ctx.Err() != context.Canceled || time.Since(begin) != 7*time.Second {
					t.Errorf("cause %v, err %v after %s", context.Cause(derived), ctx.Err(), time.Since(begin))
				}
				return managed.Ack
			}}}})
		h.Publish("q", "m1")
		h.Start()
		time.Sleep(time.Second)
		h.Stop()
		got, _ := verdictOf(t, h)
		want(t, got, verdict{report.ForcedCompleted, 3, report.Sheet{Received: 1, Started: 1, Acked: 1}})
	})
}

// The platform's grace is a plan to keep to: what does not fit is planned smaller, and said.
func TestPlatformGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{
			Lifecycle:     managed.Lifecycle{ShutdownTimeout: 30 * time.Second, PlatformGrace: 30 * time.Second, PlatformPrestop: 5 * time.Second},
			Subscriptions: []managed.Subscription{{Queue: "q", Handler: returns(managed.Ack)}}})
		h.Start()
		h.Stop()
		d := h.Report()
		reporttest.Check(t, h.Consumer.ReportJSON())
		if d.Budget.TotalUS != 24_000_000 || d.Config.PlatformGraceUS == nil || *d.Config.PlatformGraceUS != 30_000_000 ||
			!hasFinding(d, report.CodePlatformGraceShort) || !d.Success {
			t.Errorf("budget %d, findings %+v", d.Budget.TotalUS, d.Findings)
		}
	})
}

// A body that is too large is rejected without the handler being called.
func TestMaxBodyBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", MaxBodyBytes: 3,
			Handler: func(_ context.Context, d *managed.Delivery) managed.Outcome {
				if len(d.Body) > 3 {
					t.Errorf("called with %q", d.Body)
				}
				return managed.Ack
			}}}})
		h.Publish("q", "123", "1234")
		h.Start()
		synctest.Wait()
		h.Stop()
		if got := h.Report().Deliveries.SinceStart; got.Acked != 1 || got.Rejected != 1 || got.Malformed != 1 {
			t.Errorf("sheet %+v", got)
		}
	})
}

// Run is legal once, and not beside Start; it says so instead of waiting.
func TestRunAfterStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Handler: returns(managed.Ack)}}})
		h.Start()
		if err := h.Consumer.RunWith(t.Context(), managed.RunConfig{Signals: make(chan osSignal)}); err != managed.ErrStarted {
			t.Errorf("Run after Start: %v", err)
		}
		h.Stop()
		if err := h.Consumer.RunWith(t.Context(), managed.RunConfig{Signals: make(chan osSignal)}); err != managed.ErrStopping && err != managed.ErrStarted {
			t.Errorf("Run after the end: %v", err)
		}
	})
}

// A middleware is code of the application: what it does wrong is a failed start.
func TestBadMiddleware(t *testing.T) {
	for name, around := range map[string]func(managed.Handler) managed.Handler{
		"panics":      func(managed.Handler) managed.Handler { panic("no") },
		"returns nil": func(managed.Handler) managed.Handler { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Handler: returns(managed.Ack)}}})
				if err := h.Consumer.Use(around); err != nil {
					t.Fatal(err)
				}
				if _, ok := errors.AsType[*managed.StartError](h.Consumer.Start(t.Context())); !ok {
					t.Error("it started")
				}
				reporttest.Check(t, h.Consumer.ReportJSON())
				if d := h.Report(); d.Trigger.Kind != report.TriggerStartup || d.ExitCode != 1 {
					t.Errorf("trigger %+v, exit code %d", d.Trigger, d.ExitCode)
				}
			})
		})
	}
}

// The report says which broker it was and what the queue held at the end.
func TestBrokerInTheReport(t *testing.T) {
	b := rabbittest.New(t)
	queue := b.Queue(rabbittest.Classic)
	b.Publish(queue, ids(5)...)
	c := onRabbitMQ(t, managed.Lifecycle{}, managed.Subscription{Queue: queue, Prefetch: 1, Handler: returns(managed.Reject(nil))})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, _ := c.ShutdownReport()
	if d.Broker.Product != "RabbitMQ" || d.Broker.Version == "" || d.Broker.VHost != "/" || d.Broker.ConnectionName != t.Name() || d.Broker.LocalAddr == "" {
		t.Errorf("broker %+v", d.Broker)
	}
	if d.Subscriptions[0].QueueAtEnd == nil {
		t.Error("no queue_at_end")
	}
}
