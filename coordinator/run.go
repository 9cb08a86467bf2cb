package coordinator

import (
	"context"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
)

const (
	maxLastWord = 10 * time.Millisecond // for halves to say what they know after the force phase
	maxCut      = 50 * time.Millisecond // kept of close evidence for the force halves
	lateStore   = 5 * time.Millisecond  // with less than this left there is no time to store anything
	leastStore  = 40 * time.Millisecond // what storing gets then
)

type phaseStart struct {
	phase Phase
	began time.Time
}

// run is the whole life of a shutdown: every phase in order, whatever became of the one before. Its goroutine is owned by the
// Coordinator and joined by Done. When the shutdown is abandoned each phase that is left ends at once.
func (c *Coordinator) run() {
	defer close(c.done)
	c.runGraceful(PhaseCloseAdmission)
	c.runGraceful(PhaseDrain)
	c.runForce()
	c.runCloseEvidence()
	c.giveUp(func(*action) bool { return true }, 0) // after an abandonment; otherwise nothing is open any more
	c.runDispose()
	c.publish()
}

func (c *Coordinator) enter(p Phase) time.Time {
	now := deadline.Now()
	c.mu.Lock()
	c.phase = p
	c.phases = append(c.phases, phaseStart{p, now})
	cut := c.abandoned && p != PhasePublish
	c.mu.Unlock()
	if f := c.cfg.OnPhase; f != nil && !cut {
		c.callback("OnPhase", func() { f(p, now) })
	}
	return now
}

// await returns when ready, which is asked under the lock, says so, or when ctx ends.
func (c *Coordinator) await(ctx context.Context, ready func() bool) {
	for {
		c.mu.Lock()
		ok := ready()
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return
		}
	}
}

// poke tells await that something came back.
func (c *Coordinator) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// runGraceful runs the graceful halves of close_admission or drain, until they are back or may not go on.
func (c *Coordinator) runGraceful(p Phase) {
	c.enter(p)
	ctx, release := c.root.Context(c.graceful, func(in deadline.Instants) time.Time { return in.Graceful }, ErrGracefulOver)
	defer release(errPhaseOver)
	of := func(a *action) bool { return a.Phase == p }
	c.mu.Lock()
	if ctx.Err() == nil {
		c.each(of, func(a *action) { c.beginGraceful(ctx, a) })
	}
	c.mu.Unlock()
	c.await(ctx, func() bool { return !c.anyOf(func(a *action) bool { return of(a) && !a.idle() }) })
}

// runForce gives the deadline's notice if anything is unfinished, runs the force halves, and waits for everything to come back
// until F(A). What does not is given up.
func (c *Coordinator) runForce() {
	c.enter(PhaseForce)
	c.mu.Lock()
	if !c.notice.given() && !c.abandoned {
		c.giveNotice(report.ForceDeadline, c.root.Instants().Graceful, report.GracefulTimedOut)
	}
	n := c.notice
	c.mu.Unlock()
	if !n.given() {
		n.at = deadline.Now() // only what has no graceful half is left, if that
	}
	end := c.root.ForceEnd(n.at)
	if f := c.cfg.OnForce; f != nil && n.used {
		c.callback("OnForce", func() { f(n.cause, n.at, end) })
	}
	ctx, release := deadline.Context(c.life, end, ErrForceOver)
	defer release()
	c.mu.Lock()
	c.each((*action).forceable, func(a *action) { c.beginForce(ctx, a) })
	c.mu.Unlock()
	c.await(ctx, c.idle((*action).forceable))
	c.giveUp((*action).forceable, min(maxLastWord, c.root.Instants().Close.Sub(end)/4))
}

// runCloseEvidence runs its graceful halves so that each force half still fits in before the end, and each force half as soon
// as it is wanted.
func (c *Coordinator) runCloseEvidence() {
	began := c.enter(PhaseCloseEvidence)
	if c.life.Err() != nil {
		return
	}
	notice, lastCall, end := closeInstants(c.root.Instants(), began)
	work, release := deadline.Context(c.life, notice, ErrCloseOver)
	defer release()
	cut, releaseCut := deadline.Context(c.life, lastCall, ErrCloseOver)
	defer releaseCut()
	over, releaseOver := deadline.Context(c.life, end, ErrCloseOver)
	defer releaseOver()

	of := func(a *action) bool { return a.Phase == PhaseCloseEvidence }
	idle := c.idle(of)
	forced := func() bool {
		c.each(of, func(a *action) { c.beginForce(cut, a) })
		return idle()
	}
	c.mu.Lock()
	c.each(of, func(a *action) {
		if a.Graceful != nil && work.Err() == nil {
			c.beginGraceful(work, a)
		} else {
			a.take(report.GracefulNotStarted)
		}
	})
	c.mu.Unlock()
	c.await(work, forced)
	c.mu.Lock()
	if !c.abandoned {
		c.each(of, func(a *action) { a.cut(report.GracefulTimedOut) })
	}
	c.mu.Unlock()
	c.await(over, forced)
	c.giveUp(of, 0)
}

// closeInstants returns when the contexts of the graceful and of the force halves end, the latter a little before the phase, so
// that a half that obeys is heard, and when the phase does. Without a budget nothing may be asked any more; a cut takes no
// time and gets a moment.
func closeInstants(in deadline.Instants, began time.Time) (graceful, force, end time.Time) {
	end = in.CloseEnd(began)
	if window := min(end.Sub(began)/8, maxCut); window > 0 {
		return end.Add(-window), end.Add(-window / 8), end
	}
	end = began.Add(min(max(in.Hard.Sub(began), 0)/8, maxCut))
	return began, end, end
}

func (c *Coordinator) runDispose() {
	c.enter(PhaseDispose)
	withheldBy := ""
	if f := c.cfg.Withhold; f != nil {
		withheldBy = "unknown" // what fails to say so may still run
		c.callback("Withhold", func() { withheldBy = f() })
	}
	rows := c.cfg.Resources.Dispose(c.life, resources.Plan{Root: c.root, WithheldBy: withheldBy})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disposals = rows
}

func (c *Coordinator) publish() {
	c.enter(PhasePublish)
	c.mu.Lock()
	record := c.record(deadline.Now())
	c.final = true
	c.mu.Unlock()
	if f := c.cfg.Seal; f != nil {
		c.callback("Seal", func() { f(record) })
	}
	close(c.sealed)
	f := c.cfg.Store
	if f == nil {
		return
	}
	// A process that was frozen beyond its deadline has no time left and a report to keep: it gets a moment all the same.
	until := c.root.Instants().Hard
	if deadline.Until(until) < lateStore {
		until = deadline.Now().Add(leastStore)
	}
	ctx, release := deadline.Context(context.Background(), until, ErrHardOver)
	defer release()
	back := make(chan struct{})
	resources.Call(func() error { f(ctx); return nil }, func(ret resources.Returned) {
		c.failed("Store", ret)
		close(back)
	})
	select {
	case <-back:
	case <-ctx.Done():
	}
}

// each calls do for every action that matches, in order of registration. c.mu is held.
func (c *Coordinator) each(match func(*action) bool, do func(*action)) {
	for _, a := range c.actions {
		if match(a) {
			do(a)
		}
	}
}

// idle returns what await asks: whether every action that matches has both outcomes and no half running.
func (c *Coordinator) idle(match func(*action) bool) func() bool {
	return func() bool {
		return !c.anyOf(func(a *action) bool { return match(a) && !(a.finished() && a.idle()) })
	}
}

// beginGraceful starts a's graceful half, if it has one. c.mu is held.
func (c *Coordinator) beginGraceful(ctx context.Context, a *action) {
	if a.Graceful != nil && a.outcome == "" {
		c.begin(ctx, &a.graceful, a.Graceful, a.gracefulBack)
	}
}

// beginForce starts a's force half once, if it is wanted and the shutdown goes on. c.mu is held.
func (c *Coordinator) beginForce(ctx context.Context, a *action) {
	switch {
	case c.abandoned || !a.wantsForce() || a.forced != "" || a.force.begun():
	case a.Force == nil:
		a.forced = report.ForcedUnavailable
	default:
		c.begin(ctx, &a.force, a.Force, a.forceBack)
	}
}

// giveUp ends the waiting for the actions that match: what did not end is revoked, then gets a last moment to say what it
// knows, and then its outcomes are taken.
func (c *Coordinator) giveUp(match func(*action) bool, moment time.Duration) {
	var revoke []*action
	c.mu.Lock()
	c.each(match, func(a *action) {
		if !a.done() && !a.revoked && a.Revoke != nil {
			a.revoked = true
			revoke = append(revoke, a)
		}
	})
	c.mu.Unlock()
	for _, a := range revoke {
		c.callback("Revoke of "+a.Name, a.Revoke)
	}
	if moment > 0 {
		ctx, release := deadline.Timeout(c.life, moment, ErrForceOver)
		defer release()
		c.await(ctx, c.idle(match))
	}
	now := deadline.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.each(match, func(a *action) { a.conclude(now) })
}
