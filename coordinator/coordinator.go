package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
)

// Config wires a Coordinator. All callbacks but Store are trusted to be quick work in memory: the coordinator waits for them.
// A callback that panics or calls runtime.Goexit is contained, counted and returned by Wait.
type Config struct {
	// Budget is the plan; the first initiation anchors it. Required.
	Budget deadline.Budget
	// Resources are frozen at initiation and disposed in their phase. Required.
	Resources *resources.Registry
	// OnInitiate runs in the first initiator's call, before Stopping closes and before that call returns. Nil means nothing.
	OnInitiate func(root *deadline.Root, t Trigger)
	// OnForce runs once, before any force half begins, when the force notice is given while an action of the drain that is not
	// advisory is unfinished: at is A, end is F(A). Nil means nothing.
	OnForce func(cause report.ForceCause, at, end time.Time)
	// Withhold is asked once, before the disposal, what still runs; a name that is not empty withholds the resources that it
	// may use. Nil means that nothing does.
	Withhold func() string
	// OnPhase is told when a phase begins; a phase that is cut off by an abandonment does not. Nil means nothing.
	OnPhase func(p Phase, at time.Time)
	// Seal builds and seals the report from what the coordinator knows. It is called exactly once, on every path. Nil means
	// nothing.
	Seal func(Record)
	// Store keeps the report, after Seal. It may block: it runs in a goroutine that is left behind when the root's hard
	// deadline has passed; its context ends then with ErrHardOver. Nil means nothing.
	Store func(ctx context.Context)
}

// Trigger is one request to end.
type Trigger struct {
	Kind   report.TriggerKind
	Detail string
	// At is when it was made. Zero means now, and so does an instant that is yet to come.
	At time.Time
}

// Coordinator runs one shutdown, once. Its zero value is not usable; see [New]. All methods are safe for concurrent use, and
// none of them but Wait blocks on the shutdown.
//
// It starts one goroutine of its own, at initiation, which is joined by Done, and one per half of an action, closer and
// callback, which ends with it.
type Coordinator struct {
	cfg Config

	stopping, sealed, done chan struct{}
	wake                   chan struct{} // buffered by one: something came back

	life     context.Context // ends with ErrAbandoned; every context of the shutdown derives from it
	abandon  context.CancelCauseFunc
	graceful context.Context // derives from life; ends with ErrForced too
	force    context.CancelCauseFunc

	mu        sync.Mutex
	actions   []*action
	root      *deadline.Root // nil before initiation
	trigger   Trigger
	events    events
	phase     Phase
	phases    []phaseStart
	notice    notice
	explicit  bool // force was asked for by a signal or a call, in time
	abandoned bool
	final     bool // the record is taken
	disposals []resources.Disposal
	faults    []error
}

// notice is the force notice. Its zero value means that none was given.
type notice struct {
	cause report.ForceCause
	at    time.Time // A
	used  bool      // it cut something that is judged
}

func (n notice) given() bool { return n.cause != "" }

// New returns a Coordinator, or ErrConfig. It starts nothing.
func New(cfg Config) (*Coordinator, error) {
	if cfg.Resources == nil {
		return nil, fmt.Errorf("%w: Resources is nil", ErrConfig)
	}
	if cfg.Budget.Total() == 0 {
		return nil, fmt.Errorf("%w: Budget is zero; make one with deadline.New", ErrConfig)
	}
	c := &Coordinator{
		cfg: cfg, stopping: make(chan struct{}), sealed: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	c.life, c.abandon = context.WithCancelCause(context.Background())
	c.graceful, c.force = context.WithCancelCause(c.life)
	return c, nil
}

// Register adds an action. It returns ErrStopping after initiation, ErrAction for an action that cannot be run, and
// ErrDuplicate.
func (c *Coordinator) Register(a Action) error {
	if !a.valid() {
		return fmt.Errorf("action %q in %s: %w", a.Name, a.Phase, ErrAction)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.root != nil {
		return ErrStopping
	}
	for _, other := range c.actions {
		if other.Phase == a.Phase && other.Name == a.Name {
			return fmt.Errorf("action %q in %s: %w", a.Name, a.Phase, ErrDuplicate)
		}
	}
	c.actions = append(c.actions, &action{Action: a})
	return nil
}

// Initiate begins the shutdown. It returns EffectGraceful if this call did, EffectNone if one is under way, EffectTooLate once
// the report is sealed. The first call decides the trigger and starts the clock at t.At; no later one renews it.
func (c *Coordinator) Initiate(t Trigger) report.Effect {
	c.mu.Lock()
	first := c.initiate(&t)
	effect := report.EffectNone
	switch {
	case first:
		effect = report.EffectGraceful
	case c.final:
		effect = report.EffectTooLate
	}
	c.events.add(t, effect)
	c.mu.Unlock()
	c.start(first, t)
	return effect
}

// Force gives the force notice: the root is shortened, what is unfinished in close_admission and drain is cut, and its force
// halves run. It returns EffectForce if this call did that; EffectNone if force had been asked for before, or the deadline's
// own force phase is on; EffectTooLate if nothing is unfinished there, or the report is sealed.
//
// Before initiation it initiates as well: no graceful half of close_admission or drain is begun then, and the effect is
// EffectForce even if there was nothing to cut. force.used is true only if there was.
func (c *Coordinator) Force(t Trigger) report.Effect {
	c.mu.Lock()
	first := c.initiate(&t)
	effect := c.tryForce(t, first)
	c.events.add(t, effect)
	c.mu.Unlock()
	c.start(first, t)
	return effect
}

// Abandon revokes what is not finished and has the report sealed now, with what is known; the phases that are left do not run,
// and the root is shortened as by a force. It returns EffectAbandon, or EffectTooLate if the report is sealed or about to be.
// Before initiation it initiates as well.
func (c *Coordinator) Abandon(t Trigger) report.Effect {
	c.mu.Lock()
	first := c.initiate(&t)
	effect := report.EffectTooLate
	if !c.final && !c.abandoned {
		effect = report.EffectAbandon
		c.abandoned = true
		c.abandon(ErrAbandoned) // before the root shortens: the first cause is the one that is seen
		c.root.ForceAt(t.At)
	}
	c.events.add(t, effect)
	c.mu.Unlock()
	c.start(first, t)
	return effect
}

// Note records a request that was decided elsewhere, such as a duplicate signal. After sealing it does nothing.
func (c *Coordinator) Note(t Trigger, e report.Effect) {
	t.At = notAfter(t.At, deadline.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events.add(t, e)
}

// Forced reports whether force was asked for by a signal or a call while it could still change something; also when the
// deadline had given the notice before.
func (c *Coordinator) Forced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.explicit
}

// Stopping closes at initiation.
func (c *Coordinator) Stopping() <-chan struct{} { return c.stopping }

// Sealed closes when Seal has returned.
func (c *Coordinator) Sealed() <-chan struct{} { return c.sealed }

// Done closes when the shutdown is over, publishing included.
func (c *Coordinator) Done() <-chan struct{} { return c.done }

// Wait waits for Done. It returns nil, or the joined *CallbackErrors of callbacks that failed; ctx bounds only this wait: when
// it ends first, Wait returns its cause and the shutdown goes on.
func (c *Coordinator) Wait(ctx context.Context) error {
	select {
	case <-c.done:
	default:
		select {
		case <-c.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.faults...)
}

// Root returns the shutdown's deadline, nil before initiation.
func (c *Coordinator) Root() *deadline.Root {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.root
}

// Phase returns the phase under way, the last one after the shutdown, and 0 before initiation.
func (c *Coordinator) Phase() Phase {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.phase
}

// initiate anchors the root if t is the first trigger, and reports whether it is. It also settles what t.At means. c.mu is
// held.
func (c *Coordinator) initiate(t *Trigger) bool {
	t.At = notAfter(t.At, deadline.Now())
	if c.root != nil {
		return false
	}
	c.root, c.trigger, c.phase = c.cfg.Budget.Anchor(t.At), *t, PhaseCloseAdmission
	c.cfg.Resources.Freeze()
	return true
}

// start does what follows the first initiation and cannot be done under the lock.
func (c *Coordinator) start(first bool, t Trigger) {
	if !first {
		return
	}
	if f := c.cfg.OnInitiate; f != nil {
		c.callback("OnInitiate", func() { f(c.Root(), t) })
	}
	close(c.stopping)
	go c.run()
}

// tryForce decides about one request for force. c.mu is held, so that nothing finishes between the decision and its effect.
func (c *Coordinator) tryForce(t Trigger, first bool) report.Effect {
	unfinished := c.anyOf(func(a *action) bool { return a.forceable() && a.Graceful != nil && !a.finished() })
	switch {
	case c.final || c.abandoned:
		return report.EffectTooLate
	case c.explicit:
		return report.EffectNone
	case !first && !unfinished:
		return report.EffectTooLate
	case c.notice.given():
		c.explicit = true
		return report.EffectNone
	}
	c.explicit = true
	c.force(ErrForced) // before the root shortens: the first cause is the one that is seen
	at := t.At
	if start := c.root.ForceAt(at).Start; at.Before(start) {
		at = start
	}
	cause := report.ForceAPI
	if t.Kind == report.TriggerSignal {
		cause = report.ForceSignal
	}
	c.giveNotice(cause, at, report.GracefulCutByForce)
	return report.EffectForce
}

// giveNotice cuts what is unfinished in close_admission and drain. The notice counts as given only if there is such a thing.
// c.mu is held.
func (c *Coordinator) giveNotice(cause report.ForceCause, at time.Time, o report.GracefulOutcome) {
	for _, a := range c.actions {
		if !a.forceable() {
			continue
		}
		a.cut(o)
		if a.Graceful != nil && a.wantsForce() {
			c.notice.cause, c.notice.at = cause, at
			c.notice.used = c.notice.used || (a.Phase == PhaseDrain && !a.Advisory)
		}
	}
}

// forceable reports whether the force notice concerns a.
func (a *action) forceable() bool { return a.Phase < PhaseForce }

// anyOf reports whether an action matches. c.mu is held.
func (c *Coordinator) anyOf(match func(*action) bool) bool {
	for _, a := range c.actions {
		if match(a) {
			return true
		}
	}
	return false
}

// callback calls a callback of the Config and waits for it.
func (c *Coordinator) callback(name string, f func()) {
	back := make(chan resources.Returned, 1)
	resources.Call(func() error { f(); return nil }, func(ret resources.Returned) { back <- ret })
	c.failed(name, <-back)
}

func (c *Coordinator) failed(name string, ret resources.Returned) {
	if ret.Err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &CallbackError{Callback: name, Err: ret.Err})
}

func notAfter(at, now time.Time) time.Time {
	if at.IsZero() || at.After(now) {
		return now
	}
	return at
}
