package managed_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/report/reporttest"
)

// ids makes n message ids.
func ids(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("m%d", i+1)
	}
	return out
}

// verdict is what most tests hold against a report.
type verdict struct {
	Completion report.Completion
	Code       int
	Sheet      report.Sheet
}

func verdictOf(t *testing.T, h *managedtest.Harness) (verdict, report.ShutdownReport) {
	t.Helper()
	d := h.Report()
	reporttest.Check(t, h.Consumer.ReportJSON())
	return verdict{d.Completion, d.ExitCode, d.Deliveries.InShutdown}, d
}

func want(t *testing.T, got, want verdict) {
	t.Helper()
	want.Sheet.Conserved = true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// sleeps comes back after d, or at the notice with its cause.
func sleeps(d time.Duration) managed.Handler {
	return func(ctx context.Context, _ *managed.Delivery) managed.Outcome {
		select {
		case <-time.After(d):
			return managed.Ack
		case <-ctx.Done():
			return managed.Fail(context.Cause(ctx))
		}
	}
}

func budget(total time.Duration) managed.Lifecycle { return managed.Lifecycle{ShutdownTimeout: total} }

// The main path: what has been started finishes, what has not goes back, and the end comes with the last handler.
func TestStopWithWorkInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{
			{Queue: "orders", Handler: sleeps(300 * time.Millisecond), Prefetch: 20, Concurrency: 4},
		}})
		h.Publish("orders", ids(40)...)
		h.Start()
		time.Sleep(450 * time.Millisecond)
		begin := time.Now()
		h.Stop()
		if took := time.Since(begin); took != 150*time.Millisecond {
			t.Errorf("the stop took %s, want the 150ms that the started handlers needed", took)
		}
		got, d := verdictOf(t, h)
		want(t, got, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 20, Started: 4, Acked: 4, HandedBack: 16}})
		since := d.Deliveries.SinceStart
		if diff := cmp.Diff(report.Sheet{Received: 24, Started: 8, Acked: 8, HandedBack: 16, Conserved: true}, since); diff != "" {
			t.Errorf("since start (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(report.AtTrigger{Started: 4, Buffered: 16}, d.Deliveries.AtTrigger); diff != "" {
			t.Errorf("at trigger (-want +got):\n%s", diff)
		}
		ready, unacked := h.Broker.Depth("orders")
		if ready != 32 || unacked != 0 {
			t.Errorf("the queue holds %d ready, %d unacked; want 32, 0", ready, unacked)
		}
	})
}

func TestIdleStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "orders", Handler: sleeps(0)}}})
		h.Start()
		begin := time.Now()
		h.Stop()
		if took := time.Since(begin); took != 0 {
			t.Errorf("an idle stop took %s", took)
		}
		got, d := verdictOf(t, h)
		want(t, got, verdict{Completion: report.GracefulCompleted})
		if len(d.Findings) != 0 {
			t.Errorf("findings: %+v", d.Findings)
		}
		var phases []string
		for _, p := range d.Phases {
			phases = append(phases, p.Phase)
		}
		if diff := cmp.Diff([]string{"close_admission", "drain", "force", "close_evidence", "dispose", "publish"}, phases); diff != "" {
			t.Error(diff)
		}
	})
}

// Handlers that come back at the notice without an outcome are interrupted, and their messages go back.
func TestDeadlineForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 2)
		h := managedtest.New(t, managed.Config{
			Lifecycle: budget(4 * time.Second),
			Subscriptions: []managed.Subscription{{Queue: "orders", Concurrency: 2, Prefetch: 2, HandlerTimeout: time.Hour,
				Handler: func(ctx context.Context, _ *managed.Delivery) managed.Outcome {
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return managed.Reject(managed.Permanent(ctx.Err()))
				}}},
		})
		h.Publish("orders", ids(2)...)
		h.Start()
		synctest.Wait()
		begin := time.Now()
		h.Stop()
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("took %s, want the graceful window of 3s", took)
		}
		if err := <-causes; err != managed.ErrDeadline {
			t.Errorf("cause %v, want ErrDeadline", err)
		}
		got, d := verdictOf(t, h)
		want(t, got, verdict{report.ForcedCompleted, 3, report.Sheet{Received: 2, Started: 2, Interrupted: 2}})
		if d.Force.Cause != report.ForceDeadline || !d.Force.Used {
			t.Errorf("force %+v", d.Force)
		}
		if ready, _ := h.Broker.Depth("orders"); ready != 2 {
			t.Errorf("%d ready, want both back", ready)
		}
	})
}

// What a handler returns until F(A) is honoured.
func TestAckAfterForceNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{
			Lifecycle: budget(4 * time.Second),
			Subscriptions: []managed.Subscription{{Queue: "orders", HandlerTimeout: time.Hour,
				Handler: func(ctx context.Context, _ *managed.Delivery) managed.Outcome {
					<-ctx.Done()
					time.Sleep(200 * time.Millisecond)
					return managed.Ack
				}}},
		})
		h.Publish("orders", "m1")
		h.Start()
		synctest.Wait()
		h.Stop()
		got, _ := verdictOf(t, h)
		want(t, got, verdict{report.ForcedCompleted, 3, report.Sheet{Received: 1, Started: 1, Acked: 1}})
		if ready, unacked := h.Broker.Depth("orders"); ready+unacked != 0 {
			t.Errorf("%d ready, %d unacked, want none", ready, unacked)
		}
	})
}

func blockedForEver(release <-chan struct{}) { <-release }

// A handler that ignores everything is abandoned on time, named with its stack, and its message goes back.
func TestAbandonedHandler(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	h := managedtest.New(t, managed.Config{
		Lifecycle: budget(time.Second),
		Subscriptions: []managed.Subscription{{Queue: "orders", Concurrency: 2, HandlerTimeout: time.Hour,
			Handler: func(context.Context, *managed.Delivery) managed.Outcome {
				blockedForEver(release)
				return managed.Ack
			}}},
	})
	if err := h.Consumer.Own("pool", "pool", func() { t.Error("the pool was closed under a running handler") }); err != nil {
		t.Fatal(err)
	}
	h.Publish("orders", "m1")
	h.Start()
	awaitStarted(t, h, 1)
	begin := time.Now()
	h.Stop()
	if took := time.Since(begin); took > 1050*time.Millisecond {
		t.Errorf("took %s, want at most 1s + 50ms", took)
	}
	got, d := verdictOf(t, h)
	want(t, got, verdict{report.Incomplete, 3, report.Sheet{Received: 1, Started: 1, Abandoned: 1}})
	if len(d.Unsettled) != 1 || d.Unsettled[0].Stack != 0 || len(d.Stacks) != 1 || !strings.Contains(d.Stacks[0], "managed_test.blockedForEver") {
		t.Errorf("unsettled %+v\nstacks %q", d.Unsettled, d.Stacks)
	}
	if d.Messages.Verdict != report.VerdictUnknown {
		t.Errorf("verdict %s", d.Messages.Verdict)
	}
	for _, r := range d.Resources {
		if r.Name == "pool" && (r.Started || r.WithheldBy == "") {
			t.Errorf("the pool was not withheld: %+v", r)
		}
	}
	if ready, _ := h.Broker.Depth("orders"); ready != 1 {
		t.Errorf("%d ready, want the message back", ready)
	}
}

// awaitStarted polls the snapshot until n handlers run; for tests outside bubbles.
func awaitStarted(t *testing.T, h *managedtest.Harness, n int) {
	t.Helper()
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		s := h.Consumer.Snapshot()
		total := 0
		for _, sub := range s.Subscriptions {
			total += sub.Started
		}
		if total >= n {
			return
		}
	}
	t.Fatalf("no %d handlers running after 5s: %+v", n, h.Consumer.Snapshot())
}

func TestOutcomes(t *testing.T) {
	errBoom := errors.New("boom")
	for name, tc := range map[string]struct {
		handler managed.Handler
		onError managed.OnError
		body    string
		want    report.Sheet
	}{
		"ack":            {handler: returns(managed.Ack), want: report.Sheet{Received: 1, Started: 1, Acked: 1}},
		"reject":         {handler: returns(managed.Reject(errBoom)), want: report.Sheet{Received: 1, Started: 1, Rejected: 1}},
		"permanent":      {handler: returns(managed.Fail(managed.Permanent(errBoom))), want: report.Sheet{Received: 1, Started: 1, Rejected: 1}},
		"error rejects":  {handler: returns(managed.Fail(errBoom)), onError: managed.OnErrorReject, want: report.Sheet{Received: 1, Started: 1, Rejected: 1}},
		"panic":          {handler: func(context.Context, *managed.Delivery) managed.Outcome { panic(errBoom) }, onError: managed.OnErrorReject, want: report.Sheet{Received: 1, Started: 1, Rejected: 1, HandlerPanics: 1}},
		"zero outcome":   {handler: returns(managed.Outcome{}), onError: managed.OnErrorReject, want: report.Sheet{Received: 1, Started: 1, Rejected: 1}},
		"malformed json": {handler: managed.JSON(func(context.Context, struct{ ID int }, *managed.Delivery) managed.Outcome { return managed.Ack }), want: report.Sheet{Received: 1, Started: 1, Rejected: 1, Malformed: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Handler: tc.handler, OnError: tc.onError}}})
				h.Start()
				h.Publish("q", "m1")
				synctest.Wait()
				h.Stop()
				d := h.Report()
				reporttest.Check(t, h.Consumer.ReportJSON())
				w := tc.want
				w.Conserved = true
				if diff := cmp.Diff(w, d.Deliveries.SinceStart); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if !d.Success || d.ExitCode != 0 {
					t.Errorf("handler outcomes are normal operation: %s, exit code %d", d.Completion, d.ExitCode)
				}
			})
		})
	}
}

func returns(o managed.Outcome) managed.Handler {
	return func(context.Context, *managed.Delivery) managed.Outcome { return o }
}

// A requeue after an error waits in its slot, so that a poison message is no hot loop, and a stop ends the wait.
func TestRequeueDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q",
			Handler: func(context.Context, *managed.Delivery) managed.Outcome {
				calls.Add(1)
				return managed.Requeue(errors.New("not today"))
			}}}})
		h.Publish("q", "poison")
		h.Start()
		time.Sleep(2500 * time.Millisecond)
		if n := calls.Load(); n != 3 {
			t.Errorf("%d calls in 2.5s, want 3", n)
		}
		begin := time.Now()
		h.Stop()
		if took := time.Since(begin); took != 0 {
			t.Errorf("the stop waited %s for the delay", took)
		}
		d := h.Report()
		reporttest.Check(t, h.Consumer.ReportJSON())
		if got := d.Subscriptions[0].RequeueCauses; len(got) != 1 || got[0].Count != 3 {
			t.Errorf("requeue causes %+v", got)
		}
	})
}

// A handler that runs into its own timeout gets the error outcome, not an interruption, and on_error decides.
func TestHandlerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", HandlerTimeout: 8 * time.Second, OnError: managed.OnErrorReject,
			Handler: func(ctx context.Context, _ *managed.Delivery) managed.Outcome {
				begin := time.Now()
				<-ctx.Done()
				cause = context.Cause(ctx)
				if took := time.Since(begin); took != 7*time.Second {
					t.Errorf("notice after %s, want P = 7s", took)
				}
				return managed.Fail(ctx.Err())
			}}}})
		h.Publish("q", "m1", "m2")
		h.Start()
		time.Sleep(14500 * time.Millisecond)
		h.Stop()
		if cause != managed.ErrDeliveryTimeout {
			t.Errorf("cause %v", cause)
		}
		if got := h.Report().Deliveries.SinceStart.Rejected; got != 2 {
			t.Errorf("%d rejected, want 2", got)
		}
	})
}
