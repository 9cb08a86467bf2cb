package managed

import (
	"slices"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
)

// A handler that still runs when its session is lost is a ghost: the broker gives its message to somebody else, perhaps to us.
// Ghosts are found by message id.

// haunt remembers the message of a delivery whose session has ended under its handler. sub.mu is held.
func (sub *subscription) haunt(d *Delivery) {
	if d.MessageID == "" || sub.DuplicateStart == DuplicateStartAllow {
		return
	}
	if sub.ghosts == nil {
		sub.ghosts = make(map[string]*Delivery)
	}
	sub.ghosts[d.MessageID] = d
}

// haunted reports whether an earlier hand-over of d's message is still being handled. sub.mu is held.
func (sub *subscription) haunted(d *Delivery) bool {
	return len(sub.ghosts) > 0 && d.Redelivered && sub.ghosts[d.MessageID] != nil
}

// hold keeps a delivery out of the buffer for a while. sub.mu is held.
func (sub *subscription) hold(d *Delivery) {
	sub.held = append(sub.held, d)
	limit := sub.HandlerTimeout
	if sub.DuplicateStart == DuplicateStartHandBack {
		limit = max(sub.RequeueDelay, minHold)
	}
	// Bounded by limit; a delivery that was let go before is not found any more.
	deadline.AfterFunc(limit, func() {
		sub.mu.Lock()
		i := slices.Index(sub.held, d)
		if i >= 0 {
			sub.held = slices.Delete(sub.held, i, i+1)
		}
		sub.mu.Unlock()
		if i >= 0 {
			sub.giveBack(d)
		}
	})
}

// exorcise forgets a ghost whose handler is back and lets go what waited for it.
func (sub *subscription) exorcise(ghost *Delivery) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if ghost.MessageID == "" || sub.ghosts[ghost.MessageID] != ghost {
		return
	}
	delete(sub.ghosts, ghost.MessageID)
	sub.held = slices.DeleteFunc(sub.held, func(d *Delivery) bool {
		if d.MessageID != ghost.MessageID || sub.unmanned {
			return false
		}
		select {
		case sub.buffer <- d:
			return true
		default: // as in Deliver: only if the transport exceeds the prefetch
			return false
		}
	})
}

// minHold keeps a hand-back of a delivery that comes straight to us again from being a hot loop.
const minHold = 100 * time.Millisecond
