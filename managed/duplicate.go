package managed

import (
	"slices"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
)

// minHold keeps a hand-back of a delivery that comes straight to us again from being a hot loop.
const minHold = 100 * time.Millisecond

// A handler that still runs when its session is lost holds a message that the broker gives to somebody else, perhaps to us. Such
// messages are told by their id: the subscription remembers the earlier delivery until its handler is back.

// heldDelivery is a redelivery that waits for the handler of an earlier delivery of its message. The timer bounds the wait.
type heldDelivery struct {
	*Delivery
	timer *time.Timer
}

// remember keeps in mind a delivery whose session has ended under its handler. sub.mu is held.
func (sub *subscription) remember(d *Delivery) {
	if d.MessageID == "" || sub.DuplicateStart == DuplicateStartAllow || sub.Drain == DrainOrdered { // to hold one would break the order
		return
	}
	if sub.earlier == nil {
		sub.earlier = make(map[string]*Delivery)
	}
	sub.earlier[d.MessageID] = d
}

// handledHere reports whether an earlier delivery of d's message is still with a handler. sub.mu is held.
func (sub *subscription) handledHere(d *Delivery) bool {
	return len(sub.earlier) > 0 && d.Redelivered && sub.earlier[d.MessageID] != nil
}

// hold keeps a delivery out of the buffer until forget or its limit lets it go. sub.mu is held.
func (sub *subscription) hold(d *Delivery) {
	limit := sub.HandlerTimeout
	if sub.DuplicateStart == DuplicateStartHandBack {
		limit = max(sub.RequeueDelay, minHold)
	}
	sub.held = append(sub.held, heldDelivery{d, deadline.AfterFunc(limit, func() {
		sub.mu.Lock()
		i := slices.IndexFunc(sub.held, func(h heldDelivery) bool { return h.Delivery == d })
		if i >= 0 {
			sub.held = slices.Delete(sub.held, i, i+1)
		}
		sub.mu.Unlock()
		if i >= 0 {
			sub.giveBack(d)
		}
	})})
}

// takeHeld empties the held deliveries that match and stops their timers. sub.mu is held.
func (sub *subscription) takeHeld(match func(*Delivery) bool) (taken []*Delivery) {
	sub.held = slices.DeleteFunc(sub.held, func(h heldDelivery) bool {
		if !match(h.Delivery) {
			return false
		}
		h.timer.Stop()
		taken = append(taken, h.Delivery)
		return true
	})
	return taken
}

// forget lets go what waited for a handler that is back.
func (sub *subscription) forget(earlier *Delivery) {
	sub.mu.Lock()
	var back []*Delivery
	if earlier.MessageID != "" && sub.earlier[earlier.MessageID] == earlier {
		delete(sub.earlier, earlier.MessageID)
		for _, d := range sub.takeHeld(func(d *Delivery) bool { return d.MessageID == earlier.MessageID }) {
			if sub.unmanned || !sub.put(d) {
				back = append(back, d)
			}
		}
	}
	sub.mu.Unlock()
	for _, d := range back {
		sub.setAside(d)
	}
}

// put adds a delivery to the buffer. It is full only if the transport exceeds the prefetch. sub.mu is held.
func (sub *subscription) put(d *Delivery) bool {
	select {
	case sub.buffer <- d:
		return true
	default:
		return false
	}
}
