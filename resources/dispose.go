package resources

import (
	"context"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
)

// ErrOverran ends the context of a closer that has used up its time, and is the error of one that did not come back.
var ErrOverran error = &sentinel{"resources.ErrOverran", "the closer has used up its time"}

// Plan says how to dispose.
type Plan struct {
	// Root bounds the disposal. Required.
	Root *deadline.Root
	// WithheldBy names what still runs. If it is not empty, every closer that is not Independent is withheld.
	WithheldBy string
}

// Disposal is what became of one closer.
type Disposal struct {
	Name     string
	Advisory bool
	// Began is zero for a closer that was not called.
	Began   time.Time
	Elapsed time.Duration
	// Outcome and Forced are, together, one of: {completed, not_needed}, {failed, not_needed}, {panicked, not_needed};
	// {timed_out, unavailable} after its time was used up; {cut_by_force, unavailable} after ctx ended; {not_started,
	// unavailable} if it was withheld, or nothing was left of the budget, or ctx had ended.
	Outcome report.GracefulOutcome
	Forced  report.ForcedOutcome
	// Err is what the closer returned, a *PanicError, ErrGoexit, or ErrOverran or ctx's cause for one that did not come back.
	Err      error
	Panicked bool
}

// lastWord is how long before the end of its time a closer's context ends, so that one that obeys is seen to come back.
const lastWord = 10 * time.Millisecond

// Dispose freezes the registry and ends what Own took over, one closer after the other in reverse order of acquisition,
// telemetry after everything else. Each closer runs in a goroutine of its own, which ends when the closer returns and is
// left behind when the closer's time is used up: its limit, and at most an equal part of what is left until the root's
// dispose instant (telemetry: at most the reserve, until the telemetry instant). An expired budget starts nothing.
//
// It returns one Disposal per closer in order of disposal. It blocks for at most what the root allows, and returns at once
// when ctx ends. Nothing is closed twice: a second call, concurrent or later, does nothing and returns nil.
func (r *Registry) Dispose(ctx context.Context, p Plan) []Disposal {
	ordinary, telemetry := r.claim(p.WithheldBy)
	rows := r.disposeEach(ctx, ordinary, func(limit time.Duration, togo int) time.Duration {
		return deadline.Share(deadline.Now(), p.Root.Instants().Dispose, limit, togo)
	})
	return append(rows, r.disposeEach(ctx, telemetry, func(limit time.Duration, togo int) time.Duration {
		now, in := deadline.Now(), p.Root.Instants()
		return min(in.TelemetryShare(now), deadline.Share(now, in.Telemetry, limit, togo))
	})...)
}

// claim takes every closer out of the reach of any other Dispose, in order of disposal, and marks those that are withheld.
func (r *Registry) claim(withheldBy string) (ordinary, telemetry []*item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = true
	if r.disposed {
		return nil, nil
	}
	r.disposed = true
	for i := len(r.items) - 1; i >= 0; i-- {
		it := r.items[i]
		switch {
		case it.close == nil:
			continue
		case it.opts.telemetry:
			telemetry = append(telemetry, it)
		default:
			ordinary = append(ordinary, it)
		}
		if !it.opts.independent {
			it.withheldBy = withheldBy
		}
	}
	return ordinary, telemetry
}

func (r *Registry) disposeEach(ctx context.Context, items []*item, share func(limit time.Duration, togo int) time.Duration) []Disposal {
	togo := 0
	for _, it := range items {
		if it.withheldBy == "" {
			togo++
		}
	}
	var rows []Disposal
	for _, it := range items {
		d := Disposal{Name: it.name, Advisory: it.opts.advisory, Outcome: report.GracefulNotStarted, Forced: report.ForcedUnavailable}
		if it.withheldBy == "" {
			if budget := share(it.opts.limit, togo); budget > 0 && ctx.Err() == nil {
				r.disposeOne(ctx, it, budget, &d)
			}
			togo--
		}
		rows = append(rows, d)
	}
	return rows
}

// disposeOne calls one closer and waits for it as long as budget allows.
func (r *Registry) disposeOne(ctx context.Context, it *item, budget time.Duration, d *Disposal) {
	d.Began = deadline.Now()
	end := d.Began.Add(budget)
	work, release := deadline.Context(ctx, end.Add(-min(budget/8, lastWord)), ErrOverran)
	defer release()
	patience, stop := deadline.Context(ctx, end, ErrOverran)
	defer stop()

	r.mu.Lock()
	it.begin(d.Began)
	r.mu.Unlock()
	var ret Returned // valid once back is closed
	var late bool
	back := make(chan struct{})
	Call(func() error { return it.close(work) }, func(got Returned) {
		ret, late = got, work.Err() != nil
		if r.returned(it, got) {
			close(back)
		}
	})
	select {
	case <-back:
	case <-patience.Done():
		if cause := context.Cause(patience); r.giveUp(it, cause) {
			d.Elapsed, d.Err, d.Outcome = deadline.Since(d.Began), cause, overrun(ctx)
			return
		}
		<-back // it came back in this very moment
	}
	d.Elapsed, d.Err, d.Panicked = ret.At.Sub(d.Began), ret.Err, ret.Panicked
	switch {
	case ret.Err == nil:
		d.Outcome, d.Forced = report.GracefulDone, report.ForcedNotNeeded
	case ret.Panicked:
		d.Outcome, d.Forced = report.GracefulPanicked, report.ForcedNotNeeded
	case late:
		d.Outcome = overrun(ctx)
	default:
		d.Outcome, d.Forced = report.GracefulFailed, report.ForcedNotNeeded
	}
}

// overrun is the outcome of a closer that did not end by itself: cut if the disposal was, and late otherwise.
func overrun(ctx context.Context) report.GracefulOutcome {
	if ctx.Err() != nil {
		return report.GracefulCutByForce
	}
	return report.GracefulTimedOut
}

// returned records how a closer came back and reports whether somebody still waits for it. A late end is an observation of
// the resource, which is terminal now; it says nothing of success, since the closer had been told to give up.
func (r *Registry) returned(it *item, ret Returned) bool {
	failure := report.NewError(ret.Err)
	seen := observation{kind: evidenceReturned, at: ret.At}
	switch {
	case ret.Panicked:
		seen.kind = evidencePanicked
	case ret.Err == ErrGoexit:
		seen.kind = evidenceGoexit
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if it.gaveUp.IsZero() {
		it.end(ret, failure)
		it.evidence.add(seen)
		return true
	}
	seen.kind, seen.detail = evidenceLateEnd, seen.kind
	if failure != nil {
		seen.detail += ": " + failure.Text
	}
	it.evidence.add(seen)
	if it.stage.advance(stageTerminal) {
		it.ended, it.panicked = ret.At, ret.Panicked
	}
	return false
}

// giveUp stops waiting for a closer, unless it has come back.
func (r *Registry) giveUp(it *item, cause error) bool {
	failure := report.NewError(cause)
	r.mu.Lock()
	defer r.mu.Unlock()
	if it.stage.terminal() {
		return false
	}
	it.gaveUp, it.failure = deadline.Now(), failure
	return true
}
