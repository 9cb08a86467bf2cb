package managed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lastcall-go/lastcall/coordinator"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
)

// ErrInHandler: Shutdown was called with a handler's or task's own context. The shutdown is under way; a handler cannot wait
// for its own end.
var ErrInHandler = errors.New("lastcall: a handler or task cannot wait for the shutdown that waits for it")

// ShutdownError says that a shutdown ended without success; the report says why.
type ShutdownError struct {
	Completion report.Completion
	Reason     report.ExitReason
	ExitCode   int
}

// Error names completion, reason and code.
func (e *ShutdownError) Error() string {
	return fmt.Sprintf("shutdown %s (%s, exit code %d)", e.Completion, e.Reason, e.ExitCode)
}

// Shutdown ends the consumer in phases under its one root deadline and waits for the sealed report. The first call, signal,
// cancelled context or fault starts the clock; later calls join and get the same result: nil if the report's success is true,
// a *ShutdownError otherwise. ctx bounds only this caller's wait: when it ends Shutdown returns ctx's cause and the shutdown
// goes on. Called with a handler's or task's context it starts the shutdown and returns ErrInHandler at once. It is legal in
// every state, also before Start.
func (c *Consumer) Shutdown(ctx context.Context) error {
	c.coordinator.Initiate(coordinator.Trigger{Kind: report.TriggerAPI, Detail: "Shutdown"})
	if ctx.Value(contextKey{}) != nil {
		return ErrInHandler
	}
	if err := c.coordinator.Wait(ctx); err != nil {
		return err
	}
	return c.result()
}

// Force gives the force notice now, beginning the shutdown if none is under way: running handlers' contexts are cancelled with
// ErrForced and the root deadline shortens to the reserve. It does not block, is idempotent, and changes nothing once nothing
// is left unfinished.
func (c *Consumer) Force() {
	c.coordinator.Force(coordinator.Trigger{Kind: report.TriggerAPI, Detail: "Force"})
}

// Done closes when the report is sealed and stored, or its storing was given up at the root deadline.
func (c *Consumer) Done() <-chan struct{} { return c.coordinator.Done() }

// ShutdownReport returns the sealed report and true, or false before sealing. Each call returns a deep copy.
func (c *Consumer) ShutdownReport() (report.ShutdownReport, bool) {
	s := c.sealed.Load()
	if s == nil {
		return report.ShutdownReport{}, false
	}
	return *report.Clone(&s.report), true
}

// ReportJSON returns the sealed report's bytes, the same for ever, or nil before sealing.
func (c *Consumer) ReportJSON() []byte {
	s := c.sealed.Load()
	if s == nil {
		return nil
	}
	return append([]byte(nil), s.json...)
}

// ExitCode returns the report's exit code, 1 while there is no report.
func (c *Consumer) ExitCode() int {
	if s := c.sealed.Load(); s != nil {
		return s.report.ExitCode
	}
	return 1
}

func (c *Consumer) result() error {
	s := c.sealed.Load()
	if s == nil {
		return &ShutdownError{Completion: report.Incomplete, Reason: report.ReasonIncomplete, ExitCode: 1}
	}
	if s.report.Success {
		return nil
	}
	return &ShutdownError{Completion: s.report.Completion, Reason: s.report.ExitReason, ExitCode: s.report.ExitCode}
}

// fault begins a shutdown because something broke that the consumer cannot go on without.
func (c *Consumer) fault(what string, err error) {
	detail := what
	if err != nil {
		detail = what + ": " + report.NewError(err).Text
	}
	detail = report.Redact(detail)
	if c.coordinator.Initiate(coordinator.Trigger{Kind: report.TriggerFault, Detail: detail}) == report.EffectGraceful {
		c.log.Error("fault: shutting down", "fault", detail)
	}
}

// initiated closes every gate in the same instant: with the locks of all workers held, no handler starts after it, and what is
// in flight is counted once.
func (c *Consumer) initiated(*deadline.Root, coordinator.Trigger) {
	c.mu.Lock()
	c.stopping = true
	subs := c.subs
	for _, sub := range subs {
		sub.lockAll()
	}
	for _, sub := range subs {
		for _, w := range sub.workers {
			w.closed = true
		}
		sub.markLocked()
		if !sub.begun {
			close(sub.quit)
			close(sub.empty)
		} else if sub.Drain != DrainFinishPrefetched && sub.Drain != DrainAuto {
			close(sub.quit)
		}
	}
	for _, sub := range subs {
		sub.unlockAll()
	}
	runtime, links := c.runtime, c.links
	c.mu.Unlock()
	c.registry.Freeze()
	c.start.interrupt()
	for _, l := range links {
		l.end(ErrStopping)
	}
	for _, sub := range subs {
		sub.cancel() // now, so that nothing given back later can come to us again, whatever is forced
	}
	if runtime != nil {
		runtime.Begin(deadline.Now())
	}
}

// cancelled is the close_admission action: basic.cancel was asked for, for every subscription at once, before the phase began.
// What came of it is collected beside the drain.
func (c *Consumer) cancelled(context.Context) error { return nil }

// forced gives the second notice to everything that has not come back.
func (c *Consumer) forced(cause report.ForceCause, at, end time.Time) {
	c.forcing.Store(&forcing{at: at, end: end})
	reason := ErrForced
	if cause == report.ForceDeadline {
		reason = ErrDeadline
	}
	c.mu.Lock()
	subs, tasks := c.subs, c.tasks
	c.mu.Unlock()
	for _, sub := range subs {
		sub.stopStarting()
		sub.interrupt(reason)
	}
	for _, t := range tasks {
		t.cut(reason)
	}
	c.log.Warn("force: work is left and was told to come back", "cause", string(cause), "until", deadline.Until(end))
}

// withhold names what still runs and may use the owned resources.
func (c *Consumer) withhold() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sub := range c.subs {
		if running := sub.handlersLeft(); running > 0 {
			return fmt.Sprintf("handler of %q", sub.Queue)
		}
	}
	for _, t := range c.tasks {
		select {
		case <-t.done:
		default:
			return fmt.Sprintf("task %q", t.name)
		}
	}
	return ""
}

// handlersLeft counts handlers that have not returned.
func (sub *subscription) handlersLeft() int {
	n := 0
	for _, w := range sub.workers {
		w.mu.Lock()
		if w.current != nil {
			n++
		}
		w.mu.Unlock()
	}
	return n
}

func (c *Consumer) phaseBegan(p coordinator.Phase, _ time.Time) {
	c.log.Info("shutdown phase", "phase", p.String())
}

// before reports whether at lies before the shutdown's beginning, or none has begun.
func (c *Consumer) before(at time.Time) bool {
	root := c.coordinator.Root()
	return root == nil || at.Before(root.Instants().Start)
}
