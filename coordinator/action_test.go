package coordinator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/coordinator"
	"github.com/lastcall-go/lastcall/report"
)

const (
	errorString = "*errors.errorString"
	goexit      = "resources.ErrGoexit"
)

// outcome is what became of the one action of a run.
type outcome struct {
	Row        row
	Used       bool     // force.used
	LeftBehind []string // empty if everything came back
	Counts     report.Counts
	End        float64 // the whole run, ms
}

// single runs one action through a shutdown of 4 s: graceful 3.000, F 3.750, C 3.8125, D 3.875, hard 4.
func single(t *testing.T, a coordinator.Action, during func(b *bench)) outcome {
	t.Helper()
	b := newBench(t, 4*sec, nil)
	b.register(t, a)
	b.Initiate(api)
	if during != nil {
		during(b)
	}
	r := b.record(t)
	got := rows(r)
	if len(got) != 1 {
		t.Fatalf("rows of one action: %+v", got)
	}
	o := outcome{Row: got[0], Used: r.Force.Used, Counts: r.Counts, End: float64(r.SealedAt.Sub(r.Start)/us) / 1000}
	if len(r.LeftBehind) > 0 {
		o.LeftBehind = r.LeftBehind
	}
	leftBehind()
	return o
}

// TestDrainOutcomes: every pair of outcomes that the deadline can bring about, at its exact instant.
func TestDrainOutcomes(t *testing.T) {
	const (
		gracefulOver = "coordinator.ErrGracefulOver"
		forceOver    = "coordinator.ErrForceOver"
	)
	left := []string{"drain/x"}
	for name, tc := range map[string]struct {
		graceful, force half
		want            outcome
	}{
		"completed": {takes(sec), hangs,
			outcome{Row: row{Graceful: report.GracefulDone, Forced: report.ForcedNotNeeded, Elapsed: 1000}, End: 1000}},
		"failed": {fails(sec), hangs,
			outcome{Row: row{Graceful: report.GracefulFailed, Forced: report.ForcedNotNeeded, Elapsed: 1000, Class: errorString},
				Counts: report.Counts{Errors: 1}, End: 1000}},
		"panicked": {panics(sec), hangs,
			outcome{Row: row{Graceful: report.GracefulPanicked, Forced: report.ForcedNotNeeded, Elapsed: 1000, Panicked: true, Class: errorString},
				Counts: report.Counts{Panics: 1}, End: 1000}},
		"left by Goexit": {exits(sec), hangs,
			outcome{Row: row{Graceful: report.GracefulFailed, Forced: report.ForcedNotNeeded, Elapsed: 1000, Class: goexit},
				Counts: report.Counts{Errors: 1}, End: 1000}},
		"obeyed, no force half": {obeys, nil,
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedUnavailable, Elapsed: 3000, Class: gracefulOver},
				Used: true, End: 3000}},
		"nil after the notice is no success": {sulks, nil,
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedUnavailable, Elapsed: 3000}, Used: true, End: 3000}},
		"obeyed late, no force half": {takes(3200 * ms), nil,
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedUnavailable, Elapsed: 3200}, Used: true, End: 3200}},
		"hung, no force half": {hangs, nil,
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedUnavailable, Elapsed: 3760},
				Used: true, LeftBehind: left, End: 3760}},
		"forced at once": {obeys, takes(0),
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedDone, Elapsed: 3000}, Used: true, End: 3000}},
		"forced in time": {obeys, takes(500 * ms),
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedDone, Elapsed: 3500}, Used: true, End: 3500}},
		"a late finish rewrites nothing": {fails(3200 * ms), takes(500 * ms),
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedDone, Elapsed: 3500}, Used: true, End: 3500}},
		"a late panic is counted and rewrites nothing": {panics(3200 * ms), takes(500 * ms),
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedDone, Elapsed: 3500, Panicked: true},
				Counts: report.Counts{Panics: 1}, Used: true, End: 3500}},
		"forced, and the graceful half hangs": {hangs, takes(0),
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedDone, Elapsed: 3760},
				Used: true, LeftBehind: left, End: 3760}},
		"the force half failed": {obeys, fails(100 * ms),
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedFailed, Elapsed: 3100, Class: errorString},
				Counts: report.Counts{Errors: 1}, Used: true, End: 3100}},
		"the force half panicked": {obeys, panics(100 * ms),
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedPanicked, Elapsed: 3100, Panicked: true, Class: errorString},
				Counts: report.Counts{Panics: 1}, Used: true, End: 3100}},
		"the force half left by Goexit": {obeys, exits(100 * ms),
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedFailed, Elapsed: 3100, Class: goexit},
				Counts: report.Counts{Errors: 1}, Used: true, End: 3100}},
		"the force half obeyed": {obeys, obeys,
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedTimedOut, Elapsed: 3750, Class: forceOver},
				Used: true, End: 3750}},
		"the force half failed in the last moment": {obeys, fails(755 * ms),
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedTimedOut, Elapsed: 3755, Class: errorString},
				Used: true, End: 3755}},
		"the force half ended in the last moment": {obeys, takes(755 * ms),
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedDone, Elapsed: 3755}, Used: true, End: 3755}},
		"the force half ended too late": {obeys, takes(765 * ms),
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedTimedOut, Elapsed: 3760},
				Used: true, LeftBehind: left, End: 3760}},
		"both hung": {hangs, hangs,
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedTimedOut, Elapsed: 3760},
				Used: true, LeftBehind: left, End: 3760}},
		"no graceful half": {nil, takes(100 * ms),
			outcome{Row: row{Graceful: report.GracefulNotStarted, Forced: report.ForcedDone, Elapsed: 100}, End: 100}},
		"no graceful half, hung": {nil, hangs,
			outcome{Row: row{Graceful: report.GracefulNotStarted, Forced: report.ForcedTimedOut, Elapsed: 1010},
				LeftBehind: left, End: 1010}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := single(t, coordinator.Action{Name: "x", Phase: coordinator.PhaseDrain, Graceful: tc.graceful, Force: tc.force}, nil)
				tc.want.Row.Phase, tc.want.Row.Name = "drain", "x"
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestCloseAdmissionOutcomes: close_admission is cut and forced like the drain, but that alone is no use of force.
func TestCloseAdmissionOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		graceful, force half
		want            outcome
	}{
		"completed": {takes(0), nil, outcome{Row: row{Graceful: report.GracefulDone, Forced: report.ForcedNotNeeded}}},
		"timed out": {obeys, nil,
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedUnavailable, Elapsed: 3000, Class: "coordinator.ErrGracefulOver"},
				End: 3000}},
		"forced": {obeys, takes(100 * ms),
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedDone, Elapsed: 3100}, End: 3100}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := single(t, coordinator.Action{Name: "x", Phase: coordinator.PhaseCloseAdmission, Graceful: tc.graceful, Force: tc.force}, nil)
				tc.want.Row.Phase, tc.want.Row.Name = "close_admission", "x"
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestCloseEvidenceOutcomes: the phase begins at once and may take the reserve, 1 s, of which 50 ms are kept for the force
// halves.
func TestCloseEvidenceOutcomes(t *testing.T) {
	const closeOver = "coordinator.ErrCloseOver"
	left := []string{"close_evidence/x"}
	for name, tc := range map[string]struct {
		graceful, force half
		want            outcome
	}{
		"completed": {takes(100 * ms), hangs,
			outcome{Row: row{Graceful: report.GracefulDone, Forced: report.ForcedNotNeeded, Elapsed: 100}, End: 100}},
		"a silent peer, cut": {obeys, takes(0),
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedDone, Elapsed: 950}, End: 950}},
		"a silent peer, no way to cut": {obeys, nil,
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedUnavailable, Elapsed: 950, Class: closeOver}, End: 950}},
		"a hung graceful half": {hangs, takes(0),
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedDone, Elapsed: 1000}, LeftBehind: left, End: 1000}},
		"both hung": {hangs, hangs,
			outcome{Row: row{Graceful: report.GracefulTimedOut, Forced: report.ForcedTimedOut, Elapsed: 1000}, LeftBehind: left, End: 1000}},
		"failed, no force half": {fails(100 * ms), nil,
			outcome{Row: row{Graceful: report.GracefulFailed, Forced: report.ForcedNotNeeded, Elapsed: 100, Class: errorString},
				Counts: report.Counts{Errors: 1}, End: 100}},
		"failed, then cut at once": {fails(100 * ms), takes(10 * ms),
			outcome{Row: row{Graceful: report.GracefulFailed, Forced: report.ForcedDone, Elapsed: 110, Class: errorString},
				Counts: report.Counts{Errors: 1}, End: 110}},
		"panicked, then the cut failed": {panics(100 * ms), fails(10 * ms),
			outcome{Row: row{Graceful: report.GracefulPanicked, Forced: report.ForcedFailed, Elapsed: 110, Class: errorString, Panicked: true},
				Counts: report.Counts{Errors: 1, Panics: 1}, End: 110}},
		"only a cut": {nil, takes(10 * ms),
			outcome{Row: row{Graceful: report.GracefulNotStarted, Forced: report.ForcedDone, Elapsed: 10}, End: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := single(t, coordinator.Action{Name: "x", Phase: coordinator.PhaseCloseEvidence, Graceful: tc.graceful, Force: tc.force}, nil)
				tc.want.Row.Phase, tc.want.Row.Name = "close_evidence", "x"
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestCloseEvidenceAfterAFullForcePhase: what is left until C is 52.5 ms, of which an eighth is the force halves'.
func TestCloseEvidenceAfterAFullForcePhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 4*sec, nil)
		b.register(t, coordinator.Action{Name: "orders", Phase: coordinator.PhaseDrain, Graceful: obeys, Force: hangs})
		b.register(t, coordinator.Action{Name: "broker", Phase: coordinator.PhaseCloseEvidence, Graceful: obeys, Force: takes(0)})
		b.Initiate(api)
		r := b.record(t)
		want := []span{{"close_admission", 0, 0}, {"drain", 0, 3000}, {"force", 3000, 760}, {"close_evidence", 3760, 45.937},
			{"dispose", 3805.937, 0}, {"publish", 3805.937, 0}}
		if diff := cmp.Diff(want, spans(r)); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
		leftBehind()
	})
}

// TestAnExpiredCloseStillCuts: no budget is left to ask anything, and the force half runs nevertheless.
func TestAnExpiredCloseStillCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 4*sec, func(b *bench, cfg *coordinator.Config) {
			cfg.OnInitiate = nil
			cfg.OnPhase = func(p coordinator.Phase, _ time.Time) {
				if p == coordinator.PhaseForce {
					time.Sleep(3820 * ms) // a machine that stood still until after C
				}
			}
		})
		asked := false
		b.register(t, coordinator.Action{Name: "broker", Phase: coordinator.PhaseCloseEvidence, Force: takes(0),
			Graceful: func(context.Context) error { asked = true; return nil }})
		b.Initiate(api)
		want := []row{{Phase: "close_evidence", Name: "broker", Graceful: report.GracefulNotStarted, Forced: report.ForcedDone, Began: 3820}}
		if diff := cmp.Diff(want, rows(b.record(t))); diff != "" || asked {
			t.Errorf("asked: %t; rows (-want +got):\n%s", asked, diff)
		}
	})
}

// TestRevokeComesBeforeTheOutcome: at F(A) the rights end first; what the force half then says is the outcome.
func TestRevokeComesBeforeTheOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		says error
		want report.ForcedOutcome
	}{
		"some did not come back":      {errIO, report.ForcedTimedOut},
		"all had come back after all": {nil, report.ForcedDone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 4*sec, nil)
				revoked := make(chan struct{})
				b.register(t, coordinator.Action{Name: "x", Phase: coordinator.PhaseDrain, Graceful: obeys,
					Force:  func(ctx context.Context) error { <-ctx.Done(); <-revoked; b.note("told"); return tc.says },
					Revoke: func() { b.note("revoke"); close(revoked) }})
				b.Initiate(api)
				r := b.record(t)
				if got := r.Phases[1].Actions[0].Forced; got != tc.want {
					t.Errorf("forced outcome %s, want %s", got, tc.want)
				}
				want := []string{"0s initiate 4s by Shutdown", "0s phase close_admission", "0s phase drain", "3s phase force",
					"3s force by deadline at 3s until 3.75s", "3.75s revoke", "3.75s told", "3.75s phase close_evidence",
					"3.75s phase dispose", "3.75s phase publish", "3.75s seal", "3.75s store"}
				if diff := cmp.Diff(want, b.lines()); diff != "" {
					t.Errorf("course (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestRevokeIsForWhatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 4*sec, nil)
		revoked := map[string]int{}
		add := func(name string, p coordinator.Phase, graceful, force half) {
			b.register(t, coordinator.Action{Name: name, Phase: p, Graceful: graceful, Force: force, Revoke: func() { revoked[name]++ }})
		}
		add("completed", coordinator.PhaseDrain, takes(0), nil)
		add("failed by itself", coordinator.PhaseDrain, fails(0), nil)
		add("forced", coordinator.PhaseDrain, obeys, takes(0))
		add("force failed", coordinator.PhaseDrain, obeys, fails(0))
		add("no force half", coordinator.PhaseDrain, obeys, nil)
		add("hung", coordinator.PhaseDrain, hangs, hangs)
		add("closed", coordinator.PhaseCloseEvidence, takes(0), nil)
		add("not closed", coordinator.PhaseCloseEvidence, obeys, hangs)
		b.Initiate(api)
		b.record(t)
		want := map[string]int{"force failed": 1, "no force half": 1, "hung": 1, "not closed": 1}
		if diff := cmp.Diff(want, revoked); diff != "" {
			t.Errorf("revoked (-want +got):\n%s", diff)
		}
		leftBehind()
	})
}

func TestAdvisoryActionsCountInNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 4*sec, nil)
		b.register(t, coordinator.Action{Name: "a", Phase: coordinator.PhaseDrain, Advisory: true, Graceful: obeys, Force: fails(0)})
		b.register(t, coordinator.Action{Name: "b", Phase: coordinator.PhaseDrain, Advisory: true, Graceful: panics(0)})
		b.Initiate(api)
		r := b.record(t)
		want := []row{
			{Phase: "drain", Name: "a", Graceful: report.GracefulTimedOut, Forced: report.ForcedFailed, Elapsed: 3000, Class: errorString, Advisory: true},
			{Phase: "drain", Name: "b", Graceful: report.GracefulPanicked, Forced: report.ForcedNotNeeded, Class: errorString, Panicked: true, Advisory: true},
		}
		if diff := cmp.Diff(want, rows(r)); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
		if r.Force != (report.Force{}) || r.Budget.ForceTUS != nil || r.Counts != (report.Counts{}) {
			t.Errorf("force %+v until %v, counts %+v; want none of it", r.Force, r.Budget.ForceTUS, r.Counts)
		}
	})
}
