package coordinator

import (
	"context"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
)

// Action is one thing a phase runs. Its halves run in goroutines of their own, which end when they return and are left behind
// when their time is over; a half that obeys its context is never left behind. A half may panic or call runtime.Goexit.
type Action struct {
	// Name is unique in its phase. Required.
	Name string
	// Phase is PhaseCloseAdmission, PhaseDrain or PhaseCloseEvidence.
	Phase Phase
	// Graceful ends the thing as it should be. It runs at most once. Its context ends with ErrGracefulOver, ErrForced or
	// ErrAbandoned; in close_evidence with ErrCloseOver or ErrAbandoned. What it returns after that is not what the action is
	// judged by. Nil means that there is no graceful half: Force always runs.
	Graceful func(ctx context.Context) error
	// Force ends it in what time is left, once the graceful half is cut or has run out of time; in close_evidence also when
	// the graceful half failed. It runs at most once, beside a graceful half that does not come back, and its context ends
	// with ErrForceOver (in close_evidence ErrCloseOver) or ErrAbandoned. What it returns shortly after that is still heard:
	// nil is completed, an error timed out. Nil means that there is no force half: where one is needed, the forced outcome is
	// "unavailable".
	Force func(ctx context.Context) error
	// Revoke is called at most once, when the action is given up and before its outcome is taken: at the end of the force
	// phase (an action of close_evidence: at the end of that), or when the shutdown is abandoned. It is not called for an action
	// that completed, or whose graceful half failed by itself. It must not block. Nil means that there is nothing to revoke.
	Revoke func()
	// Advisory actions are reported like all others, but count in nothing that is judged, force.used included.
	Advisory bool
}

func (a *Action) valid() bool {
	switch a.Phase {
	case PhaseCloseAdmission, PhaseDrain, PhaseCloseEvidence:
		return a.Name != "" && (a.Graceful != nil || a.Force != nil)
	}
	return false
}

// action is a registered Action with what became of it. Everything but the Action is guarded by the coordinator's lock.
//
// Both outcomes are empty until they are taken, and are never rewritten:
//
//	graceful   completed | failed | panicked          -> not_needed
//	graceful   timed_out | cut_by_force | not_started -> completed | failed | panicked | timed_out | unavailable
//
// In close_evidence failed and panicked go the second way if there is a force half.
type action struct {
	Action
	graceful, force half
	outcome         report.GracefulOutcome
	forced          report.ForcedOutcome
	failure         *report.Error
	ended           time.Time // when the last half came back, or the action was concluded without it
	concluded       bool      // nothing is waited for any more, and what comes is late
	revoked         bool
}

// half is one half of an action under way.
type half struct {
	began    time.Time // zero if it never did
	back     bool
	panicked bool
}

func (h *half) begun() bool   { return !h.began.IsZero() }
func (h *half) running() bool { return h.begun() && !h.back }

// idle reports whether no half of a is running.
func (a *action) idle() bool { return !a.graceful.running() && !a.force.running() }

// finished reports whether both outcomes are taken.
func (a *action) finished() bool { return a.outcome != "" && a.forced != "" }

// done reports whether the action needs no giving up: its force half completed, or none was needed.
func (a *action) done() bool {
	return a.outcome != "" && (a.forced == report.ForcedNotNeeded || a.forced == report.ForcedDone)
}

// wantsForce reports whether what became of the graceful half needs the other one.
func (a *action) wantsForce() bool {
	switch a.outcome {
	case report.GracefulTimedOut, report.GracefulCutByForce, report.GracefulNotStarted:
		return true
	case report.GracefulFailed, report.GracefulPanicked:
		return a.Phase == PhaseCloseEvidence && a.Force != nil
	}
	return false
}

// take takes the graceful outcome, and with it the forced one where no force half is wanted.
func (a *action) take(o report.GracefulOutcome) {
	a.outcome = o
	if !a.wantsForce() {
		a.forced = report.ForcedNotNeeded
	}
}

// cut takes the graceful outcome of an action that may not go on: o if it was begun.
func (a *action) cut(o report.GracefulOutcome) {
	switch {
	case a.outcome != "":
	case a.graceful.begun():
		a.take(o)
	default:
		a.take(report.GracefulNotStarted)
	}
}

// gracefulBack hears how the graceful half came back; cause is its context's, nil if that had not ended. A half that comes
// back after its context ended was unfinished when it did, whatever it returns.
func (a *action) gracefulBack(ret resources.Returned, failure *report.Error, cause error) {
	a.graceful.back, a.graceful.panicked = true, ret.Panicked
	if a.outcome == "" {
		a.take(gracefulOutcome(ret, cause))
	}
	if a.concluded {
		return
	}
	a.ended = ret.At
	if a.outcome == report.GracefulFailed || a.outcome == report.GracefulPanicked || a.Force == nil {
		a.fail(failure) // where there is a force half, that one knows more than a half that was cut
	}
}

func gracefulOutcome(ret resources.Returned, cause error) report.GracefulOutcome {
	switch {
	case cause == ErrAbandoned: // a force cuts under the lock, before anything can come back
		return report.GracefulCutByForce
	case cause != nil:
		return report.GracefulTimedOut
	case ret.Panicked:
		return report.GracefulPanicked
	case ret.Err != nil:
		return report.GracefulFailed
	default:
		return report.GracefulDone
	}
}

// forceBack hears how the force half came back. What it knows after its context ended still counts, until the action is
// concluded.
func (a *action) forceBack(ret resources.Returned, failure *report.Error, cause error) {
	a.force.back, a.force.panicked = true, ret.Panicked
	if a.concluded {
		return
	}
	a.ended = ret.At
	a.fail(failure)
	switch {
	case ret.Panicked:
		a.forced = report.ForcedPanicked
	case ret.Err == nil:
		a.forced = report.ForcedDone
	case cause != nil:
		a.forced = report.ForcedTimedOut
	default:
		a.forced = report.ForcedFailed
	}
}

// conclude takes the outcomes that are still open and ends all waiting for the action.
func (a *action) conclude(now time.Time) {
	if a.concluded {
		return
	}
	if !a.idle() {
		a.ended = now
	}
	a.concluded = true
	a.cut(report.GracefulCutByForce)
	switch {
	case a.forced != "":
	case a.force.begun():
		a.forced = report.ForcedTimedOut
	default:
		a.forced = report.ForcedUnavailable
	}
}

func (a *action) fail(failure *report.Error) {
	switch {
	case failure == nil:
	case a.failure == nil:
		a.failure = failure
	default:
		a.failure = &report.Error{Class: a.failure.Class, Text: report.Redact(a.failure.Text + "; " + failure.Text)}
	}
}

// row is the action as the report shows it.
func (a *action) row(start time.Time) report.Action {
	row := report.Action{
		Name: a.Name, Graceful: a.outcome, Forced: a.forced, Advisory: a.Advisory,
		Panicked: a.graceful.panicked || a.force.panicked, Error: a.failure,
	}
	began := a.graceful.began
	if began.IsZero() {
		began = a.force.began
	}
	if !began.IsZero() {
		row.BeganTUS, row.ElapsedUS = began.Sub(start).Microseconds(), max(a.ended.Sub(began), 0).Microseconds()
	}
	return row
}

// begin starts a half. The caller holds the lock; the goroutine is the coordinator's until f returns.
func (c *Coordinator) begin(ctx context.Context, h *half, f func(context.Context) error,
	back func(ret resources.Returned, failure *report.Error, cause error)) {
	h.began = deadline.Now()
	resources.Call(func() error { return f(ctx) }, func(ret resources.Returned) {
		failure, cause := report.NewError(ret.Err), context.Cause(ctx)
		c.mu.Lock()
		back(ret, failure, cause)
		c.mu.Unlock()
		c.poke()
	})
}
