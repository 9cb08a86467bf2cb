package managed

import (
	"sync/atomic"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/transport"
)

// stream is a subscription's consumer on one session. It is the transport's Sink.
type stream struct {
	sub     *subscription
	session *session

	// cancelled closes when the cancel frame has left, or none is needed any more.
	cancelled chan struct{}
	// over is set with the locks of every worker held when the stream has ended: nothing of it starts after that.
	over atomic.Bool
	// gone closes when everything that the end changes has been done.
	gone chan struct{}

	// guarded by sub.mu
	transport transport.Stream
	pending   []*transport.Settlement // submitted before Consume returned
	settling  deliveryFIFO            // written and not proven, in write order
	written   uint64
	proven    uint64
	provenBy  transport.Proof
	handBack  bool // the cancel frame has left: what cannot start goes back at once
	ended     bool
	closeOK   bool
	queue     *transport.QueueState // what the broker said of it before the close; nil if it was not asked or did not answer
	resource  resource
}

// Deliver takes over one delivery. It never blocks: the buffer holds a whole prefetch.
func (s *stream) Deliver(d *transport.Delivery) {
	now := deadline.Now()
	sub := s.sub
	md := &Delivery{Delivery: d, Queue: sub.Queue, Session: s.session.number, stream: s, received: now}
	md.ctx.notice = &sub.notice
	md.settlement.Tag, md.settlement.Owner = d.Tag, md

	sub.mu.Lock()
	if sub.sealed || s.ended {
		sub.mu.Unlock()
		return
	}
	sub.account.received++
	back := s.handBack && (sub.unmanned || !sub.mayStart(md))
	switch {
	case back:
	case sub.handledHere(md):
		sub.hold(md)
	case !sub.put(md):
		sub.aside = append(sub.aside, md)
	}
	sub.mu.Unlock()
	if back {
		sub.giveBack(md)
	}
}

// submit passes a settlement to the transport, or keeps it until Consume has returned.
func (s *stream) submit(st *transport.Settlement) {
	s.sub.mu.Lock()
	ts := s.transport
	if ts == nil {
		s.pending = append(s.pending, st)
	}
	s.sub.mu.Unlock()
	if ts != nil {
		ts.Submit(st)
	}
}

// opened connects the stream to its transport once Consume has returned, and reports whether a shutdown has begun.
func (s *stream) opened(ts transport.Stream) (stopping bool) {
	s.sub.mu.Lock()
	s.transport = ts
	pending := s.pending
	s.pending = nil
	if !s.ended && s.sub.state != subscriptionStopping {
		s.sub.state, s.sub.reason = subscriptionReady, ""
	}
	stopping = s.sub.state == subscriptionStopping
	s.sub.mu.Unlock()
	for _, st := range pending {
		ts.Submit(st)
	}
	return stopping
}

// Written moves settlements from submitted to settling.
func (s *stream) Written(batch []*transport.Settlement, _ time.Time) {
	s.sub.mu.Lock()
	defer s.sub.mu.Unlock()
	if s.sub.sealed {
		return
	}
	for _, st := range batch {
		s.settling.push(st.Owner.(*Delivery))
	}
	s.written += uint64(len(batch))
	s.prove()
}

// Failed places settlements that did not leave.
func (s *stream) Failed(batch []*transport.Settlement, _ error) {
	s.sub.mu.Lock()
	defer s.sub.mu.Unlock()
	if s.sub.sealed {
		return
	}
	for _, st := range batch {
		s.unproven(st.Owner.(*Delivery), "failed")
	}
}

// Proven gives the first n settlements their buckets.
func (s *stream) Proven(n uint64, by transport.Proof) {
	s.sub.mu.Lock()
	defer s.sub.mu.Unlock()
	if s.sub.sealed || n <= s.proven {
		return
	}
	s.proven, s.provenBy = n, by
	s.prove()
}

// prove moves what is proven from settling into its bucket. sub.mu is held.
func (s *stream) prove() {
	for settled := s.written - uint64(s.settling.len()); settled < min(s.proven, s.written); settled++ {
		s.place(s.settling.pop(), s.provenBy)
	}
}

// place gives a delivery whose settlement is proven its bucket. sub.mu is held.
func (s *stream) place(d *Delivery, by transport.Proof) {
	a := &s.sub.account
	switch d.fate {
	case fateAcked:
		a.acked++
	case fateRequeued:
		a.requeued++
	case fateRejected:
		a.rejected++
	case fateHandedBack:
		a.handedBack++
	case fateInterrupted:
		a.interrupted++
		s.sub.unsettled.add(d, report.BucketInterrupted, "written")
	}
	if by == transport.ProvenWindow {
		a.byWindow++
	} else {
		a.byReply++
	}
}

// unproven places a delivery whose settlement is due and will never be proven. sub.mu is held.
func (s *stream) unproven(d *Delivery, settlement string) {
	switch d.fate {
	case fateHandedBack, fateRequeued, fateInterrupted:
		if s.closeOK { // the channel's close-ok: the broker has taken it back, by our nack or by the close
			s.place(d, transport.ProvenReply)
			return
		}
	}
	switch d.fate {
	case fateHandedBack: // its session is over, so that the broker gives it to someone all the same
		s.sub.account.released++
		s.session.released.Add(1)
	case fateInterrupted:
		s.sub.account.interrupted++
		s.sub.unsettled.add(d, report.BucketInterrupted, settlement)
	default:
		s.sub.account.unresolved++
		s.session.unresolved.Add(1)
		s.sub.unsettled.add(d, report.BucketUnresolved, settlement)
	}
}

// Observe records evidence and reacts to the two observations that change what may be done.
func (s *stream) Observe(o transport.Observation) {
	s.resource.Observe(string(o.Kind), o.At, o.Detail)
	switch o.Kind {
	case transport.ObservedCancelWritten:
		s.cancelWritten()
	case transport.ObservedCloseOK:
		s.resource.End(o.At, nil)
	}
}

func (s *stream) cancelWritten() {
	s.sub.mu.Lock()
	first := !s.handBack
	s.handBack = true
	s.sub.mu.Unlock()
	if first {
		s.sub.sweep()
		close(s.cancelled) // only now: the drain may end with it, and the close must not overtake what was swept
	}
}

// Ended ends the rights of every delivery of the stream in one critical section and places what can be placed.
func (s *stream) Ended(e transport.End) {
	err := endError(e)
	if e.Kind == transport.EndCloseOK && !e.OfSession { // after the broker's own cancel the queue may be gone
		s.sub.mu.Lock()
		s.closeOK = true
		s.sub.mu.Unlock()
	}
	s.finish(report.NewError(err).Text)
	if s.sub.consumer.before(e.At) {
		s.resource.Drop()
	} else {
		s.resourceEnded(e)
	}
	if !e.OfSession && e.By != transport.ByUs {
		s.sub.consumer.log.Warn("subscription interrupted", "queue", s.sub.Queue, "error", report.NewError(err).Text)
	}
	close(s.gone)
}

// failed is Ended for a stream whose Consume did not succeed.
func (s *stream) failed() {
	if s.over.Load() {
		return
	}
	s.finish("")
	close(s.gone)
}

func (s *stream) finish(reason string) {
	sub := s.sub
	var running []*Delivery
	sub.lockAll()
	s.ended = true
	s.over.Store(true)
	first := !s.handBack
	s.handBack = true
	if !sub.sealed {
		for _, w := range sub.workers {
			if d := w.current; d != nil && d.stream == s && d.right.lose() {
				running = append(running, d)
				sub.remember(d)
			}
		}
		s.release()
		for s.settling.len() > 0 {
			s.unproven(s.settling.pop(), "written")
		}
	}
	pending := s.pending
	s.pending = nil
	for _, st := range pending {
		s.unproven(st.Owner.(*Delivery), "none")
	}
	if sub.state == subscriptionReady {
		sub.state, sub.reason = subscriptionRecovering, reason
	}
	sub.unlockAll()
	if first {
		close(s.cancelled)
	}
	for _, d := range running {
		d.ctx.end(ErrSessionLost)
	}
}

// release places the deliveries of an ended stream that were never started. sub.mu and the workers' locks are held.
func (s *stream) release() {
	sub := s.sub
	keep := sub.aside[:0]
	for _, d := range sub.aside {
		if d.stream == s {
			s.releaseOne(d)
		} else {
			keep = append(keep, d)
		}
	}
	clear(sub.aside[len(keep):])
	sub.aside = keep
	for _, d := range sub.takeHeld(func(d *Delivery) bool { return d.stream == s }) {
		s.releaseOne(d)
	}
	for range len(sub.buffer) {
		select {
		case d := <-sub.buffer:
			if d.stream == s {
				s.releaseOne(d)
			} else {
				sub.buffer <- d
			}
		default:
		}
	}
}

// releaseOne places a delivery that was never started and whose stream has ended. sub.mu is held.
func (s *stream) releaseOne(d *Delivery) {
	if s.sub.sealed || !d.right.lose() {
		return
	}
	a := &s.sub.account
	a.unstarted++
	if s.closeOK { // the channel's close-ok: the broker has taken back what was unsettled
		a.handedBack++
		a.byReply++
		return
	}
	a.released++
	s.session.released.Add(1)
}

func (s *stream) resourceEnded(e transport.End) {
	switch {
	case e.Kind == transport.EndCloseOK && !e.OfSession:
		s.resource.End(e.At, nil)
	case e.Kind == transport.EndCloseOK:
		s.resource.Observe(string(transport.ObservedConnectionCloseOK), e.At, "")
		s.resource.End(e.At, nil)
	case e.PeerEnded():
		s.resource.End(e.At, endError(e))
	default: // our cut, or silence: it began, and its end was not observed
		s.resource.Begin(e.At)
		s.resource.Observe(e.Kind.String(), e.At, e.Text)
	}
}

// resource is the part of a tracked resource that a stream or session reports to.
type resource interface {
	Begin(at time.Time)
	Observe(kind string, at time.Time, detail string)
	End(at time.Time, err error)
	Drop()
}
