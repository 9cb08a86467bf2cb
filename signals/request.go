package signals

import (
	"os"
	"syscall"
	"time"
)

// duplicateWindow is how soon the same signal again is taken for the same request: supervisors signal a process and its
// group, and platforms delete twice.
const duplicateWindow = 200 * time.Millisecond

// request is what one signal asks for.
type request uint8

const (
	_                request = iota
	requestGraceful          // Target.Graceful
	requestForce             // Target.Force
	requestAbandon           // Target.Abandon
	requestDuplicate         // nothing: Target.Observed(EffectDuplicate)
	requestNothing           // nothing: Target.Observed(EffectNone)
)

// history is what a signal is judged by. The zero history has seen none.
//
//	           SIGINT, SIGTERM            SIGINT, SIGTERM           any
//	nothing ---------------------> told ---------------------> forced -----> abandon
//	   |                            |                            ^
//	   +---------- SIGQUIT ---------+----------------------------+
//
// Under SecondIgnore the second arrow of SIGINT and SIGTERM asks for nothing. Duplicates and unknown signals take no arrow.
type history struct {
	told     bool // a signal that was no duplicate has been seen
	forced   bool // a signal has asked for force
	accepted map[os.Signal]time.Time
}

// judge decides what sig asks for and remembers it. targetForced is Target.Forced.
//
// A duplicate is measured from the last one of its kind that was none, so that whoever goes on sending every 150 ms is heard
// in the end. At exactly 200 ms it is a new request.
//
// The first SIGTERM of all never abandons, even after a force by api: platforms send it on top of whatever ended the
// process, and it would cost the report. The next signal does.
func (h *history) judge(sig os.Signal, at time.Time, second Second, targetForced bool) request {
	if sig != os.Interrupt && sig != syscall.SIGTERM && sig != syscall.SIGQUIT {
		return requestNothing
	}
	if last, ok := h.accepted[sig]; ok && at.Sub(last) < duplicateWindow {
		return requestDuplicate
	}
	if h.accepted == nil {
		h.accepted = make(map[os.Signal]time.Time, 3)
	}
	h.accepted[sig] = at
	first := !h.told
	h.told = true

	switch {
	case first && sig == syscall.SIGTERM:
		return requestGraceful
	case h.forced || targetForced:
		return requestAbandon
	case sig == syscall.SIGQUIT:
		h.forced = true
		return requestForce
	case first:
		return requestGraceful
	case second == SecondIgnore:
		return requestNothing
	default:
		h.forced = true
		return requestForce
	}
}
