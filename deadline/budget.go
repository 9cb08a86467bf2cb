package deadline

import (
	"fmt"
	"time"
)

// Bounds and defaults of a Budget.
const (
	DefaultTotal       = 30 * time.Second
	MinTotal           = 250 * time.Millisecond
	MaxTotal           = 24 * time.Hour
	DefaultForceWindow = time.Second

	maxReserve = 2 * time.Second
)

// Config states how long a shutdown may take.
type Config struct {
	// Total is the whole shutdown, from its first initiation to its last act; from 250 ms to 24 h. Zero means 30 s.
	Total time.Duration
	// ForceWindow is the longest time that work may take to come back after the force notice. Zero means 1 s.
	ForceWindow time.Duration
}

// Budget is a validated Config: a plan without a start. It is plain data; anchor it with [Budget.Anchor].
type Budget struct {
	total, window time.Duration
}

// RangeError reports a duration outside its bounds.
type RangeError struct {
	Field         string
	Got, Min, Max time.Duration
}

// Error names the field, the value and the bounds.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%s is %s: it must lie between %s and %s", e.Field, e.Got, e.Min, e.Max)
}

// New validates cfg and fills in its zeros. It returns a *RangeError for a total outside 250 ms to 24 h or a force window
// that is negative or longer than 24 h.
func New(cfg Config) (Budget, error) {
	b := Budget{total: cfg.Total, window: cfg.ForceWindow}
	if b.total == 0 {
		b.total = DefaultTotal
	}
	if b.window == 0 {
		b.window = DefaultForceWindow
	}
	if b.total < MinTotal || b.total > MaxTotal {
		return Budget{}, &RangeError{Field: "shutdown timeout", Got: b.total, Min: MinTotal, Max: MaxTotal}
	}
	if b.window < 0 || b.window > MaxTotal {
		return Budget{}, &RangeError{Field: "force window", Got: b.window, Min: time.Nanosecond, Max: MaxTotal}
	}
	return b, nil
}

// Total is the whole of the shutdown.
func (b Budget) Total() time.Duration { return b.total }

// ForceWindow is the configured cap on the force phase.
func (b Budget) ForceWindow() time.Duration { return b.window }

// Reserve is the slice kept for force, close, dispose and publish: min(total/4, 2s).
func (b Budget) Reserve() time.Duration { return min(b.total/4, maxReserve) }

// Graceful is the slice in which work may end by itself: total - reserve.
func (b Budget) Graceful() time.Duration { return b.total - b.Reserve() }

// Instants are the deadlines of one shutdown, each absolute.
type Instants struct {
	Start    time.Time
	Graceful time.Time // no graceful work after this instant
	Force    time.Time // F(Graceful): what is not back by then is abandoned
	Close    time.Time // C: close evidence ends here
	Dispose  time.Time // D: disposal ends here, telemetry apart
	// Telemetry is when owned telemetry, disposed last of all, must be over.
	Telemetry time.Time
	Hard      time.Time // nothing after this instant
	Reserve   time.Duration
}

// Plan computes the instants of a shutdown that starts at start and is not forced.
func (b Budget) Plan(start time.Time) Instants {
	hard := start.Add(b.total)
	return b.split(start, hard.Add(-b.Reserve()), hard)
}

// split derives every later instant from graceful and hard, which are a reserve apart, so that F(graceful) leaves a quarter of
// the reserve. It is the one place where the split of the budget is written down.
func (b Budget) split(start, graceful, hard time.Time) Instants {
	reserve := b.Reserve()
	in := Instants{Start: start, Graceful: graceful, Hard: hard, Reserve: reserve}
	in.Dispose = hard.Add(-min(reserve/8, 250*time.Millisecond))
	in.Telemetry = hard.Add(-min(reserve/16, 50*time.Millisecond))
	in.Force = b.forceEnd(graceful, hard)
	in.Close = in.Force.Add(in.Dispose.Sub(in.Force) / 2)
	return in
}

// forceEnd is F before its cap: notice + min(3/4 of what is left, the force window).
func (b Budget) forceEnd(notice, hard time.Time) time.Time {
	left := max(hard.Sub(notice), 0)
	return notice.Add(min(left*3/4, b.window))
}

// Earlier returns the earlier of two instants.
func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
