package managed_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
)

type osSignal = os.Signal

var sigterm os.Signal = syscall.SIGTERM

// runSignals runs h until its report and sends SIGTERM at each instant from the start on.
func runSignals(t *testing.T, h *managedtest.Harness, at ...time.Duration) report.ShutdownReport {
	t.Helper()
	signals := make(chan osSignal, len(at))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Consumer.RunWith(context.Background(), managed.RunConfig{Signals: signals})
	}()
	begin := time.Now()
	for _, d := range at {
		time.Sleep(d - time.Since(begin))
		signals <- sigterm
	}
	<-done
	return h.Report()
}

func effects(d report.ShutdownReport) (out []report.Effect) {
	for _, e := range d.Triggers {
		out = append(out, e.Effect)
	}
	return out
}

// The second signal gives the notice at once and shortens the root to its reserve.
func TestSecondSignalForces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "orders", Handler: sleeps(time.Hour), HandlerTimeout: 2 * time.Hour}}})
		h.Publish("orders", "m1")
		begin := time.Now()
		d := runSignals(t, h, time.Second, 2*time.Second)
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("ended after %s, want with the second signal at 2s", took)
		}
		got, _ := verdictOf(t, h)
		want(t, got, verdict{report.ForcedCompleted, 3, report.Sheet{Received: 1, Started: 1, Interrupted: 1}})
		if diff := cmp.Diff([]report.Effect{report.EffectGraceful, report.EffectForce}, effects(d)); diff != "" {
			t.Error(diff)
		}
		if d.Force.Cause != report.ForceSignal || *d.Force.TUS != 1_000_000 {
			t.Errorf("force %+v at %d", d.Force, *d.Force.TUS)
		}
		b := d.Budget // T = 30 s, A = 1 s: F = 2, C = 2.375, D = 2.75, hard = 3
		if diff := cmp.Diff([]int64{1_000_000, 2_000_000, 2_375_000, 2_750_000, 3_000_000},
			[]int64{b.GracefulTUS, *b.ForceTUS, b.CloseTUS, b.DisposeTUS, b.HardTUS}); diff != "" {
			t.Errorf("instants (-want +got):\n%s", diff)
		}
	})
}

// The same before a broker that has gone silent: over within the reserve of the second signal.
func TestSecondSignalSilentBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "orders", Handler: sleeps(time.Hour), HandlerTimeout: 2 * time.Hour}}})
		h.Publish("orders", "m1")
		begin := time.Now()
		time.AfterFunc(500*time.Millisecond, func() { h.Broker.Silence() })
		runSignals(t, h, time.Second, 2*time.Second)
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("ended after %s, want within the reserve of 2s after the second signal", took)
		}
		got, _ := verdictOf(t, h)
		want(t, got, verdict{report.Incomplete, 3, report.Sheet{Received: 1, Started: 1, Interrupted: 1}})
	})
}

// The third signal seals at once, with what is known.
func TestThirdSignalAbandons(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "orders", HandlerTimeout: time.Hour,
		Handler: func(context.Context, *managed.Delivery) managed.Outcome { <-release; return managed.Ack }}}})
	h.Publish("orders", "m1")
	signals := make(chan osSignal, 3)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Consumer.RunWith(context.Background(), managed.RunConfig{Signals: signals})
	}()
	awaitStarted(t, h, 1)
	var third time.Time
	for range 3 {
		third = time.Now()
		signals <- sigterm
		time.Sleep(220 * time.Millisecond) // the same signal sooner than 200 ms is a duplicate; also the limit for sealing below
		if _, ok := h.Consumer.ShutdownReport(); ok {
			break
		}
	}
	<-done
	got, d := verdictOf(t, h)
	want(t, got, verdict{report.Incomplete, 3, report.Sheet{Received: 1, Started: 1, Abandoned: 1}})
	if d.RuntimeJoined {
		t.Error("runtime_joined is true after an abandon")
	}
	sealedAfter := time.Duration(d.Budget.ElapsedUS)*time.Microsecond - third.Sub(d.Trigger.At.Time)
	if sealedAfter > 100*time.Millisecond {
		t.Errorf("sealed %s after the third signal", sealedAfter)
	}
	if diff := cmp.Diff([]report.Effect{report.EffectGraceful, report.EffectForce, report.EffectAbandon}, effects(d)); diff != "" {
		t.Error(diff)
	}
}

// A second signal after the drain has ended changes nothing.
func TestSecondSignalAfterDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "orders", Handler: returns(managed.Ack)}}})
		if err := h.Consumer.Own("slow", "pool", func() { time.Sleep(time.Second) }); err != nil {
			t.Fatal(err)
		}
		d := runSignals(t, h, time.Second, 1500*time.Millisecond)
		got, _ := verdictOf(t, h)
		want(t, got, verdict{Completion: report.GracefulCompleted})
		if diff := cmp.Diff([]report.Effect{report.EffectGraceful, report.EffectTooLate}, effects(d)); diff != "" {
			t.Error(diff)
		}
	})
}
