package managed

import (
	"sync/atomic"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

// Delivery is one hand-over of a message, as a handler sees it. Its identity is session, channel and delivery tag: the same
// message delivered again is another Delivery. The fields are read-only; Body and Headers may be kept after the handler has
// returned.
type Delivery struct {
	*transport.Delivery
	// Queue is the subscription's queue.
	Queue string
	// Session is the number of the broker session that delivered, from 1.
	Session uint64

	ctx        handlerContext
	settlement transport.Settlement
	stream     *stream
	right      right
	fate       fate

	received, started, ended time.Time
	limits                   deadline.Delivery
	detail                   string
}

// right is the settlement right of one delivery: one-shot, fenced by session, revocable. Every edge is one compare-and-swap,
// so that a handler's return, the end of its session and a revocation cannot both win.
//
//	open ---> used       the outcome was taken for settling, or the delivery handed back
//	open ---> lost       its session ended; nothing can be sent any more
//	open ---> revoked    given up at the end of the force phase: abandoned
//	lost ---> used       the handler came back after its session had ended
//	lost ---> revoked    it did not
type right struct{ state atomic.Uint32 }

const (
	rightOpen uint32 = iota
	rightUsed
	rightLost
	rightRevoked
)

// use takes the right and returns what it was: rightOpen means that the caller, and nobody else, may settle; rightLost that
// there is nobody left to tell; rightUsed and rightRevoked that it came too late.
func (r *right) use() uint32 {
	for {
		was := r.state.Load()
		if was == rightUsed || was == rightRevoked || r.state.CompareAndSwap(was, rightUsed) {
			return was
		}
	}
}

// lose ends the right because the session ended.
func (r *right) lose() bool { return r.state.CompareAndSwap(rightOpen, rightLost) }

// revoke ends the right because the handler did not come back in time.
func (r *right) revoke() bool {
	return r.state.CompareAndSwap(rightOpen, rightRevoked) || r.state.CompareAndSwap(rightLost, rightRevoked)
}

// fate is where a delivery goes once its settlement is proven.
type fate uint8

const (
	_ fate = iota
	fateAcked
	fateRequeued
	fateRejected
	fateHandedBack
	fateInterrupted
)

// revoked returns a channel that closes when the deliveries that have not come back are given up.
func (d *Delivery) revoked() <-chan struct{} {
	if d.stream == nil { // made up by a test
		return nil
	}
	return d.stream.sub.revoked
}

// killAt returns the instant by which a child process must be killed that was asked to end because of cause, as it stands now:
// a force given later brings it nearer.
func (d *Delivery) killAt(cause error) time.Time {
	c := d.stream.sub.consumer
	at := deadline.Now().Add(deadline.DefaultForceWindow)
	if cause == ErrDeliveryTimeout {
		at = d.limits.Hard
		if root := c.coordinator.Root(); root != nil {
			at = d.limits.Cap(root.Instants()).Hard
		}
	}
	if f := c.forcing.Load(); f != nil {
		byForce := deadline.KillAt(f.at, f.end)
		if cause == ErrForced || cause == ErrDeadline {
			return byForce
		}
		at = deadline.Earlier(at, byForce)
	}
	return at
}
