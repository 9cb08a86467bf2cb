package managed_test

import (
	"context"
	"fmt"
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

// An idle consumer whose broker does not answer ends within the reserve, and the report says what was not observed.
func TestBrokerWithholdsAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		fault    func(b *memory.Broker)
		want     report.Completion
		code     int
		findings []string
	}{
		"cancel-ok": {
			fault: func(b *memory.Broker) { b.Withhold(memory.ReplyCancel) },
			want:  report.GracefulCompleted, findings: []string{report.CodeCancelUnanswered},
		},
		"channel close-ok": {
			fault: func(b *memory.Broker) { b.Withhold(memory.ReplyChannelClose) },
			want:  report.GracefulCompleted, findings: []string{report.CodeChannelCloseUnanswered},
		},
		"connection close-ok": {
			fault: func(b *memory.Broker) { b.Withhold(memory.ReplyConnectionClose) },
			want:  report.Incomplete, code: 1, findings: []string{report.CodeConnectionCloseUnanswered},
		},
		"everything": {
			fault: func(b *memory.Broker) { b.Silence() },
			want:  report.Incomplete, code: 1, findings: []string{report.CodeConnectionCloseUnanswered, report.CodeCancelUnanswered},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := managedtest.New(t, managed.Config{
					Lifecycle:     budget(30 * time.Second),
					Subscriptions: []managed.Subscription{{Queue: "orders", Handler: returns(managed.Ack)}},
				})
				h.Start()
				tc.fault(h.Broker)
				begin := time.Now()
				h.Stop()
				if took := time.Since(begin); took > 2*time.Second {
					t.Errorf("took %s, want at most the reserve of 2s", took)
				}
				got, d := verdictOf(t, h)
				want(t, got, verdict{Completion: tc.want, Code: tc.code})
				for _, code := range tc.findings {
					if !hasFinding(d, code) {
						t.Errorf("no finding %q in %+v", code, d.Findings)
					}
				}
			})
		})
	}
}

func hasFinding(d report.ShutdownReport, code string) bool {
	for _, f := range d.Findings {
		if f.Code == code {
			return true
		}
	}
	return false
}

// The peer resetting the connection instead of answering the close is an end that was observed, and not a good one.
func TestPeerResetsDuringClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "orders", Handler: returns(managed.Ack)}}})
		h.Start()
		h.Broker.Withhold(memory.ReplyConnectionClose)
		go func() {
			time.Sleep(500 * time.Millisecond)
			h.Broker.Reset()
		}()
		begin := time.Now()
		h.Stop()
		if took := time.Since(begin); took != 500*time.Millisecond {
			t.Errorf("took %s, want 500ms", took)
		}
		got, _ := verdictOf(t, h)
		want(t, got, verdict{Completion: report.Failed, Code: 1})
	})
}

// A link that dies silently after the handlers are done leaves their settlements unproven: that is what the report says.
func TestBlackHoleAfterHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "orders", Handler: sleeps(time.Second), Concurrency: 2, Prefetch: 2}}})
		h.Publish("orders", ids(2)...)
		h.Start()
		synctest.Wait()
		h.Broker.Silence()
		begin := time.Now()
		h.Stop()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("took %s, want the handlers' 1s and at most the reserve of 2s", took)
		}
		got, d := verdictOf(t, h)
		want(t, got, verdict{Completion: report.Incomplete, Code: 1, Sheet: report.Sheet{Received: 2, Started: 2, Unresolved: 2}})
		if len(d.Unsettled) != 2 || d.Unsettled[0].Settlement != "written" {
			t.Errorf("unsettled %+v", d.Unsettled)
		}
	})
}

// A session lost in the drain: the outcome that comes after it cannot be settled.
func TestSessionLostInTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{
			{Queue: "orders", Prefetch: 4, Concurrency: 1, Handler: sleepsThrough(time.Second)}}})
		h.Publish("orders", ids(4)...)
		h.Start()
		synctest.Wait()
		go func() {
			time.Sleep(500 * time.Millisecond)
			h.Broker.Reset()
		}()
		h.Stop()
		got, d := verdictOf(t, h)
		want(t, got, verdict{Completion: report.Incomplete, Code: 1, Sheet: report.Sheet{Received: 4, Started: 1, Released: 3, Unresolved: 1, LateResults: 1}})
		if len(d.Unsettled) != 1 || d.Unsettled[0].Settlement != "none" {
			t.Errorf("unsettled %+v", d.Unsettled)
		}
	})
}

// A session that is lost is opened again: the handler that was told is interrupted, its message comes again, and the stop that
// follows much later is a clean one.
func TestSessionLostAndRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "orders", Prefetch: 1, Handler: sleeps(time.Second)}}})
		h.Publish("orders", "m1")
		h.Start()
		synctest.Wait()
		h.Broker.Drop(320, "CONNECTION_FORCED")
		synctest.Wait()
		if s := h.Consumer.Snapshot(); s.Lifecycle != managed.StateRecovering || s.Ready || !s.Live || s.NotReady == "" {
			t.Errorf("snapshot while the session is gone: %+v", s)
		}
		time.Sleep(5 * time.Second)
		if s := h.Consumer.Snapshot(); s.Lifecycle != managed.StateReady {
			t.Errorf("snapshot after the recovery: %+v", s)
		}
		h.Stop()
		got, d := verdictOf(t, h)
		want(t, got, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 1, Started: 1, Acked: 1}})
		if diff := cmp.Diff(report.Sheet{Received: 2, Started: 2, Acked: 1, Interrupted: 1, Conserved: true}, d.Deliveries.SinceStart); diff != "" {
			t.Errorf("since start (-want +got):\n%s", diff)
		}
		if len(d.Sessions) != 2 || d.Sessions[0].Code != 320 || d.Sessions[0].By != "peer" || d.Sessions[1].End != "close_ok" {
			t.Errorf("sessions %+v", d.Sessions)
		}
		if !hasFinding(d, report.CodeSessionLost) {
			t.Errorf("findings %+v", d.Findings)
		}
	})
}

// A handler that outlives its session settles nothing, and the redelivery of its message waits for it.
func TestStaleOutcomeAcrossSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Prefetch: 4, Concurrency: 4,
			Handler: func(ctx context.Context, d *managed.Delivery) managed.Outcome {
				s.add(fmt.Sprintf("%s@%d", d.MessageID, d.Session))
				if d.Session == 1 {
					time.Sleep(3 * time.Second) // whatever its context says
					return managed.Ack
				}
				<-ctx.Done()
				return managed.Outcome{}
			}}}})
		h.Publish("q", "A")
		h.Start()
		synctest.Wait()
		h.Broker.Reset()
		h.Publish("q", "C")
		time.Sleep(2 * time.Second)
		if diff := cmp.Diff([]string{"A@1", "C@2"}, s.list()); diff != "" {
			t.Errorf("started while A's first handler runs (-want +got):\n%s", diff)
		}
		time.Sleep(2 * time.Second)
		if diff := cmp.Diff([]string{"A@1", "C@2", "A@2"}, s.list()); diff != "" {
			t.Errorf("started (-want +got):\n%s", diff)
		}
		if ready, unacked := h.Broker.Depth("q"); ready+unacked != 2 {
			t.Errorf("%d ready, %d unacked: the stale ack took a message", ready, unacked)
		}
		h.Consumer.Force()
		d := h.Report()
		reporttest.Check(t, h.Consumer.ReportJSON())
		if diff := cmp.Diff(report.Sheet{Received: 3, Started: 3, Unresolved: 1, Interrupted: 2, LateResults: 1, Conserved: true}, d.Deliveries.SinceStart); diff != "" {
			t.Errorf("since start (-want +got):\n%s", diff)
		}
	})
}

// A consumer that the broker cancels is restarted alone; its neighbour never notices.
func TestConsumerCancelledByBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{
			{Queue: "a", Handler: returns(managed.Ack)}, {Queue: "b", Handler: returns(managed.Ack)}}})
		h.Start()
		h.Broker.CancelConsumers("a")
		synctest.Wait()
		time.Sleep(time.Second)
		h.Publish("a", "m1")
		h.Publish("b", "m2")
		time.Sleep(time.Second)
		h.Stop()
		_, d := verdictOf(t, h)
		if d.Deliveries.SinceStart.Acked != 2 || len(d.Sessions) != 1 || d.ExitCode != 0 {
			t.Errorf("acked %d, %d sessions, exit code %d", d.Deliveries.SinceStart.Acked, len(d.Sessions), d.ExitCode)
		}
	})
}

// A queue that stays gone fails its subscription, and when none is left that is a fault. A stop would have been prompt meanwhile.
func TestSubscriptionGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Reconnect: managed.Reconnect{GiveUpAfter: time.Minute},
			Subscriptions: []managed.Subscription{{Queue: "a", Handler: returns(managed.Ack)}}})
		h.Start()
		begin := time.Now()
		h.Broker.Delete("a")
		<-h.Consumer.Done()
		if took := time.Since(begin); took < time.Minute || took > 75*time.Second {
			t.Errorf("given up after %s, want a minute and at most one more wait", took)
		}
		d := h.Report()
		reporttest.Check(t, h.Consumer.ReportJSON())
		if d.Trigger.Kind != report.TriggerFault || d.Completion != report.Failed || d.Subscriptions[0].State != "failed" {
			t.Errorf("trigger %+v, completion %s, subscription %s", d.Trigger, d.Completion, d.Subscriptions[0].State)
		}
	})
}

// A stop while disconnected, in backoff or in a hanging dial, is prompt and clean.
func TestStopWhileDisconnected(t *testing.T) {
	for name, fault := range map[string]func(b *memory.Broker){
		"refused": func(b *memory.Broker) {
			b.RefuseDials(1000, &transport.Error{Kind: transport.KindUnavailable, Op: "dial", Text: "refused"})
		},
		"hanging dial": func(b *memory.Broker) { b.Withhold(memory.ReplyDial) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "a", Handler: returns(managed.Ack)}}})
				h.Start()
				fault(h.Broker)
				h.Broker.Reset()
				time.Sleep(time.Minute)
				begin := time.Now()
				h.Stop()
				if took := time.Since(begin); took != 0 {
					t.Errorf("took %s", took)
				}
				got, _ := verdictOf(t, h)
				want(t, got, verdict{Completion: report.GracefulCompleted})
			})
		})
	}
}

// sleepsThrough takes d whatever its context says.
func sleepsThrough(d time.Duration) managed.Handler {
	return func(context.Context, *managed.Delivery) managed.Outcome {
		time.Sleep(d)
		return managed.Ack
	}
}
