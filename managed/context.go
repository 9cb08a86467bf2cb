package managed

import (
	"context"
	"sync"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
)

// contextKey finds the notice in the context of a handler or task.
type contextKey struct{}

// notice is what a handler's or task's context knows of the consumer that runs it.
type notice struct {
	consumer *Consumer
	work     context.Context // tasks: ends at the force notice
}

// Stop is what StopOf returns: the instants of the shutdown that Stopping tells of.
type Stop struct {
	// Graceful is when graceful work must be over; the context is cancelled then at the latest. Zero while no shutdown runs.
	Graceful time.Time
	// Hard is when the shutdown is over whatever happens. Zero while no shutdown runs.
	Hard time.Time
}

// Stopping returns a channel that closes when the consumer that runs this handler or task begins to shut down. The work may
// go on: its context is cancelled later, when it must come back. On a context that is no handler's or task's the channel is
// nil and never ready.
func Stopping(ctx context.Context) <-chan struct{} {
	if n, ok := ctx.Value(contextKey{}).(*notice); ok {
		return n.consumer.coordinator.Stopping()
	}
	return nil
}

// StopOf returns the instants of the shutdown under way, and false while there is none.
func StopOf(ctx context.Context) (Stop, bool) {
	n, ok := ctx.Value(contextKey{}).(*notice)
	if !ok {
		return Stop{}, false
	}
	root := n.consumer.coordinator.Root()
	if root == nil {
		return Stop{}, false
	}
	in := root.Instants()
	return Stop{Graceful: in.Graceful, Hard: in.Hard}, true
}

// Work returns the context for the item that a task has in hand. A task's own context is cancelled when the drain begins; the
// item may be finished on this one, which ends at the force notice with ErrForced or ErrDeadline. On any other context Work
// returns ctx itself.
func Work(ctx context.Context) context.Context {
	if n, ok := ctx.Value(contextKey{}).(*notice); ok && n.work != nil {
		return n.work
	}
	return ctx
}

// handlerContext is the context of one handler. It lives inside its Delivery and allocates only for a handler that looks at
// more than its deadline: then a standard cancel context stands behind it, so that context.Cause works and contexts derived
// from it cost no goroutine.
type handlerContext struct {
	notice *notice
	until  time.Time // P

	mu     sync.Mutex
	cause  error
	inner  context.Context
	cancel context.CancelCauseFunc
}

// Deadline returns P, the instant of the notice, capped by the graceful window once a shutdown runs.
func (h *handlerContext) Deadline() (time.Time, bool) {
	at := h.until
	if root := h.notice.consumer.coordinator.Root(); root != nil {
		at = deadline.Earlier(at, root.Instants().Graceful)
	}
	return at, true
}

func (h *handlerContext) std() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inner == nil {
		h.inner, h.cancel = context.WithCancelCause(h.notice.consumer.base)
		if h.cause != nil {
			h.cancel(h.cause)
		}
	}
	return h.inner
}

// Done closes at the notice.
func (h *handlerContext) Done() <-chan struct{} { return h.std().Done() }

// Err is nil before the notice and context.Canceled after it; context.Cause says why.
func (h *handlerContext) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.cause != nil:
		return context.Canceled
	case h.inner != nil:
		return h.inner.Err()
	}
	return nil
}

// Value finds the notice, and everything else where the standard context finds it.
func (h *handlerContext) Value(key any) any {
	if _, ok := key.(contextKey); ok {
		return h.notice
	}
	return h.std().Value(key)
}

func (h *handlerContext) reason() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// end gives the notice; the first cause stays.
func (h *handlerContext) end(cause error) {
	h.mu.Lock()
	if h.cause != nil {
		h.mu.Unlock()
		return
	}
	h.cause = cause
	cancel := h.cancel
	h.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// release frees what the handler's derived contexts hold once it has returned; the cause it saw stays.
func (h *handlerContext) release() {
	h.mu.Lock()
	cancel := h.cancel
	h.mu.Unlock()
	if cancel != nil {
		cancel(context.Canceled)
	}
}
