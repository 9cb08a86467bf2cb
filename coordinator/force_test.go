package coordinator_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/coordinator"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
)

// TestForceAtOneSecond is the example of the design: T=30, A=1, F=2, C=2.375, D=2.75, hard=3.
func TestForceAtOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 30*sec, nil)
		hung := func() { time.Sleep(time.Hour) }
		if err := b.resources.Own("pool", resources.Pool, hung); err != nil {
			t.Fatal(err)
		}
		b.register(t, coordinator.Action{Name: "orders", Phase: coordinator.PhaseDrain, Graceful: hangs, Force: hangs})
		b.register(t, coordinator.Action{Name: "mails", Phase: coordinator.PhaseDrain, Graceful: takes(500 * ms), Force: hangs})
		b.register(t, coordinator.Action{Name: "broker", Phase: coordinator.PhaseCloseEvidence, Graceful: hangs, Force: hangs})
		b.Initiate(api)
		b.at(sec, func() {
			if got := b.Force(sig); got != report.EffectForce {
				t.Errorf("Force: %s", got)
			}
			if got := b.Force(api); got != report.EffectNone {
				t.Errorf("the second Force: %s, want none", got)
			}
			if !b.Forced() {
				t.Error("not forced")
			}
		})
		r := b.record(t)
		wantRows := []row{
			{Phase: "drain", Name: "orders", Graceful: report.GracefulCutByForce, Forced: report.ForcedTimedOut, Elapsed: 2010},
			{Phase: "drain", Name: "mails", Graceful: report.GracefulDone, Forced: report.ForcedNotNeeded, Elapsed: 500},
			{Phase: "close_evidence", Name: "broker", Graceful: report.GracefulTimedOut, Forced: report.ForcedTimedOut, Began: 2010, Elapsed: 365},
			{Phase: "dispose", Name: "pool", Graceful: report.GracefulTimedOut, Forced: report.ForcedUnavailable, Began: 2375, Elapsed: 375,
				Class: "resources.ErrOverran"},
		}
		if diff := cmp.Diff(wantRows, rows(r)); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
		wantSpans := []span{{"close_admission", 0, 0}, {"drain", 0, 1000}, {"force", 1000, 1010}, {"close_evidence", 2010, 365},
			{"dispose", 2375, 375}, {"publish", 2750, 0}}
		if diff := cmp.Diff(wantSpans, spans(r)); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
		at, end := int64(1000000), int64(2000000)
		if diff := cmp.Diff(report.Force{Used: true, Cause: report.ForceSignal, TUS: &at}, r.Force); diff != "" {
			t.Errorf("force (-want +got):\n%s", diff)
		}
		wantBudget := report.Budget{TotalUS: 30000000, ReserveUS: 2000000, ForceWindowUS: 1000000, GracefulTUS: 1000000, ForceTUS: &end,
			CloseTUS: 2375000, DisposeTUS: 2750000, HardTUS: 3000000, ElapsedUS: 2750000}
		if diff := cmp.Diff(wantBudget, r.Budget); diff != "" {
			t.Errorf("budget (-want +got):\n%s", diff)
		}
		wantEvents := []report.TriggerEvent{
			{Kind: report.TriggerAPI, Detail: "Shutdown", Effect: report.EffectGraceful},
			{Kind: report.TriggerSignal, Detail: "SIGTERM", Effect: report.EffectForce, TUS: 1000000},
			{Kind: report.TriggerAPI, Detail: "Shutdown", Effect: report.EffectNone, TUS: 1000000},
		}
		if diff := cmp.Diff(wantEvents, r.Triggers); diff != "" {
			t.Errorf("triggers (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"drain/orders", "close_evidence/broker"}, r.LeftBehind); diff != "" {
			t.Errorf("left behind (-want +got):\n%s", diff)
		}
		leftBehind()
	})
}

// TestForceFirst: force is the trigger. No graceful half of close_admission and drain is begun; close_evidence is as always.
func TestForceFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 30*sec, nil)
		b.register(t, coordinator.Action{Name: "cancel", Phase: coordinator.PhaseCloseAdmission, Graceful: hangs, Force: takes(0)})
		b.register(t, coordinator.Action{Name: "orders", Phase: coordinator.PhaseDrain, Graceful: hangs, Force: takes(100 * ms)})
		b.register(t, coordinator.Action{Name: "broker", Phase: coordinator.PhaseCloseEvidence, Graceful: takes(ms)})
		if got := b.Force(sig); got != report.EffectForce {
			t.Errorf("Force: %s", got)
		}
		r := b.record(t)
		want := []row{
			{Phase: "close_admission", Name: "cancel", Graceful: report.GracefulNotStarted, Forced: report.ForcedDone},
			{Phase: "drain", Name: "orders", Graceful: report.GracefulNotStarted, Forced: report.ForcedDone, Elapsed: 100},
			{Phase: "close_evidence", Name: "broker", Graceful: report.GracefulDone, Forced: report.ForcedNotNeeded, Began: 100, Elapsed: 1},
		}
		if diff := cmp.Diff(want, rows(r)); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
		if !r.Force.Used || r.Trigger.Detail != "SIGTERM" || len(r.Triggers) != 1 {
			t.Errorf("force %+v, trigger %+v, %d events", r.Force, r.Trigger, len(r.Triggers))
		}
		course := []string{"0s initiate 2s by SIGTERM", "0s phase close_admission", "0s phase drain", "0s phase force",
			"0s force by signal at 0s until 1s", "100ms phase close_evidence", "101ms phase dispose", "101ms phase publish", "101ms seal", "101ms store"}
		if diff := cmp.Diff(course, b.lines()); diff != "" {
			t.Errorf("course (-want +got):\n%s", diff)
		}
	})
}

// TestForceFirstWithNothingToCut initiates, shortens the root, and is no use of force.
func TestForceFirstWithNothingToCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 30*sec, nil)
		b.register(t, coordinator.Action{Name: "broker", Phase: coordinator.PhaseCloseEvidence, Graceful: takes(ms)})
		if got := b.Force(api); got != report.EffectForce {
			t.Errorf("Force: %s", got)
		}
		r := b.record(t)
		if r.Force.Used || r.Budget.HardTUS != 2000000 || !b.Forced() {
			t.Errorf("force %+v, hard %d, forced %t", r.Force, r.Budget.HardTUS, b.Forced())
		}
	})
}

// request is made at an instant of a shutdown.
type request struct {
	at   time.Duration
	do   func(b *bench) report.Effect
	want report.Effect
}

func force(b *bench) report.Effect    { return b.Force(sig) }
func abandon(b *bench) report.Effect  { return b.Abandon(sig) }
func initiate(b *bench) report.Effect { return b.Initiate(sig) }

// TestForceFromBeforeTheStart: a signal that was received before the trigger, and decided after it.
func TestForceFromBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 4*sec, nil)
		b.register(t, coordinator.Action{Name: "x", Phase: coordinator.PhaseDrain, Graceful: obeys, Force: takes(0)})
		before := deadline.Now()
		time.Sleep(sec)
		b.Initiate(api)
		b.Force(coordinator.Trigger{Kind: report.TriggerSignal, At: before})
		if r := b.record(t); r.Force.TUS == nil || *r.Force.TUS != 0 || *r.Budget.ForceTUS != 750000 {
			t.Errorf("force %+v, budget %+v; want the notice at the start", r.Force, r.Budget)
		}
	})
}

// TestForceBetweenPhases: in the very instants in which one phase follows the other, what counts is whether anything is
// unfinished.
func TestForceBetweenPhases(t *testing.T) {
	works := map[string]coordinator.Action{
		"nothing":           {Name: "x", Phase: coordinator.PhaseCloseEvidence, Graceful: takes(0)},
		"a drain":           {Name: "x", Phase: coordinator.PhaseDrain, Graceful: works(sec), Force: takes(100 * ms)},
		"only a force half": {Name: "x", Phase: coordinator.PhaseDrain, Force: takes(100 * ms)},
	}
	const forced, late = report.EffectForce, report.EffectTooLate
	for name, want := range map[string][]report.Effect{ // as each phase begins
		"nothing":           {late, late, late, late, late, late},
		"a drain":           {forced, forced, late, late, late, late},
		"only a force half": {late, late, late, late, late, late},
	} {
		t.Run(name, func(t *testing.T) {
			var got []report.Effect
			for p := coordinator.PhaseCloseAdmission; p <= coordinator.PhasePublish; p++ {
				synctest.Test(t, func(t *testing.T) {
					var b *bench
					b = newBench(t, 4*sec, func(_ *bench, cfg *coordinator.Config) {
						cfg.OnPhase = func(begun coordinator.Phase, _ time.Time) {
							if begun == p {
								got = append(got, b.Force(sig))
							}
						}
					})
					b.register(t, works[name])
					b.Initiate(api)
					if r := b.record(t); r.Force.Used != (got[len(got)-1] == forced) {
						t.Errorf("forced as %s began: %s, used %t", p, got[len(got)-1], r.Force.Used)
					}
				})
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEffects: what each request changes in each phase, and what the next one finds. Undisturbed, close_admission takes until
// 0.2 s, the drain 1.2, close_evidence 1.3, the disposal 1.4; the drain's force half takes 0.4 s.
func TestEffects(t *testing.T) {
	const (
		graceful = report.EffectGraceful
		forced   = report.EffectForce
		none     = report.EffectNone
		cut      = report.EffectAbandon
		late     = report.EffectTooLate
	)
	for name, tc := range map[string]struct {
		drain      half // nil: works for 1 s
		requests   []request
		wantForced bool
		wantUsed   report.ForceCause
		wantEnd    time.Duration
	}{
		"initiate again": {requests: []request{{0, initiate, graceful}, {100 * ms, initiate, none}, {1100 * ms, initiate, none}, {2 * sec, initiate, late}},
			wantEnd: 1400 * ms},
		"force in close_admission": {requests: []request{{0, initiate, graceful}, {100 * ms, force, forced}, {150 * ms, force, none}},
			wantForced: true, wantUsed: report.ForceSignal, wantEnd: 700 * ms},
		"force in drain": {requests: []request{{0, initiate, graceful}, {500 * ms, force, forced}, {600 * ms, initiate, none}},
			wantForced: true, wantUsed: report.ForceSignal, wantEnd: 1100 * ms},
		"force after the drain": {requests: []request{{0, initiate, graceful}, {1250 * ms, force, late}, {1350 * ms, force, late}},
			wantEnd: 1400 * ms},
		"force in the deadline's own": {drain: obeys, requests: []request{{0, initiate, graceful}, {3200 * ms, force, none}, {3300 * ms, force, none}, {3500 * ms, force, none}},
			wantForced: true, wantUsed: report.ForceDeadline, wantEnd: 3600 * ms},
		"force after the deadline's own": {drain: obeys, requests: []request{{0, initiate, graceful}, {3450 * ms, force, late}},
			wantUsed: report.ForceDeadline, wantEnd: 3600 * ms},
		"abandon at once": {requests: []request{{0, abandon, cut}, {0, abandon, late}, {0, force, late}}, wantEnd: 0},
		"abandon in close_admission": {requests: []request{{0, initiate, graceful}, {100 * ms, abandon, cut}},
			wantEnd: 100 * ms},
		"abandon in drain": {requests: []request{{0, initiate, graceful}, {500 * ms, abandon, cut}, {500 * ms, force, late}},
			wantEnd: 500 * ms},
		"abandon in force": {requests: []request{{0, initiate, graceful}, {500 * ms, force, forced}, {600 * ms, abandon, cut}},
			wantForced: true, wantUsed: report.ForceSignal, wantEnd: 600 * ms},
		"abandon in the instant of force": {requests: []request{{0, initiate, graceful}, {500 * ms, func(b *bench) report.Effect { b.Force(sig); return b.Abandon(sig) }, cut}},
			wantForced: true, wantUsed: report.ForceSignal, wantEnd: 500 * ms},
		"abandon in close_evidence": {requests: []request{{0, initiate, graceful}, {1250 * ms, abandon, cut}}, wantEnd: 1250 * ms},
		"abandon in dispose":        {requests: []request{{0, initiate, graceful}, {1350 * ms, abandon, cut}, {1500 * ms, abandon, late}}, wantEnd: 1350 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 4*sec, nil)
				drain := tc.drain
				if drain == nil {
					drain = works(sec)
				}
				b.register(t, coordinator.Action{Name: "a", Phase: coordinator.PhaseCloseAdmission, Graceful: takes(200 * ms), Force: takes(0)})
				b.register(t, coordinator.Action{Name: "d", Phase: coordinator.PhaseDrain, Graceful: drain, Force: takes(400 * ms)})
				b.register(t, coordinator.Action{Name: "c", Phase: coordinator.PhaseCloseEvidence, Graceful: takes(100 * ms), Force: takes(0)})
				if err := b.resources.Own("pool", resources.Pool, func() { time.Sleep(100 * ms) }); err != nil {
					t.Fatal(err)
				}
				for i, q := range tc.requests {
					if q.at > 0 {
						time.Sleep(deadline.Until(b.start.Add(q.at)))
						synctest.Wait()
					}
					if got := q.do(b); got != q.want {
						t.Errorf("request %d: %s, want %s", i, got, q.want)
					}
				}
				r := b.record(t)
				if r.Force.Used != (tc.wantUsed != "") || r.Force.Cause != tc.wantUsed || b.Forced() != tc.wantForced {
					t.Errorf("force %+v, forced %t; want %q, %t", r.Force, b.Forced(), tc.wantUsed, tc.wantForced)
				}
				if got := r.SealedAt.Sub(r.Start); got != tc.wantEnd {
					t.Errorf("sealed after %s, want %s", got, tc.wantEnd)
				}
				notices := 0
				for _, line := range b.lines() {
					if strings.Contains(line, " force by ") {
						notices++
					}
				}
				if want := map[bool]int{true: 1}[r.Force.Used]; notices != want {
					t.Errorf("%d notices, want %d", notices, want)
				}
				leftBehind()
			})
		})
	}
}

// TestAbandon: in each phase what is begun is cut, what is not never begins, rights are revoked and the report is sealed in
// that instant.
func TestAbandon(t *testing.T) {
	const (
		cut         = report.GracefulCutByForce
		notStarted  = report.GracefulNotStarted
		completed   = report.GracefulDone
		unavailable = report.ForcedUnavailable
		timedOut    = report.ForcedTimedOut
		notNeeded   = report.ForcedNotNeeded
	)
	const abandoned = "coordinator.ErrAbandoned"
	for name, tc := range map[string]struct {
		force   time.Duration // when force is asked for; 0: never
		at      time.Duration
		want    []row
		revoked []string
	}{
		"before anything": {at: 0, revoked: []string{"admission", "drain", "evidence"}, want: []row{
			{Phase: "close_admission", Name: "admission", Graceful: notStarted, Forced: unavailable},
			{Phase: "drain", Name: "drain", Graceful: notStarted, Forced: unavailable},
			{Phase: "close_evidence", Name: "evidence", Graceful: notStarted, Forced: unavailable},
			{Phase: "dispose", Name: "pool", Graceful: notStarted, Forced: unavailable}}},
		"close_admission": {at: 500 * ms, revoked: []string{"admission", "drain", "evidence"}, want: []row{
			{Phase: "close_admission", Name: "admission", Graceful: cut, Forced: unavailable, Elapsed: 500},
			{Phase: "drain", Name: "drain", Graceful: notStarted, Forced: unavailable},
			{Phase: "close_evidence", Name: "evidence", Graceful: notStarted, Forced: unavailable},
			{Phase: "dispose", Name: "pool", Graceful: notStarted, Forced: unavailable}}},
		"drain": {at: 1500 * ms, revoked: []string{"drain", "evidence"}, want: []row{
			{Phase: "close_admission", Name: "admission", Graceful: completed, Forced: notNeeded, Elapsed: 1000},
			{Phase: "drain", Name: "drain", Graceful: cut, Forced: unavailable, Began: 1000, Elapsed: 500},
			{Phase: "close_evidence", Name: "evidence", Graceful: notStarted, Forced: unavailable},
			{Phase: "dispose", Name: "pool", Graceful: notStarted, Forced: unavailable}}},
		"force": {force: 1500 * ms, at: 1600 * ms, revoked: []string{"drain", "evidence"}, want: []row{
			{Phase: "close_admission", Name: "admission", Graceful: completed, Forced: notNeeded, Elapsed: 1000},
			{Phase: "drain", Name: "drain", Graceful: cut, Forced: timedOut, Began: 1000, Elapsed: 600},
			{Phase: "close_evidence", Name: "evidence", Graceful: notStarted, Forced: unavailable},
			{Phase: "dispose", Name: "pool", Graceful: notStarted, Forced: unavailable}}},
		"close_evidence": {at: 2500 * ms, revoked: []string{"evidence"}, want: []row{
			{Phase: "close_admission", Name: "admission", Graceful: completed, Forced: notNeeded, Elapsed: 1000},
			{Phase: "drain", Name: "drain", Graceful: completed, Forced: notNeeded, Began: 1000, Elapsed: 1000},
			{Phase: "close_evidence", Name: "evidence", Graceful: cut, Forced: unavailable, Began: 2000, Elapsed: 500},
			{Phase: "dispose", Name: "pool", Graceful: notStarted, Forced: unavailable}}},
		"dispose": {at: 3500 * ms, want: []row{
			{Phase: "close_admission", Name: "admission", Graceful: completed, Forced: notNeeded, Elapsed: 1000},
			{Phase: "drain", Name: "drain", Graceful: completed, Forced: notNeeded, Began: 1000, Elapsed: 1000},
			{Phase: "close_evidence", Name: "evidence", Graceful: completed, Forced: notNeeded, Began: 2000, Elapsed: 1000},
			{Phase: "dispose", Name: "pool", Graceful: cut, Forced: unavailable, Began: 3000, Elapsed: 500, Class: abandoned}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var revoked, known []string
				b := newBench(t, 30*sec, func(_ *bench, cfg *coordinator.Config) {
					cfg.Withhold = func() string { known = slices.Clone(revoked); return "" }
				})
				for _, a := range []coordinator.Action{
					{Name: "admission", Phase: coordinator.PhaseCloseAdmission},
					{Name: "drain", Phase: coordinator.PhaseDrain},
					{Name: "evidence", Phase: coordinator.PhaseCloseEvidence},
				} {
					a.Graceful, a.Force, a.Revoke = takes(sec), hangs, func() { revoked = append(revoked, a.Name) }
					b.register(t, a)
				}
				if err := b.resources.Own("pool", resources.Pool, func() { time.Sleep(sec) }); err != nil {
					t.Fatal(err)
				}
				if tc.at > 0 {
					b.Initiate(api)
				}
				if tc.force > 0 {
					b.at(tc.force, func() { b.Force(sig) })
				}
				time.Sleep(tc.at)
				synctest.Wait()
				if got := b.Abandon(sig); got != report.EffectAbandon {
					t.Errorf("Abandon: %s", got)
				}
				<-b.Sealed()
				if at := deadline.Since(b.start); at != tc.at {
					t.Errorf("sealed at %s, want %s", at, tc.at)
				}
				r := b.record(t)
				if diff := cmp.Diff(tc.want, rows(r)); diff != "" || !r.Abandoned {
					t.Errorf("abandoned %t; rows (-want +got):\n%s", r.Abandoned, diff)
				}
				if diff := cmp.Diff([][]string{tc.revoked, tc.revoked}, [][]string{revoked, known}); diff != "" {
					t.Errorf("revoked, and known to be when the disposal asked (-want +got):\n%s", diff)
				}
				leftBehind()
			})
		})
	}
}

// TestAbandonShortensTheRoot, so that a store that hangs holds the process no longer than a forced shutdown would.
func TestAbandonShortensTheRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 30*sec, func(_ *bench, cfg *coordinator.Config) {
			cfg.Store = func(context.Context) { time.Sleep(time.Hour) }
		})
		b.register(t, coordinator.Action{Name: "x", Phase: coordinator.PhaseDrain, Graceful: hangs})
		b.Initiate(api)
		time.Sleep(sec)
		b.Abandon(sig)
		b.record(t)
		if at := deadline.Since(b.start); at != 3*sec {
			t.Errorf("done after %s, want 3s", at)
		}
		course := []string{"0s initiate 30s by Shutdown", "0s phase close_admission", "0s phase drain", "1s phase publish", "1s seal"}
		if diff := cmp.Diff(course, b.lines()); diff != "" {
			t.Errorf("course (-want +got):\n%s", diff)
		}
		leftBehind()
	})
}
