package managed_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/report/reporttest"
	"github.com/lastcall-go/lastcall/transport/memory"
)

// loop is an error whose Unwrap leads back to itself.
type loop struct{}

func (*loop) Error() string   { return "loop" }
func (l *loop) Unwrap() error { return l }

// Errors are code of the application: one that panics when it is looked at, or has no end, ends no process and holds up nothing.
func TestHostileErrors(t *testing.T) {
	var none *os.PathError
	for name, handler := range map[string]managed.Handler{
		"nil in an interface": returns(managed.Reject(none)),
		"nil, panicked with":  func(context.Context, *managed.Delivery) managed.Outcome { panic(error(none)) },
		"its own cause":       returns(managed.Reject(&loop{})),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Handler: handler, OnError: managed.OnErrorReject}}})
				h.Publish("q", "m1")
				h.Start()
				synctest.Wait()
				h.Stop()
				got, d := verdictOf(t, h)
				if got.Completion != report.GracefulCompleted || d.Deliveries.SinceStart.Rejected != 1 {
					t.Errorf("%s, %+v", got.Completion, d.Deliveries.SinceStart)
				}
			})
		})
	}
}

// A connection that falls silent while the drain runs did not end as it should, whatever the handlers did.
func TestSilenceInTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := memory.New(memory.Config{Heartbeat: 100 * time.Millisecond, Queues: map[string]memory.Options{"q": {}}})
		h := managedtest.New(t, managed.Config{Lifecycle: budget(8 * time.Second),
			Subscriptions: []managed.Subscription{{Queue: "q", Transport: broker, Handler: returns(managed.Ack)}}})
		if err := h.Consumer.Go("slow", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return nil }); err != nil {
			t.Fatal(err)
		}
		h.Start()
		go func() {
			time.Sleep(10 * time.Millisecond)
			broker.Silence()
		}()
		h.Stop()
		got, _ := verdictOf(t, h)
		want(t, got, verdict{Completion: report.Incomplete, Code: 1})
	})
}

// Under ordered nothing is held behind what came after it, and nothing is set aside for good.
func TestOrderedAfterALostSession(t *testing.T) {
	for name, prefetch := range map[string]int{"prefetch 1": 1, "prefetch 10": 10} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s seen
				h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Prefetch: prefetch, Drain: managed.DrainOrdered,
					HandlerTimeout: time.Second, Handler: func(_ context.Context, d *managed.Delivery) managed.Outcome {
						s.add(d.MessageID)
						if d.Session == 1 {
							time.Sleep(5 * time.Second)
						}
						return managed.Ack
					}}}})
				h.Publish("q", "a", "b", "c")
				h.Start()
				synctest.Wait()
				h.Broker.Reset()
				time.Sleep(time.Minute)
				h.Stop()
				if diff := cmp.Diff([]string{"a", "a", "b", "c"}, s.list()); diff != "" {
					t.Errorf("handled (-want +got):\n%s", diff)
				}
				reporttest.Check(t, h.Consumer.ReportJSON())
			})
		})
	}
}

// Clean stops do not use up a quorum queue's delivery limit, also where the queue is only declared passively and shows what it
// is by the first delivery that was returned before.
func TestRollingStopsPassiveQuorum(t *testing.T) {
	b := rabbittest.New(t)
	queue := b.Queue(rabbittest.Quorum, map[string]any{"x-delivery-limit": 2})
	b.Publish(queue, ids(3)...)
	var handed []uint64
	for range 4 {
		started := make(chan struct{}, 10)
		c := onRabbitMQ(t, budget(4*time.Second), managed.Subscription{Queue: queue, Prefetch: 10, Handler: func(context.Context, *managed.Delivery) managed.Outcome {
			started <- struct{}{}
			time.Sleep(100 * time.Millisecond)
			return managed.Ack
		}})
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-started:
		case <-time.After(300 * time.Millisecond): // everything has been handled
		}
		if err := c.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		d, _ := c.ShutdownReport()
		handed = append(handed, d.Deliveries.SinceStart.Acked)
	}
	if total := handed[0] + handed[1] + handed[2] + handed[3]; total != 3 {
		t.Errorf("handled by the four in turn: %v; want all 3, none used up by the stops", handed)
	}
}

// A setup that leaves its goroutine is a failed start, not one that never ends.
func TestGoexitInSetup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Handler: returns(managed.Ack)}}})
		err := h.Consumer.RunWith(t.Context(), managed.RunConfig{Signals: make(chan osSignal), Setup: func(context.Context, *managed.Consumer) error {
			runtime.Goexit()
			return nil
		}})
		if _, ok := errors.AsType[*managed.StartError](err); !ok {
			t.Errorf("error %v", err)
		}
		if d := h.Report(); d.ExitCode != 1 || d.Trigger.Detail != "setup" {
			t.Errorf("exit code %d, trigger %+v", d.ExitCode, d.Trigger)
		}
	})
}

// A task that was told to stop and reports more than that has failed.
func TestTaskFailsWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{})
		if err := h.Consumer.Go("flusher", func(ctx context.Context) error {
			<-ctx.Done()
			return errors.Join(errors.New("3 rows were not flushed"), ctx.Err())
		}); err != nil {
			t.Fatal(err)
		}
		h.Stop()
		got, _ := verdictOf(t, h)
		want(t, got, verdict{Completion: report.Failed, Code: 1})
	})
}
