package managed_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
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

// A handler that is told its session is lost and comes back without an outcome is interrupted; nothing is unresolved.
func TestSessionLostHandlerToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "orders", Prefetch: 1, Handler: sleeps(time.Second)}}})
		h.Publish("orders", "m1")
		h.Start()
		synctest.Wait()
		h.Broker.Drop(320, "CONNECTION_FORCED")
		<-h.Consumer.Done()
		_, d := verdictOf(t, h)
		if diff := cmp.Diff(report.Sheet{Received: 1, Started: 1, Interrupted: 1, Conserved: true}, d.Deliveries.SinceStart); diff != "" {
			t.Errorf("since start (-want +got):\n%s", diff)
		}
		if d.Completion != report.Failed || d.ExitCode != 1 {
			t.Errorf("completion %s, exit code %d", d.Completion, d.ExitCode)
		}
		if d.Trigger.Kind != report.TriggerFault || d.Sessions[0].Code != 320 || d.Sessions[0].By != "peer" {
			t.Errorf("trigger %+v, sessions %+v", d.Trigger, d.Sessions)
		}
	})
}

// sleepsThrough takes d whatever its context says.
func sleepsThrough(d time.Duration) managed.Handler {
	return func(context.Context, *managed.Delivery) managed.Outcome {
		time.Sleep(d)
		return managed.Ack
	}
}
