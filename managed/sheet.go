package managed

import (
	"github.com/lastcall-go/lastcall/report"
)

// sheet counts the deliveries of one subscription since its start. It is guarded by the subscription's mutex. Started
// deliveries are counted by their workers.
type sheet struct {
	received uint64
	// unstarted counts deliveries that left the buffer without having been started.
	unstarted uint64

	acked, requeued, rejected, handedBack, released, interrupted, unresolved, abandoned uint64

	lateResults, panics, malformed, noOutcome uint64
	byWindow, byReply                         uint64
}

// placed is the number of deliveries that have a bucket.
func (s sheet) placed() uint64 {
	return s.acked + s.requeued + s.rejected + s.handedBack + s.released + s.interrupted + s.unresolved + s.abandoned
}

func (s sheet) report(started uint64) report.Sheet {
	return report.Sheet{
		Received: s.received, Started: started,
		Acked: s.acked, Requeued: s.requeued, Rejected: s.rejected, HandedBack: s.handedBack, Released: s.released,
		Interrupted: s.interrupted, Unresolved: s.unresolved, Abandoned: s.abandoned,
		InFlight:    s.received - s.placed(),
		LateResults: s.lateResults, HandlerPanics: s.panics, Malformed: s.malformed,
	}
}

// mark is the state of a subscription at the trigger. What had a bucket then is outside the cohort; everything else, and all
// that came later, is inside, so the cohort's sheet is a subtraction.
type mark struct {
	sheet    sheet
	started  uint64 // handlers called since the start
	running  uint64 // handlers that had not returned
	buffered uint64
	state    subscriptionState
}

// settling is what had been started or handed back, and was not proven yet.
func (m mark) settling() uint64 { return m.sheet.received - m.sheet.placed() - m.running - m.buffered }

func (m mark) atTrigger() report.AtTrigger {
	return report.AtTrigger{Started: m.running, Buffered: m.buffered, Settling: m.settling()}
}

// cohort returns the sheet of what the shutdown answers for.
func (m mark) cohort(end sheet, started uint64) report.Sheet {
	c := end
	c.received -= m.sheet.placed()
	c.acked -= m.sheet.acked
	c.requeued -= m.sheet.requeued
	c.rejected -= m.sheet.rejected
	c.handedBack -= m.sheet.handedBack
	c.released -= m.sheet.released
	c.interrupted -= m.sheet.interrupted
	c.unresolved -= m.sheet.unresolved
	c.abandoned -= m.sheet.abandoned
	c.lateResults -= m.sheet.lateResults
	c.panics -= m.sheet.panics
	c.malformed -= m.sheet.malformed
	return c.report(started - m.started + m.running + m.settling())
}
