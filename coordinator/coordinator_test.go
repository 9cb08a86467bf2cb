package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/lastcall-go/lastcall/coordinator"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
)

func TestNewRefusesAnIncompleteConfig(t *testing.T) {
	budget, err := deadline.New(deadline.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]coordinator.Config{
		"no resources": {Budget: budget},
		"no budget":    {Resources: resources.New()},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := coordinator.New(cfg); !errors.Is(err, coordinator.ErrConfig) {
				t.Errorf("got %v, want %v", err, coordinator.ErrConfig)
			}
		})
	}
}

func TestRegister(t *testing.T) {
	b := newBench(t, sec, nil)
	ok := func(context.Context) error { return nil }
	b.register(t, coordinator.Action{Name: "taken", Phase: coordinator.PhaseDrain, Graceful: ok})
	b.register(t, coordinator.Action{Name: "taken", Phase: coordinator.PhaseCloseEvidence, Force: ok})
	for name, tc := range map[string]struct {
		action coordinator.Action
		want   error
	}{
		"a name that is taken": {coordinator.Action{Name: "taken", Phase: coordinator.PhaseDrain, Graceful: ok}, coordinator.ErrDuplicate},
		"no name":              {coordinator.Action{Phase: coordinator.PhaseDrain, Graceful: ok}, coordinator.ErrAction},
		"no half":              {coordinator.Action{Name: "x", Phase: coordinator.PhaseDrain}, coordinator.ErrAction},
		"no phase":             {coordinator.Action{Name: "x", Graceful: ok}, coordinator.ErrAction},
		"force":                {coordinator.Action{Name: "x", Phase: coordinator.PhaseForce, Graceful: ok}, coordinator.ErrAction},
		"dispose":              {coordinator.Action{Name: "x", Phase: coordinator.PhaseDispose, Graceful: ok}, coordinator.ErrAction},
		"publish":              {coordinator.Action{Name: "x", Phase: coordinator.PhasePublish, Graceful: ok}, coordinator.ErrAction},
		"no such phase":        {coordinator.Action{Name: "x", Phase: 9, Graceful: ok}, coordinator.ErrAction},
	} {
		t.Run(name, func(t *testing.T) {
			if err := b.Register(tc.action); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
	b.Initiate(api)
	if err := b.Register(coordinator.Action{Name: "late", Phase: coordinator.PhaseDrain, Graceful: ok}); !errors.Is(err, coordinator.ErrStopping) {
		t.Errorf("after initiation: %v, want %v", err, coordinator.ErrStopping)
	}
	if err := b.resources.Own("late", resources.Pool, func() {}); !errors.Is(err, resources.ErrStopping) {
		t.Errorf("Own after initiation: %v, want %v", err, resources.ErrStopping)
	}
	b.record(t)
}

func TestBeforeInitiationNothingHappens(t *testing.T) {
	b := newBench(t, sec, nil)
	if b.Root() != nil || b.Phase() != 0 || b.Forced() {
		t.Errorf("root %v, phase %s, forced %t", b.Root(), b.Phase(), b.Forced())
	}
	for name, c := range map[string]<-chan struct{}{"Stopping": b.Stopping(), "Sealed": b.Sealed(), "Done": b.Done()} {
		select {
		case <-c:
			t.Errorf("%s is closed", name)
		default:
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errIO)
	if err := b.Wait(ctx); err != errIO {
		t.Errorf("Wait: %v, want its context's cause", err)
	}
}

// TestACleanShutdown holds the whole record of one.
func TestACleanShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 4*sec, nil)
		if err := b.resources.Own("pool", resources.Pool, func() { time.Sleep(20 * ms) }); err != nil {
			t.Fatal(err)
		}
		if err := b.resources.Own("audit", resources.Other, func() error { return errIO }); err != nil {
			t.Fatal(err)
		}
		b.register(t, coordinator.Action{Name: "broker", Phase: coordinator.PhaseCloseEvidence, Graceful: takes(5 * ms)})
		b.register(t, coordinator.Action{Name: "orders", Phase: coordinator.PhaseDrain, Graceful: takes(150 * ms)})
		b.register(t, coordinator.Action{Name: "mails", Phase: coordinator.PhaseDrain, Graceful: takes(100 * ms)})
		b.register(t, coordinator.Action{Name: "cancel", Phase: coordinator.PhaseCloseAdmission, Graceful: takes(ms)})
		if got := b.Initiate(sig); got != report.EffectGraceful {
			t.Errorf("Initiate: %s", got)
		}
		<-b.Stopping()
		b.at(50*ms, func() {
			b.Note(coordinator.Trigger{Kind: report.TriggerSignal, Detail: "SIGTERM"}, report.EffectDuplicate)
		})
		got := b.record(t)

		none, clean := []report.Action{}, func(name string, began, elapsed int64) report.Action {
			return report.Action{Name: name, Graceful: report.GracefulDone, Forced: report.ForcedNotNeeded, BeganTUS: began, ElapsedUS: elapsed}
		}
		failed := clean("audit", 156000, 0)
		failed.Graceful, failed.Error = report.GracefulFailed, &report.Error{Class: errorString, Text: "the disk is full"}
		want := coordinator.Record{
			Trigger: report.Trigger{Kind: report.TriggerSignal, Detail: "SIGTERM", At: report.At(b.start)},
			Triggers: []report.TriggerEvent{
				{Kind: report.TriggerSignal, Detail: "SIGTERM", Effect: report.EffectGraceful},
				{Kind: report.TriggerSignal, Detail: "SIGTERM", Effect: report.EffectDuplicate, TUS: 50000},
			},
			Budget: report.Budget{TotalUS: 4000000, ReserveUS: 1000000, ForceWindowUS: 1000000, GracefulTUS: 3000000,
				CloseTUS: 3812500, DisposeTUS: 3875000, HardTUS: 4000000, ElapsedUS: 176000},
			Phases: []report.Phase{
				{Phase: "close_admission", ElapsedUS: 1000, Actions: []report.Action{clean("cancel", 0, 1000)}},
				{Phase: "drain", BeganTUS: 1000, ElapsedUS: 150000,
					Actions: []report.Action{clean("orders", 1000, 150000), clean("mails", 1000, 100000)}},
				{Phase: "force", BeganTUS: 151000, Actions: none},
				{Phase: "close_evidence", BeganTUS: 151000, ElapsedUS: 5000, Actions: []report.Action{clean("broker", 151000, 5000)}},
				{Phase: "dispose", BeganTUS: 156000, ElapsedUS: 20000, Actions: []report.Action{failed, clean("pool", 156000, 20000)}},
				{Phase: "publish", BeganTUS: 176000, Actions: none},
			},
			Counts: report.Counts{Errors: 1}, LeftBehind: []string{}, Start: b.start, SealedAt: b.start.Add(176 * ms),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
		course := []string{"0s initiate 4s by SIGTERM", "0s phase close_admission", "1ms phase drain", "151ms phase force",
			"151ms phase close_evidence", "156ms phase dispose", "176ms phase publish", "176ms seal", "176ms store"}
		if diff := cmp.Diff(course, b.lines()); diff != "" {
			t.Errorf("course (-want +got):\n%s", diff)
		}
		if b.Phase() != coordinator.PhasePublish || b.Forced() {
			t.Errorf("phase %s, forced %t at the end", b.Phase(), b.Forced())
		}
	})
}

// TestTheClockStartsAtTheTrigger: the instant of the signal, not of our noticing it; and no instant from the future.
func TestTheClockStartsAtTheTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(sec)
		for name, tc := range map[string]struct{ at, hard time.Duration }{
			"earlier": {-300 * ms, 3700 * ms},
			"later":   {time.Hour, 4 * sec},
			"now":     {0, 4 * sec},
		} {
			b := newBench(t, 4*sec, nil)
			b.Initiate(coordinator.Trigger{Kind: report.TriggerSignal, At: deadline.Now().Add(tc.at)})
			if got := deadline.Until(b.Root().Instants().Hard); got != tc.hard {
				t.Errorf("%s: hard in %s, want %s", name, got, tc.hard)
			}
			b.Initiate(coordinator.Trigger{Kind: report.TriggerSignal, At: deadline.Now()})
			if got := deadline.Until(b.Root().Instants().Hard); got != tc.hard {
				t.Errorf("%s: a later trigger moved hard to %s", name, got)
			}
			b.record(t)
		}
	})
}

func TestActionsOfAPhaseRunConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 4*sec, nil)
		a, z := make(chan struct{}), make(chan struct{})
		b.register(t, coordinator.Action{Name: "a", Phase: coordinator.PhaseDrain, Graceful: func(context.Context) error { close(a); <-z; return nil }})
		b.register(t, coordinator.Action{Name: "z", Phase: coordinator.PhaseDrain, Graceful: func(context.Context) error { close(z); <-a; return nil }})
		b.Initiate(api)
		if r := b.record(t); r.SealedAt != r.Start {
			t.Errorf("the two waited for each other until %s", r.SealedAt.Sub(r.Start))
		}
	})
}

// TestNothingSkipsALaterPhase: whatever goes wrong in each phase, the later ones run.
func TestNothingSkipsALaterPhase(t *testing.T) {
	ways := map[string]half{"fails": fails(0), "panics": panics(0), "exits": exits(0), "hangs": hangs}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 4*sec, nil)
				for _, p := range []coordinator.Phase{coordinator.PhaseDrain, coordinator.PhaseCloseEvidence} {
					b.register(t, coordinator.Action{Name: "x", Phase: p, Graceful: way, Force: way})
				}
				closed := 0
				for _, err := range []error{
					b.resources.Own("last", resources.Pool, func() { closed++ }),
					b.resources.Own("bad", resources.Pool, func() error { return way(context.Background()) }),
					b.resources.Own("first", resources.Pool, func() { closed++ }),
				} {
					if err != nil {
						t.Fatal(err)
					}
				}
				b.Initiate(api)
				r := b.record(t)
				var phases []string
				for _, s := range spans(r) {
					phases = append(phases, s.Phase)
				}
				want := []string{"close_admission", "drain", "force", "close_evidence", "dispose", "publish"}
				if diff := cmp.Diff(want, phases); diff != "" || closed != 2 {
					t.Errorf("closed %d; phases (-want +got):\n%s", closed, diff)
				}
				if r.SealedAt.After(b.Root().Instants().Hard) {
					t.Errorf("sealed at %s", r.SealedAt.Sub(r.Start))
				}
				leftBehind()
			})
		})
	}
}

func TestWithheldResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 4*sec, func(b *bench, cfg *coordinator.Config) {
			cfg.Withhold = func() string { b.note("withhold"); return "orders" }
		})
		if err := b.resources.Own("pool", resources.Pool, func() { t.Error("closed under running code") }); err != nil {
			t.Fatal(err)
		}
		b.Initiate(api)
		want := []row{{Phase: "dispose", Name: "pool", Graceful: report.GracefulNotStarted, Forced: report.ForcedUnavailable}}
		if diff := cmp.Diff(want, rows(b.record(t))); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
		if got := b.resources.Report(b.start)[0].WithheldBy; got != "orders" {
			t.Errorf("withheld by %q", got)
		}
		asked := 0
		for _, line := range b.lines() {
			if line == "0s withhold" {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// TestAStoreThatHangsIsLeftBehind at hard, and its context says so.
func TestAStoreThatHangsIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		b := newBench(t, 4*sec, func(b *bench, cfg *coordinator.Config) {
			cfg.Store = func(ctx context.Context) { <-ctx.Done(); cause = context.Cause(ctx); time.Sleep(time.Hour) }
		})
		b.Initiate(api)
		<-b.Sealed()
		if at := deadline.Since(b.start); at != 0 {
			t.Errorf("sealed after %s: the store came first", at)
		}
		for name, effect := range map[string]report.Effect{"Initiate": b.Initiate(api), "Force": b.Force(api), "Abandon": b.Abandon(api)} {
			if effect != report.EffectTooLate {
				t.Errorf("%s after sealing: %s, want too_late", name, effect)
			}
		}
		<-b.Done()
		if at := deadline.Since(b.start); at != 4*sec {
			t.Errorf("done after %s, want the hard deadline", at)
		}
		synctest.Wait()
		if cause != coordinator.ErrHardOver {
			t.Errorf("the store's context ended with %v", cause)
		}
		leftBehind()
	})
}

func TestWaitIsBoundedByItsContextAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 4*sec, nil)
		b.register(t, coordinator.Action{Name: "x", Phase: coordinator.PhaseDrain, Graceful: takes(sec)})
		b.Initiate(api)
		ctx, cancel := deadline.Timeout(t.Context(), 500*ms, errIO)
		defer cancel()
		if err := b.Wait(ctx); err != errIO || deadline.Since(b.start) != 500*ms {
			t.Errorf("Wait: %v after %s", err, deadline.Since(b.start))
		}
		b.record(t)
		if err := b.Wait(ctx); err != nil {
			t.Errorf("Wait after the end, with an ended context: %v", err)
		}
		if at := deadline.Since(b.start); at != sec {
			t.Errorf("the shutdown took %s", at)
		}
	})
}

// TestCallbacksAreContained: each of them panics or leaves its goroutine, and the shutdown goes its way.
func TestCallbacksAreContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sealed := 0
		b := newBench(t, 4*sec, func(b *bench, cfg *coordinator.Config) {
			cfg.OnInitiate = func(*deadline.Root, coordinator.Trigger) { panic(errIO) }
			cfg.OnForce = func(report.ForceCause, time.Time, time.Time) { runtime.Goexit() }
			cfg.OnPhase = nil
			cfg.Withhold = func() string { panic(errIO) }
			cfg.Seal = func(r coordinator.Record) { sealed++; b.records = append(b.records, r); panic(errIO) }
			cfg.Store = func(context.Context) { panic(errIO) }
		})
		b.register(t, coordinator.Action{Name: "x", Phase: coordinator.PhaseDrain, Graceful: obeys, Revoke: func() { panic(errIO) }})
		if err := b.resources.Own("pool", resources.Pool, func() { t.Error("closed, and nobody knew what still ran") }); err != nil {
			t.Fatal(err)
		}
		b.Initiate(api)
		err := b.Wait(t.Context())
		var got []string
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, one := range joined.Unwrap() {
				failed, _ := errors.AsType[*coordinator.CallbackError](one)
				got = append(got, fmt.Sprintf("%s: panic %t, goexit %t", failed.Callback, errors.Is(one, errIO), errors.Is(one, resources.ErrGoexit)))
			}
		}
		want := []string{"OnInitiate: panic true, goexit false", "OnForce: panic false, goexit true", "Revoke of x: panic true, goexit false",
			"Withhold: panic true, goexit false", "Seal: panic true, goexit false", "Store: panic true, goexit false"}
		if diff := cmp.Diff(want, got); diff != "" || sealed != 1 {
			t.Errorf("sealed %d times, %v (-want +got):\n%s", sealed, err, diff)
		}
		if got := b.records[0].Counts.Panics; got != 4 {
			t.Errorf("%d panics in the record, want those from before the seal", got)
		}
	})
}

// TestTriggersAreCapped: what changed something is never left out.
func TestTriggersAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 4*sec, nil)
		b.register(t, coordinator.Action{Name: "x", Phase: coordinator.PhaseDrain, Graceful: takes(2 * sec), Force: hangs})
		b.Initiate(api)
		for range 100 {
			b.Initiate(sig)
		}
		time.Sleep(sec)
		b.Force(sig)
		b.Abandon(sig)
		r := b.record(t)
		var changed []report.TriggerEvent
		for _, e := range r.Triggers {
			if e.Effect != report.EffectNone {
				changed = append(changed, e)
			}
		}
		want := []report.TriggerEvent{
			{Kind: report.TriggerAPI, Detail: "Shutdown", Effect: report.EffectGraceful},
			{Kind: report.TriggerSignal, Detail: "SIGTERM", Effect: report.EffectForce, TUS: 1000000},
			{Kind: report.TriggerSignal, Detail: "SIGTERM", Effect: report.EffectAbandon, TUS: 1000000},
		}
		if diff := cmp.Diff(want, changed); diff != "" || len(r.Triggers)+r.TriggersOmitted != 103 || r.TriggersOmitted != 37 {
			t.Errorf("%d kept, %d omitted; changed something (-want +got):\n%s", len(r.Triggers), r.TriggersOmitted, diff)
		}
		leftBehind()
	})
}

// TestContextsSayWhy: the cause each half reads, and the deadline it sees.
func TestContextsSayWhy(t *testing.T) {
	type seen struct {
		Deadline, Ended time.Duration
		Cause           error
	}
	for name, tc := range map[string]struct {
		phase           coordinator.Phase
		during          func(b *bench)
		graceful, force seen // force is zero if it never began
	}{
		"the deadline": {phase: coordinator.PhaseDrain,
			graceful: seen{3 * sec, 3 * sec, coordinator.ErrGracefulOver}, force: seen{3750 * ms, 3750 * ms, coordinator.ErrForceOver}},
		"force": {phase: coordinator.PhaseDrain,
			during:   func(b *bench) { b.at(sec, func() { b.Force(sig) }) },
			graceful: seen{sec, sec, coordinator.ErrForced}, force: seen{1750 * ms, 1750 * ms, coordinator.ErrForceOver}},
		"abandon": {phase: coordinator.PhaseDrain,
			during:   func(b *bench) { b.at(sec, func() { b.Abandon(sig) }) },
			graceful: seen{sec, sec, coordinator.ErrAbandoned}},
		"close": {phase: coordinator.PhaseCloseEvidence,
			graceful: seen{950 * ms, 950 * ms, coordinator.ErrCloseOver}, force: seen{993750 * us, 993750 * us, coordinator.ErrCloseOver}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 4*sec, nil)
				watch := func(into *seen) half {
					return func(ctx context.Context) error {
						<-ctx.Done()
						at, _ := ctx.Deadline()
						*into = seen{at.Sub(b.start), deadline.Since(b.start), context.Cause(ctx)}
						return nil
					}
				}
				var graceful, force seen
				b.register(t, coordinator.Action{Name: "x", Phase: tc.phase, Graceful: watch(&graceful), Force: watch(&force)})
				b.Initiate(api)
				if tc.during != nil {
					tc.during(b)
				}
				b.record(t)
				synctest.Wait()
				if diff := cmp.Diff([]seen{tc.graceful, tc.force}, []seen{graceful, force}, cmpopts.EquateErrors()); diff != "" {
					t.Errorf("graceful, force (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestNoGoroutineIsLeft runs in real time, outside a bubble.
func TestNoGoroutineIsLeft(t *testing.T) {
	defer goleak.VerifyNone(t)
	b := newBench(t, 250*ms, nil)
	b.register(t, coordinator.Action{Name: "x", Phase: coordinator.PhaseDrain, Graceful: obeys, Force: obeys})
	b.register(t, coordinator.Action{Name: "y", Phase: coordinator.PhaseCloseEvidence, Graceful: obeys, Force: takes(0)})
	if err := b.resources.Own("pool", resources.Pool, func(ctx context.Context) error { <-ctx.Done(); return nil }); err != nil {
		t.Fatal(err)
	}
	b.Initiate(api)
	r := b.record(t)
	if len(r.LeftBehind) != 0 || !r.Force.Used {
		t.Errorf("left behind %v, force %+v", r.LeftBehind, r.Force)
	}
}
