package deadline

import "time"

// DefaultCloserLimit bounds one closer that names no limit of its own.
const DefaultCloserLimit = 5 * time.Second

// Share returns how long a closer may take when it is the first of togo closers that must all end by cutoff: its own
// limit, and at most an equal part of what is left. limit zero means DefaultCloserLimit; togo below one counts as one. The
// result is never negative; zero means that its budget has expired and nothing may be started.
func Share(now, cutoff time.Time, limit time.Duration, togo int) time.Duration {
	if limit == 0 {
		limit = DefaultCloserLimit
	}
	left := max(cutoff.Sub(now), 0)
	return max(min(limit, left/time.Duration(max(togo, 1))), 0)
}

// CloseEnd returns when close evidence that begins at begin must be over: min(C, begin + reserve).
func (in Instants) CloseEnd(begin time.Time) time.Time {
	return Earlier(in.Close, begin.Add(in.Reserve))
}

// TelemetryShare returns how long owned telemetry may take from now: at most the reserve, and never beyond its cutoff.
func (in Instants) TelemetryShare(now time.Time) time.Duration {
	return min(in.Reserve, max(in.Telemetry.Sub(now), 0))
}

// Grace is the platform's side of a budget: what it grants and what it spends before the process hears of the stop.
type Grace struct {
	// Granted is the platform's grace period. Zero means unknown.
	Granted time.Duration
	// PreStop is what runs inside the grace period before the signal. Zero means none.
	PreStop time.Duration
}

// platformMargin is kept between our end and the platform's kill.
const platformMargin = time.Second

// Needed is what the platform must grant for total to fit: total + prestop + 1 s.
func (g Grace) Needed(total time.Duration) time.Duration { return total + g.PreStop + platformMargin }

// Fits reports whether total fits; an unknown grace fits always.
func (g Grace) Fits(total time.Duration) bool { return g.Granted == 0 || g.Needed(total) <= g.Granted }

// Largest returns the largest total that fits, at least MinTotal; total itself when it fits.
func (g Grace) Largest(total time.Duration) time.Duration {
	if g.Fits(total) {
		return total
	}
	return min(total, max(g.Granted-g.PreStop-platformMargin, MinTotal))
}
