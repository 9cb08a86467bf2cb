package memory

import (
	"runtime"

	"github.com/lastcall-go/lastcall/transport"
)

// pass is what one write of a stream's writer took and what became of it. Its slices are used again.
type pass struct {
	taken, written, refused, failed []*transport.Settlement
	err                             error     // of failed
	request                         frameKind // 0 if none
}

// write sends what is submitted and asked for until the stream has ended.
func (s *stream) write() {
	defer close(s.written)
	var p pass
	for range s.writable {
		// One yield lets others submit what then leaves in the same write.
		runtime.Gosched()
		cancel, closing := s.cancelAsked.Load(), s.closeAsked.Load() // before Take: what was submitted earlier goes first
		p.taken = s.submitted.Take(p.taken[:0])
		ended := s.transmit(&p, cancel, closing)
		s.report(&p)
		if ended {
			return
		}
		if len(p.written) > 0 || p.request != 0 {
			s.broker.mu.Lock()
			if !s.session.silent {
				s.takeWire()
			}
			s.broker.mu.Unlock()
		}
	}
}

// transmit puts p.taken on the wire, and after it a request if there is one to send.
func (s *stream) transmit(p *pass, cancel, closing bool) (ended bool) {
	b := s.broker
	p.written, p.refused, p.failed, p.err, p.request = p.written[:0], p.refused[:0], p.failed[:0], nil, 0
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.end.Kind != 0 || s.closeSent || s.session.closing {
		p.failed, p.err = append(p.failed, p.taken...), s.closedError("settle")
		return s.end.Kind != 0
	}
	for _, x := range p.taken {
		e := s.outstanding.find(x.Tag)
		if e == nil || e.written || x.Verb < transport.Ack || x.Verb > transport.Reject {
			p.refused = append(p.refused, x)
			continue
		}
		e.written = true
		if b.failWrites > 0 {
			b.failWrites--
			p.failed, p.err = append(p.failed, x), b.failure
			continue
		}
		p.written = append(p.written, x)
		s.wire = append(s.wire, outgoing{verb: x.Verb, tag: x.Tag})
	}
	s.wrote += uint64(len(p.written))
	if p.request = s.nextRequest(cancel, closing); p.request != 0 {
		s.wire = append(s.wire, outgoing{request: p.request})
	}
	return false
}

// nextRequest chooses what to ask, one thing at a time: the cancel, and for a close first a barrier if settlements are not
// proven yet.
func (s *stream) nextRequest(cancel, closing bool) frameKind {
	switch {
	case s.pending != 0:
		return 0
	case cancel && !s.cancelSent:
		s.cancelSent = true
		s.pending = frameCancel
	case closing && s.wrote > s.proven.Load():
		s.pending = frameBarrier
	case closing:
		s.closeSent = true
		s.pending = frameClose
	}
	return s.pending
}

// report tells the sink what left and what did not. The broker takes nothing of it before, so that what follows from it is
// heard later; and what the sink submits in these calls leaves after it, for nobody else writes.
func (s *stream) report(p *pass) {
	if len(p.written) > 0 {
		s.sink.Written(p.written, now())
	}
	if len(p.refused) > 0 {
		s.sink.Failed(p.refused, &transport.Error{Kind: transport.KindInvalid, Op: "settle", Subject: s.queue.name,
			Text: "no such delivery is outstanding, or no such verb"})
	}
	if len(p.failed) > 0 {
		s.sink.Failed(p.failed, p.err)
	}
	switch p.request {
	case frameCancel:
		s.sink.Observe(transport.Observation{Kind: transport.ObservedCancelWritten, At: now()})
	case frameClose:
		s.sink.Observe(transport.Observation{Kind: transport.ObservedCloseWritten, At: now()})
	}
}

// take is the broker's act on a request. Its caller dispatches.
func (s *stream) take(request frameKind) {
	answer := frame{kind: request, n: s.taken}
	kind := ReplyBarrier
	switch request {
	case frameCancel:
		kind = ReplyCancel
		s.queue.detach(s)
	case frameClose:
		kind = ReplyChannelClose
		s.broker.release(s)
	}
	s.broker.reply(kind, s.session, func() {
		if s.end.Kind == 0 {
			s.arrive(answer)
		}
	})
}

// takeWire is the broker's act on everything that was written and that it has not taken yet.
func (s *stream) takeWire() {
	wire := s.wire
	s.wire = s.wire[:0]
	for _, f := range wire {
		if f.request != 0 {
			s.take(f.request)
		} else {
			s.takeSettlement(f)
		}
	}
	s.queue.offer(s)
	s.queue.dispatch()
}

func (s *stream) takeSettlement(f outgoing) {
	s.taken++
	s.broker.settle(s.queue, s.outstanding.settle(s.outstanding.find(f.tag)), f.verb)
}

// failLate reports what was submitted after write had returned. One caller at a time does so; the others leave theirs to it.
func (s *stream) failLate() {
	for !s.submitted.Empty() && s.failing.CompareAndSwap(false, true) {
		if batch := s.submitted.Take(nil); len(batch) > 0 {
			s.sink.Failed(batch, s.closedError("settle"))
		}
		s.failing.Store(false)
	}
}
