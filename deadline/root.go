package deadline

import (
	"context"
	"sync"
	"time"
)

// Root is the one deadline of a shutdown: anchored once, never renewed, shortened only by an explicit force. It is safe
// for concurrent use.
type Root struct {
	budget Budget

	mu     sync.Mutex
	in     Instants
	limits map[*limit]struct{}
}

// Anchor starts the clock of a shutdown at start.
func (b Budget) Anchor(start time.Time) *Root {
	return &Root{budget: b, in: b.Plan(start), limits: make(map[*limit]struct{})}
}

// Budget returns the plan the root was anchored with.
func (r *Root) Budget() Budget { return r.budget }

// Instants returns the deadlines as they stand now.
func (r *Root) Instants() Instants {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.in
}

// Left returns how much of the whole shutdown is left, never negative.
func (r *Root) Left() time.Duration { return max(Until(r.Instants().Hard), 0) }

// ForceAt shortens the root for an explicit force at the instant at: hard becomes min(hard, at+reserve), graceful
// min(graceful, at), and everything derived from them follows. It never lengthens anything; later calls can only shorten
// further. Contexts made by [Root.Context] follow at once.
func (r *Root) ForceAt(at time.Time) Instants {
	r.mu.Lock()
	if at.Before(r.in.Start) {
		at = r.in.Start
	}
	hard := Earlier(r.in.Hard, at.Add(r.in.Reserve))
	graceful := Earlier(r.in.Graceful, at)
	r.in = r.budget.split(r.in.Start, graceful, hard)
	in := r.in
	limits := make([]*limit, 0, len(r.limits))
	for l := range r.limits {
		limits = append(limits, l)
	}
	r.mu.Unlock()
	for _, l := range limits {
		l.reset(in)
	}
	return in
}

// ForceEnd returns F(A), the end of a force phase whose notice was given at a: a + min(3/4 of what is left, the force
// window), never after C.
func (r *Root) ForceEnd(a time.Time) time.Time {
	in := r.Instants()
	return Earlier(r.budget.forceEnd(a, in.Hard), in.Close)
}

// limit is a context that ends at an instant picked from the root, and follows the root when it shortens.
type limit struct {
	context.Context
	pick   func(Instants) time.Time
	cancel context.CancelCauseFunc
	cause  error

	mu    sync.Mutex
	at    time.Time
	timer *time.Timer
}

// Context returns a context that ends, with cause, at the instant pick chooses. When the root shortens, pick is asked again
// and the context's deadline moves forward, never back. pick is a pure function: it is called from ForceAt, and must not block
// or take a lock. The cancel function releases the context and must be called.
// After the end ctx.Err() is context.Canceled; read context.Cause.
func (r *Root) Context(parent context.Context, pick func(Instants) time.Time, cause error) (context.Context, context.CancelCauseFunc) {
	inner, cancel := context.WithCancelCause(parent)
	l := &limit{Context: inner, pick: pick, cancel: cancel, cause: cause}
	r.mu.Lock()
	in := r.in
	r.limits[l] = struct{}{}
	r.mu.Unlock()
	l.reset(in)
	return l, func(err error) {
		r.mu.Lock()
		delete(r.limits, l)
		r.mu.Unlock()
		cancel(err)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.timer != nil {
			l.timer.Stop()
		}
	}
}

// Deadline returns the instant as it stands now.
func (l *limit) Deadline() (time.Time, bool) {
	l.mu.Lock()
	at := l.at
	l.mu.Unlock()
	if parent, ok := l.Context.Deadline(); ok && parent.Before(at) {
		return parent, true
	}
	return at, true
}

func (l *limit) reset(in Instants) {
	at := l.pick(in)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() && !at.Before(l.at) {
		return
	}
	l.at = at
	if l.timer != nil {
		l.timer.Stop()
	}
	left := Until(at)
	if left <= 0 {
		l.cancel(l.cause)
		return
	}
	if l.Err() == nil {
		l.timer = time.AfterFunc(left, func() { l.cancel(l.cause) })
	}
}
