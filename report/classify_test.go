package report_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/report/reporttest"
)

func TestWalkthrough(t *testing.T) {
	for _, tc := range walkthrough {
		t.Run(tc.name, func(t *testing.T) {
			raw, err := report.Seal(tc.build())
			if err != nil {
				t.Fatal(err)
			}
			d := reporttest.Check(t, raw)
			got := []any{d.Completion, d.ExitCode, d.ExitReason, d.Messages.Verdict, d.QueueDrainReconciled, d.QueueCloseReconciled}
			want := []any{tc.completion, tc.code, tc.reason, tc.messages, tc.drain, tc.close}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var codes []string
			for _, f := range d.Findings {
				if !slices.Contains(codes, f.Code) {
					codes = append(codes, f.Code)
				}
			}
			if diff := cmp.Diff(tc.codes, codes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRules has a row for every clause of the rules and for what stands next to it; each changes the clean report.
func TestRules(t *testing.T) {
	type doc = *report.ShutdownReport
	set := func(name string, flags ...bool) func(doc) {
		return func(d doc) {
			r := resource(d, name)
			r.Started, r.Terminal, r.Succeeded = flags[0], flags[1], flags[2]
		}
	}
	act := func(graceful report.GracefulOutcome, forced report.ForcedOutcome) func(doc) {
		return func(d doc) { a := action(d, "dispose", "postgres"); a.Graceful, a.Forced = graceful, forced }
	}
	all := func(changes ...func(doc)) func(doc) {
		return func(d doc) {
			for _, change := range changes {
				change(d)
			}
		}
	}
	cohort := func(s report.Sheet) func(doc) { return func(d doc) { sheets(d, s) } }
	forced := func(d doc) { force(d, report.ForceDeadline, 28*second, 29*second, 0) }
	panicked := func(d doc) { d.Counts.Panics = 1 }
	startup := func(d doc) { d.Trigger.Kind, d.Trigger.Detail = report.TriggerStartup, report.StartupBrokerUnavailable }
	advisory := func(d doc) {
		action(d, "dispose", "postgres").Advisory, resource(d, "postgres").Advisory = true, true
	}
	hung := all(set("postgres", true, false, false), act(report.GracefulTimedOut, report.ForcedUnavailable))
	bad := all(set("postgres", true, true, false), act(report.GracefulFailed, report.ForcedNotNeeded))
	withheld := func(d doc) {
		*resource(d, "postgres") = report.Resource{Name: "postgres", Kind: "pool", Owned: true, WithheldBy: "a handler"}
	}
	abandonedTask := set("reaper", true, false, false)
	abandonedOne := cohort(report.Sheet{Received: 1, Started: 1, Abandoned: 1})
	unresolved := cohort(report.Sheet{Received: 1, Started: 1, Unresolved: 1})
	reset := func(d doc) {
		r := resource(d, "amqp-connection:1")
		r.Succeeded, r.Evidence = false, []report.Evidence{{Kind: "peer_reset"}}
	}

	for _, tc := range []struct {
		name       string
		change     func(doc)
		completion report.Completion
		code       int
		reason     report.ExitReason
	}{
		// Rule 1: incomplete.
		{"owned and started, not terminal", set("postgres", true, false, false), report.Incomplete, 1, report.ReasonIncomplete},
		{"a borrowed one counts in nothing", func(d doc) { resource(d, "config").Started = true }, report.GracefulCompleted, 0, report.ReasonClean},
		{"withheld", withheld, report.Incomplete, 1, report.ReasonIncomplete},
		{"forced timed out", act(report.GracefulCutByForce, report.ForcedTimedOut), report.Incomplete, 1, report.ReasonIncomplete},
		{"forced unavailable", act(report.GracefulTimedOut, report.ForcedUnavailable), report.Incomplete, 1, report.ReasonIncomplete},
		{"timed out with nothing forced", act(report.GracefulTimedOut, report.ForcedNotNeeded), report.Incomplete, 1, report.ReasonIncomplete},
		{"cut by force with nothing forced", act(report.GracefulCutByForce, report.ForcedNotNeeded), report.Incomplete, 1, report.ReasonIncomplete},
		{"not started and not needed", act(report.GracefulNotStarted, report.ForcedNotNeeded), report.Incomplete, 1, report.ReasonIncomplete},
		{"no outcome at all", act("", ""), report.Incomplete, 1, report.ReasonIncomplete},
		{"an outcome of no known name", act(report.GracefulDone, "hoped_for"), report.Incomplete, 1, report.ReasonIncomplete},
		{"cut by force, completed by it", act(report.GracefulCutByForce, report.ForcedDone), report.GracefulCompleted, 0, report.ReasonClean},
		{"timed out, completed by force", act(report.GracefulTimedOut, report.ForcedDone), report.GracefulCompleted, 0, report.ReasonClean},
		{"never begun, completed by force", act(report.GracefulNotStarted, report.ForcedDone), report.GracefulCompleted, 0, report.ReasonClean},
		{"a delivery abandoned", abandonedOne, report.Incomplete, 3, report.ReasonDrainCutShort},
		{"a delivery unresolved", unresolved, report.Incomplete, 1, report.ReasonIncomplete},
		{"unresolved before the trigger", func(d doc) {
			for _, s := range []*report.Sheet{&d.Subscriptions[0].SinceStart, &d.Deliveries.SinceStart} {
				s.Add(report.Sheet{Received: 1, Started: 1, Unresolved: 1})
			}
		}, report.GracefulCompleted, 0, report.ReasonClean},
		{"cohort not conserved", func(d doc) { d.Deliveries.InShutdown.Received++ }, report.Incomplete, 1, report.ReasonIncomplete},
		{"cohort in flight", cohort(report.Sheet{Received: 1, Started: 1, InFlight: 1}), report.Incomplete, 1, report.ReasonIncomplete},
		{"since start not conserved", func(d doc) { d.Deliveries.SinceStart.Acked-- }, report.Incomplete, 1, report.ReasonIncomplete},
		{"a subscription not conserved", func(d doc) { d.Subscriptions[0].InShutdown.Received++ }, report.Incomplete, 1, report.ReasonIncomplete},
		{"runtime not joined", func(d doc) { d.RuntimeJoined = false }, report.Incomplete, 1, report.ReasonIncomplete},
		{"connection cut by us", set("amqp-connection:1", true, false, false), report.Incomplete, 1, report.ReasonIncomplete},
		{"task abandoned", abandonedTask, report.Incomplete, 3, report.ReasonDrainCutShort},

		// Rule 2: failed.
		{"trigger startup", startup, report.Failed, 69, report.ReasonBrokerUnavailable},
		{"trigger fault", func(d doc) { d.Trigger.Kind = report.TriggerFault }, report.Failed, 1, report.ReasonFailed},
		{"action failed", act(report.GracefulFailed, report.ForcedNotNeeded), report.Failed, 1, report.ReasonFailed},
		{"action panicked", act(report.GracefulPanicked, report.ForcedNotNeeded), report.Failed, 1, report.ReasonFailed},
		{"action failed, its force half succeeded", act(report.GracefulFailed, report.ForcedDone), report.Failed, 1, report.ReasonFailed},
		{"force half failed", act(report.GracefulTimedOut, report.ForcedFailed), report.Failed, 1, report.ReasonFailed},
		{"force half panicked", act(report.GracefulCutByForce, report.ForcedPanicked), report.Failed, 1, report.ReasonFailed},
		{"resource failed", set("postgres", true, true, false), report.Failed, 1, report.ReasonFailed},
		{"resource panicked", func(d doc) { resource(d, "postgres").Panicked = true }, report.Failed, 1, report.ReasonFailed},
		{"task failed", set("reaper", true, true, false), report.Failed, 1, report.ReasonFailed},
		{"connection reset by the peer", reset, report.Failed, 1, report.ReasonFailed},
		{"channel closed by its connection's close-ok", func(d doc) {
			resource(d, "amqp-channel:orders").Evidence = []report.Evidence{{Kind: "close_written"}, {Kind: "connection_close_ok"}}
		}, report.GracefulCompleted, 0, report.ReasonClean},

		// Rule 3 and 4.
		{"forced", forced, report.ForcedCompleted, 3, report.ReasonDrainCutShort},
		{"context cancelled", func(d doc) { d.Trigger.Kind = report.TriggerContext }, report.GracefulCompleted, 0, report.ReasonClean},

		// Advisory: none of it counts.
		{"advisory hung", all(hung, advisory), report.GracefulCompleted, 0, report.ReasonClean},
		{"advisory failed", all(bad, advisory), report.GracefulCompleted, 0, report.ReasonClean},
		{"advisory withheld", all(withheld, func(d doc) { resource(d, "postgres").Advisory = true }), report.GracefulCompleted, 0, report.ReasonClean},
		{"advisory panicked", all(func(d doc) { resource(d, "postgres").Panicked = true }, advisory), report.GracefulCompleted, 0, report.ReasonClean},
		{"advisory action alone", all(bad, func(d doc) { action(d, "dispose", "postgres").Advisory = true }), report.Failed, 1, report.ReasonFailed},
		{"advisory resource alone", all(bad, func(d doc) { resource(d, "postgres").Advisory = true }), report.Failed, 1, report.ReasonFailed},

		// Precedence.
		{"incomplete before failed", all(bad, unresolved), report.Incomplete, 1, report.ReasonIncomplete},
		{"incomplete before startup", all(hung, startup), report.Incomplete, 69, report.ReasonBrokerUnavailable},
		{"incomplete before forced", all(forced, hung), report.Incomplete, 3, report.ReasonDrainCutShort},
		{"failed before forced", all(forced, bad), report.Failed, 3, report.ReasonDrainCutShort},
		{"startup code before force", all(forced, startup), report.Failed, 69, report.ReasonBrokerUnavailable},
		{"startup code before panic", all(panicked, startup), report.Failed, 69, report.ReasonBrokerUnavailable},
		{"force before panic", all(forced, panicked), report.ForcedCompleted, 3, report.ReasonDrainCutShort},
		{"abandoned before panic", all(abandonedOne, panicked), report.Incomplete, 3, report.ReasonDrainCutShort},
		{"abandoned task before panic", all(abandonedTask, panicked), report.Incomplete, 3, report.ReasonDrainCutShort},
		{"panic before incomplete", all(hung, panicked), report.Incomplete, 2, report.ReasonPanic},
		{"panic before failed", all(bad, panicked), report.Failed, 2, report.ReasonPanic},
		{"panic before clean", panicked, report.GracefulCompleted, 2, report.ReasonPanic},
		{"startup by configuration", all(startup, func(d doc) { d.Trigger.Detail = report.StartupConfiguration }), report.Failed, 78, report.ReasonConfiguration},
		{"startup by anything else", all(startup, func(d doc) { d.Trigger.Detail = "setup" }), report.Failed, 1, report.ReasonStartup},
		{"recovered", all(forced, func(d doc) { d.Recovered, d.RuntimeJoined = true, false }), report.Incomplete, 1, report.ReasonKilled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := clean()
			tc.change(d)
			report.Judge(d)
			got := []any{d.Completion, d.Success, d.ExitCode, d.ExitReason}
			success := tc.completion == report.GracefulCompleted || tc.completion == report.ForcedCompleted
			if diff := cmp.Diff([]any{tc.completion, success, tc.code, tc.reason}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestJudgeDerives(t *testing.T) {
	type derived struct{ Accounted, Complete, Drain, Close bool }
	for name, tc := range map[string]struct {
		change   func(*report.ShutdownReport)
		want     derived
		messages report.Verdict
	}{
		"clean": {func(*report.ShutdownReport) {}, derived{true, true, true, true}, report.VerdictClean},
		"interrupted": {func(d *report.ShutdownReport) {
			sheets(d, report.Sheet{Received: 2, Started: 2, Acked: 1, Interrupted: 1})
		},
			derived{true, true, true, true}, report.VerdictDuplicates},
		"unresolved": {func(d *report.ShutdownReport) {
			sheets(d, report.Sheet{Received: 2, Started: 2, Interrupted: 1, Unresolved: 1})
		}, derived{true, true, false, false}, report.VerdictUnknown},
		"in flight": {func(d *report.ShutdownReport) { sheets(d, report.Sheet{Received: 1, InFlight: 1}) }, derived{true, true, false, false}, report.VerdictUnknown},
		"a loop not joined": {func(d *report.ShutdownReport) { d.Subscriptions[0].LoopJoined = false },
			derived{true, true, false, false}, report.VerdictClean},
		"a channel without close-ok": {func(d *report.ShutdownReport) { resource(d, "amqp-channel:orders").Succeeded = false },
			derived{true, true, true, false}, report.VerdictClean},
		"a connection whose close never began": {func(d *report.ShutdownReport) {
			r := resource(d, "amqp-connection:1")
			r.Started, r.Terminal, r.Succeeded = false, false, false
		}, derived{true, true, true, false}, report.VerdictClean},
		"an action without outcome": {func(d *report.ShutdownReport) { action(d, "drain", "orders").Graceful = "" }, derived{false, false, true, true}, report.VerdictClean},
		"an action failed":          {func(d *report.ShutdownReport) { action(d, "drain", "orders").Graceful = report.GracefulFailed }, derived{true, false, true, true}, report.VerdictClean},
		"an advisory action failed": {func(d *report.ShutdownReport) {
			a := action(d, "drain", "orders")
			a.Graceful, a.Advisory = report.GracefulFailed, true
		}, derived{true, false, true, true}, report.VerdictClean},
		"an action completed by force": {func(d *report.ShutdownReport) {
			a := action(d, "drain", "orders")
			a.Graceful, a.Forced = report.GracefulFailed, report.ForcedDone
		}, derived{true, true, true, true}, report.VerdictClean},
	} {
		t.Run(name, func(t *testing.T) {
			d := clean()
			tc.change(d)
			report.Judge(d)
			got := derived{d.CoordinatorAccounted, d.CoordinatorComplete, d.QueueDrainReconciled, d.QueueCloseReconciled}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if d.Messages.Verdict != tc.messages {
				t.Errorf("messages %s, want %s", d.Messages.Verdict, tc.messages)
			}
		})
	}
}

func TestRollUp(t *testing.T) {
	broker, configuration, other := startFailed(report.StartupBrokerUnavailable), startFailed(report.StartupConfiguration), startFailed("setup")
	for name, tc := range map[string]struct {
		reports []*report.ShutdownReport
		want    int
	}{
		"none":                    {nil, 0},
		"all clean":               {[]*report.ShutdownReport{clean(), clean()}, 0},
		"the highest":             {[]*report.ShutdownReport{closerError(), deadline(), closerPanic()}, 3},
		"a startup wins over 3":   {[]*report.ShutdownReport{deadline(), other}, 1},
		"a startup wins over all": {[]*report.ShutdownReport{deadline(), broker, clean()}, 69},
		"the highest startup":     {[]*report.ShutdownReport{broker, configuration, other}, 78},
	} {
		if got := report.RollUp(tc.reports...); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// TestJudgeHolds: over any flags, outcomes and sheets, success and findings agree, and judging again changes nothing.
func TestJudgeHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := clean()
		for i := range d.Resources {
			r := &d.Resources[i]
			level := rapid.IntRange(0, 4).Draw(t, "level")
			r.Owned, r.Started, r.Terminal, r.Succeeded = level > 0, level > 1, level > 2, level > 3
			r.Advisory = rapid.Bool().Draw(t, "advisory")
			if level == 1 && rapid.Bool().Draw(t, "withheld") {
				r.WithheldBy = "a handler"
			}
			r.Panicked = level == 3 && rapid.Bool().Draw(t, "panicked")
		}
		for i := range d.Phases {
			for j := range d.Phases[i].Actions {
				a := &d.Phases[i].Actions[j]
				a.Graceful = rapid.SampledFrom([]report.GracefulOutcome{"completed", "completed", "completed", "failed", "panicked", "timed_out", "cut_by_force", "not_started"}).Draw(t, "graceful")
				a.Forced = rapid.SampledFrom([]report.ForcedOutcome{"not_needed", "completed", "failed", "panicked", "timed_out", "unavailable"}).Draw(t, "forced")
				a.Advisory = rapid.Bool().Draw(t, "advisory")
			}
		}
		few := rapid.Uint64Range(0, 1)
		s := report.Sheet{Acked: few.Draw(t, "acked"), Interrupted: few.Draw(t, "interrupted"), Unresolved: few.Draw(t, "unresolved"), Abandoned: few.Draw(t, "abandoned")}
		s.Received = s.Placed() + few.Draw(t, "lost")
		sheets(d, s)
		d.RuntimeJoined = rapid.Bool().Draw(t, "joined")
		d.Trigger.Kind = rapid.SampledFrom([]report.TriggerKind{"signal", "api", "fault", "startup"}).Draw(t, "trigger")

		report.Judge(d)
		errors := slices.ContainsFunc(d.Findings, func(f report.Finding) bool { return f.Severity == report.SeverityError })
		if d.Success == errors {
			t.Fatalf("success %t, with findings %+v", d.Success, d.Findings)
		}
		if (d.ExitCode == 0) != (d.Success && !d.Force.Used) {
			t.Fatalf("exit code %d of %s", d.ExitCode, d.Completion)
		}
		again := report.Clone(d)
		report.Judge(again)
		if diff := cmp.Diff(d, again); diff != "" {
			t.Fatalf("judged twice (-once +twice):\n%s", diff)
		}
	})
}
