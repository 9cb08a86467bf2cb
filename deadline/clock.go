package deadline

import (
	"context"
	"time"
)

// Now reads the clock, with its monotonic reading. Every other package takes its instants from here, so that tests in a
// testing/synctest bubble own all of time.
func Now() time.Time { return time.Now() }

// Since returns the time elapsed since t.
func Since(t time.Time) time.Duration { return time.Since(t) }

// Until returns the time left until t; it is negative once t has passed.
func Until(t time.Time) time.Duration { return time.Until(t) }

// NewTimer returns a timer that fires once after d. A d of zero or less fires at once.
func NewTimer(d time.Duration) *time.Timer { return time.NewTimer(d) }

// NewTicker returns a ticker with period d, which must be positive.
func NewTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

// AfterFunc calls f in its own goroutine after d.
func AfterFunc(d time.Duration, f func()) *time.Timer { return time.AfterFunc(d, f) }

// Sleep waits for d or until ctx ends, and returns ctx's cause in that case. A d of zero or less returns nil at once.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Context returns a context that ends at the instant at with the given cause, or when parent ends. The cancel function
// releases its timer and must be called.
func Context(parent context.Context, at time.Time, cause error) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(parent, at, cause)
}

// Timeout is Context with a duration from now.
func Timeout(parent context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(parent, d, cause)
}
