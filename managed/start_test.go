package managed_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/report/reporttest"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
)

// A start that fails rolls back what was started, in reverse, and publishes a report.
func TestStartFails(t *testing.T) {
	errSetup := errors.New("no database")
	for name, tc := range map[string]struct {
		prepare func(h *managedtest.Harness)
		setup   error
		code    int
		detail  string
	}{
		"second of three subscriptions": {
			prepare: func(h *managedtest.Harness) { h.Broker.Delete("b") }, code: 78, detail: report.StartupConfiguration,
		},
		"dial": {
			prepare: func(h *managedtest.Harness) {
				h.Broker.RefuseDials(1, &transport.Error{Kind: transport.KindUnavailable, Op: "dial", Text: "connection refused"})
			}, code: 69, detail: report.StartupBrokerUnavailable,
		},
		"setup": {prepare: func(*managedtest.Harness) {}, setup: errSetup, code: 1, detail: "setup"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var subs []managed.Subscription
				for _, q := range []string{"a", "b", "c"} {
					subs = append(subs, managed.Subscription{Queue: q, Handler: returns(managed.Ack)})
				}
				h := managedtest.New(t, managed.Config{Subscriptions: subs})
				tc.prepare(h)
				var order []string
				_, err := h.Consumer, error(nil)
				err = h.Consumer.RunWith(t.Context(), managed.RunConfig{Signals: make(chan osSignal), Setup: func(_ context.Context, c *managed.Consumer) error {
					for _, name := range []string{"first", "second"} {
						if err := c.Own(name, "pool", func() { order = append(order, name) }); err != nil {
							return err
						}
					}
					return tc.setup
				}})
				start, ok := errors.AsType[*managed.StartError](err)
				if !ok || start.Detail != tc.detail {
					t.Fatalf("error %v", err)
				}
				if tc.setup != nil && !errors.Is(err, tc.setup) {
					t.Errorf("the cause is not in %v", err)
				}
				if len(order) != 2 || order[0] != "second" || order[1] != "first" {
					t.Errorf("closed in the order %v", order)
				}
				d := h.Report()
				reporttest.Check(t, h.Consumer.ReportJSON())
				if d.ExitCode != tc.code || d.Completion != report.Failed || d.Trigger.Kind != report.TriggerStartup || d.Trigger.Detail != tc.detail {
					t.Errorf("completion %s, exit code %d, trigger %+v", d.Completion, d.ExitCode, d.Trigger)
				}
			})
		})
	}
}

// A signal in the middle of a start: nothing was received, everything is rolled back, and that is a clean end.
func TestSignalDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "a", Handler: returns(managed.Ack)}}})
		h.Broker.Withhold(memory.ReplyDial)
		signals := make(chan osSignal, 1)
		go func() {
			time.Sleep(time.Second)
			signals <- sigterm
		}()
		begin := time.Now()
		_ = h.Consumer.RunWith(t.Context(), managed.RunConfig{Signals: signals})
		if took := time.Since(begin); took != time.Second {
			t.Errorf("took %s, want the 1s before the signal", took)
		}
		got, d := verdictOf(t, h)
		want(t, got, verdict{Completion: report.GracefulCompleted})
		if d.Trigger.Kind != report.TriggerSignal {
			t.Errorf("trigger %+v", d.Trigger)
		}
	})
}

func TestStartRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{StartRetry: 10 * time.Second,
			Subscriptions: []managed.Subscription{{Queue: "a", Handler: returns(managed.Ack)}}})
		h.Broker.RefuseDials(3, &transport.Error{Kind: transport.KindUnavailable, Op: "dial", Text: "connection refused"})
		h.Start()
		h.Stop()
		got, _ := verdictOf(t, h)
		want(t, got, verdict{Completion: report.GracefulCompleted})
	})
}

// New reports every problem at once and touches nothing.
func TestNewValidates(t *testing.T) {
	_, err := managed.New(managed.Config{
		Transport: memory.New(memory.Config{}),
		Lifecycle: managed.Lifecycle{ShutdownTimeout: time.Millisecond, PlatformGrace: -1},
		Report:    managed.Report{Keep: -1},
		Subscriptions: []managed.Subscription{
			{Queue: "q", Handler: returns(managed.Ack)}, {Queue: "q", Handler: returns(managed.Ack)},
			{Queue: "r", Prefetch: -1, Concurrency: -1, Drain: 99, OnError: 77, DuplicateStart: 9, Declare: 8},
		}})
	want := []string{
		"platform grace is -1ns: it must not be negative",
		"report keep is -1: it must not be negative",
		"shutdown timeout is 1ms: it must lie between 250ms and 24h0m0s",
		`subscription "q": the queue is subscribed twice; raise Concurrency instead`,
		`subscription "r": Handler is nil`,
		`subscription "r": Concurrency is -1: it must be at least 1`,
		`subscription "r": Prefetch is -1: it must lie between 1 and 65535`,
		`subscription "r": Drain(99) is no drain mode`,
		`subscription "r": OnError(77) says nothing about errors`,
		`subscription "r": DuplicateStart(9) says nothing about duplicates`,
		`subscription "r": Declare(8) is no declaration`,
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("what a person reads (-want +got):\n%s", diff)
	}
}
