package managed_test

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
)

// computesForEver never waits for anything.
func computesForEver(stop *atomic.Bool) {
	for !stop.Load() {
		runtime.Gosched()
	}
}

// A handler that ignores its cancellation gets its notice, then its grace, and is then left behind: named with its stack, its
// message with somebody else, and what it says later changes nothing.
func TestCase_F04_HandlerThatIgnoresItsCancellation(t *testing.T) {
	for name, computes := range map[string]bool{"blocked": false, "computing": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release, returned := make(chan struct{}), make(chan struct{})
			var stop atomic.Bool
			notice := make(chan error, 1)
			b := rabbittest.New(t)
			queue := b.Queue(rabbittest.Classic)
			b.Publish(queue, "m1")
			s := newStand(t, b, managed.Config{
				// Notice after 1.5 s, abandoned after 1.55 s, over after 2 s at the latest.
				Lifecycle: managed.Lifecycle{ShutdownTimeout: 2 * time.Second, ForceWindow: 50 * time.Millisecond},
				Subscriptions: []managed.Subscription{{Queue: queue, Concurrency: 2, HandlerTimeout: time.Hour,
					Handler: func(ctx context.Context, _ *managed.Delivery) managed.Outcome {
						defer close(returned)
						go func() {
							<-ctx.Done()
							notice <- context.Cause(ctx)
						}()
						if computes {
							computesForEver(&stop)
						} else {
							blockedForEver(release)
						}
						return managed.Ack
					}}}})
			s.start()
			s.await(1)
			s.term()
			if cause := <-notice; cause != managed.ErrDeadline {
				t.Errorf("cause %v", cause)
			}
			if after := time.Since(s.began); after < 1490*time.Millisecond {
				t.Errorf("notice after %s, want the graceful window of 1.5s", after)
			}
			d := s.end()
			s.verdict(d, report.Incomplete, 3, report.Sheet{Received: 1, Started: 1, Abandoned: 1})
			s.within(2100 * time.Millisecond)
			if len(d.Unsettled) != 1 || len(d.Stacks) != 1 {
				t.Fatalf("unsettled %+v, stacks %q", d.Unsettled, d.Stacks)
			}
			u, frame := d.Unsettled[0], "managed_test.blockedForEver"
			if computes {
				frame = "managed_test.computesForEver"
			}
			if u.MessageID != "m1" || u.Queue != queue || u.Bucket != "abandoned" || u.Settlement != "none" || u.HandlerUS < 1_540_000 || u.Stack != 0 ||
				!strings.Contains(d.Stacks[0], frame) {
				t.Errorf("unsettled %+v with stack\n%s", u, d.Stacks[0])
			}
			if d.Messages.Verdict != report.VerdictUnknown || d.QueueDrainReconciled || !hasFinding(d, report.CodeDeliveryAbandoned) {
				t.Errorf("messages %s, queue_drain_reconciled %t, findings %+v", d.Messages.Verdict, d.QueueDrainReconciled, d.Findings)
			}
			// The message is free while the handler still holds it, and stays so when the handler says ack.
			second := make(chan bool, 2)
			b.Consume(queue, func(_ string, redelivered bool) { second <- redelivered })
			if !<-second {
				t.Error("the message came back as if never delivered")
			}
			before := s.ReportJSON()
			stop.Store(true)
			close(release)
			<-returned
			if !bytes.Equal(before, s.ReportJSON()) {
				t.Error("the handler's late return changed the report")
			}
			if len(second) != 0 {
				t.Error("the message came twice")
			}
		})
	}
	t.Run("to the instant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			notice := make(chan time.Time, 1)
			h := managedtest.New(t, managed.Config{Lifecycle: budget(4 * time.Second), Subscriptions: []managed.Subscription{{Queue: "q", HandlerTimeout: time.Hour,
				Handler: func(ctx context.Context, _ *managed.Delivery) managed.Outcome {
					<-ctx.Done()
					notice <- time.Now()
					blockedForEver(release)
					return managed.Ack
				}}}})
			h.Publish("q", "m1")
			h.Start()
			synctest.Wait()
			begin := time.Now()
			time.AfterFunc(3750*time.Millisecond-1, func() {
				if ready, unacked := h.Broker.Depth("q"); ready != 0 || unacked != 1 {
					t.Errorf("just before F: %d ready, %d unacked", ready, unacked)
				}
			})
			h.Stop()
			if took := time.Since(begin); took != 3750*time.Millisecond {
				t.Errorf("took %s, want F at 3.75s", took)
			}
			if after := (<-notice).Sub(begin); after != 3*time.Second {
				t.Errorf("notice after %s, want 3s", after)
			}
			got, _ := verdictOf(t, h)
			want(t, got, verdict{report.Incomplete, 3, report.Sheet{Received: 1, Started: 1, Abandoned: 1}})
			close(release)
			synctest.Wait()
			if ready, unacked := h.Broker.Depth("q"); ready != 1 || unacked != 0 {
				t.Errorf("%d ready, %d unacked; want the message back, and no ack of the late handler", ready, unacked)
			}
		})
	})
}

// fourCalls makes four calls that end with their context, each of the length; the first has been made when made gets a value.
func fourCalls(length time.Duration, made chan<- struct{}) managed.Handler {
	return func(ctx context.Context, _ *managed.Delivery) managed.Outcome {
		for range 4 {
			call, cancel := context.WithTimeout(ctx, time.Minute)
			select {
			case <-call.Done():
				cancel()
				return managed.Fail(context.Cause(call))
			case <-time.After(length):
			}
			cancel()
			select {
			case made <- struct{}{}:
			default:
			}
		}
		return managed.Ack
	}
}

// The end of whatever began the shutdown does not end the handlers: their context lasts as long as the graceful window.
func TestCase_F07_HandlersOutliveTheTrigger(t *testing.T) {
	const length = 100 * time.Millisecond
	for name, tc := range map[string]struct {
		kind    report.TriggerKind
		trigger func(s *stand, cancel context.CancelFunc)
	}{
		"a signal":             {report.TriggerSignal, func(s *stand, _ context.CancelFunc) { s.term() }},
		"the end of a context": {report.TriggerContext, func(_ *stand, cancel context.CancelFunc) { cancel() }},
		"a call whose context is over": {report.TriggerAPI, func(s *stand, _ context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := s.Shutdown(ctx); err != context.Canceled {
				s.t.Errorf("Shutdown returned %v", err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := rabbittest.New(t)
			queue, made := b.Queue(rabbittest.Classic), make(chan struct{}, 1)
			b.Publish(queue, "m1")
			s := newStand(t, b, managed.Config{Subscriptions: []managed.Subscription{{Queue: queue, Handler: fourCalls(length, made)}}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.run(ctx, nil)
			<-made
			s.began = time.Now()
			tc.trigger(s, cancel)
			d := s.end()
			s.verdict(d, report.GracefulCompleted, 0, report.Sheet{Received: 1, Started: 1, Acked: 1})
			s.within(2 * time.Second)
			s.agrees(d, queue, []string{"m1"}, acked)
			if d.Trigger.Kind != tc.kind {
				t.Errorf("trigger %+v", d.Trigger)
			}
			if list := s.calls.all(); len(list) != 1 || list[0].Cause != nil {
				t.Errorf("calls %+v, want one whose context lasted", list)
			}
		})
	}
	t.Run("to the instant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := managedtest.New(t, managed.Config{Lifecycle: budget(10 * time.Second), Subscriptions: []managed.Subscription{{Queue: "q", Handler: fourCalls(time.Second, nil)}}})
			h.Publish("q", "m1")
			begin := time.Now()
			runSignals(t, h, time.Second+1)
			if took := time.Since(begin); took != 4*time.Second {
				t.Errorf("ended after %s, want after the four calls", took)
			}
			got, _ := verdictOf(t, h)
			want(t, got, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 1, Started: 1, Acked: 1}})
		})
	})
}

// The cause of a context's end tells stop, loss and timeout apart, and an ack after the notice is an ack wherever there is still
// a session to send it on.
func TestCase_F07_CausesToldApart(t *testing.T) {
	ends := managed.Subscription{HandlerTimeout: time.Hour, Handler: func(ctx context.Context, d *managed.Delivery) managed.Outcome {
		if !d.Redelivered {
			<-ctx.Done()
		}
		return managed.Ack
	}}
	for name, tc := range map[string]struct {
		cause      error
		timeout    time.Duration
		end        func(t *testing.T, s *stand, reset func())
		completion report.Completion
		code       int
		since      report.Sheet
		finding    string
	}{
		"the budget": {cause: managed.ErrDeadline, completion: report.ForcedCompleted, code: 3, since: report.Sheet{Received: 1, Started: 1, Acked: 1},
			end: func(_ *testing.T, s *stand, _ func()) { s.term() }, finding: report.CodeDrainCutShort},
		"force": {cause: managed.ErrForced, completion: report.ForcedCompleted, code: 3, since: report.Sheet{Received: 1, Started: 1, Acked: 1},
			end: func(_ *testing.T, s *stand, _ func()) { s.term(); s.Force() }, finding: report.CodeDrainCutShort},
		"its own timeout": {cause: managed.ErrDeliveryTimeout, timeout: 400 * time.Millisecond, completion: report.GracefulCompleted, since: report.Sheet{Received: 1, Started: 1, Acked: 1},
			end: func(t *testing.T, s *stand, _ func()) {
				eventually(t, "acked", func() bool { return s.calls.done.Load() == 1 })
				s.term()
			}},
		// The ack has nowhere to go; the broker gives the message again, and that one counts.
		"a lost session": {cause: managed.ErrSessionLost, completion: report.GracefulCompleted,
			since: report.Sheet{Received: 2, Started: 2, Acked: 1, Unresolved: 1, LateResults: 1}, finding: report.CodeUnresolvedBeforeTrigger,
			end: func(t *testing.T, s *stand, reset func()) {
				reset()
				eventually(t, "handled again", func() bool { return s.calls.done.Load() == 2 })
				s.term()
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := rabbittest.New(t)
			tr, proxy := throughProxy(t)
			sub := ends
			sub.Queue = b.Queue(rabbittest.Classic)
			if tc.timeout > 0 {
				sub.HandlerTimeout = tc.timeout
			}
			b.Publish(sub.Queue, "m1")
			s := newStand(t, b, managed.Config{Transport: tr, Lifecycle: budget(2 * time.Second), Subscriptions: []managed.Subscription{sub}})
			s.start()
			eventually(t, "the handler's call", func() bool { return len(s.calls.all()) == 1 })
			tc.end(t, s, proxy.ResetAll)
			d := s.end()
			if d.Completion != tc.completion || d.ExitCode != tc.code || tc.finding != "" && !hasFinding(d, tc.finding) {
				t.Errorf("completion %s, exit code %d, findings %+v", d.Completion, d.ExitCode, d.Findings)
			}
			tc.since.Conserved = true
			if got := d.Deliveries.SinceStart; got != tc.since {
				t.Errorf("since start %+v, want %+v", got, tc.since)
			}
			if got := s.calls.all()[0].Cause; got != tc.cause {
				t.Errorf("cause %v, want %v", got, tc.cause)
			}
			if left := b.Drain(sub.Queue); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
