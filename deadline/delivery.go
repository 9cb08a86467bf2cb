package deadline

import "time"

const maxDeliveryReserve = time.Second

// Delivery holds the instants of one delivery's handler.
type Delivery struct {
	// Start is S, the start of the handler.
	Start time.Time
	// Notice is P: the handler's context is cancelled here. For a child process it is SIGTERM.
	Notice time.Time
	// Hard is H: until here what the handler returns counts. For a child process it is SIGKILL.
	Hard time.Time
}

// ForDelivery computes the instants of a handler that starts at start and may take timeout, which must be positive:
// H = S + timeout, P = H - min(timeout/4, 1s).
func ForDelivery(start time.Time, timeout time.Duration) Delivery {
	hard := start.Add(timeout)
	return Delivery{Start: start, Notice: hard.Add(-min(timeout/4, maxDeliveryReserve)), Hard: hard}
}

// Cap returns d with no instant later than the root allows once a shutdown runs: the notice by graceful, the end by the
// end of the force phase.
func (d Delivery) Cap(in Instants) Delivery {
	d.Notice = Earlier(d.Notice, in.Graceful)
	d.Hard = Earlier(d.Hard, in.Force)
	return d
}

// KillAt returns when a child process that was asked to end at notice is killed, if what it must end by is end:
// notice + 3/4 of the time between them.
func KillAt(notice, end time.Time) time.Time {
	return notice.Add(max(end.Sub(notice), 0) * 3 / 4)
}
