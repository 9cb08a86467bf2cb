package memory

import (
	"runtime"

	"github.com/lastcall-go/lastcall/transport"
)

// pass is what one write of a stream's writer took and what became of it. Its slices are used again.
type pass struct {
	taken, written, refused, failed []*transport.Settlement
	err                             error // of failed
}

// write sends what is submitted and asked for until the stream has ended.
func (s *stream) write() {
	defer close(s.written)
	var p pass
	for range s.writable {
		for {
			// One yield lets others submit what then leaves in the same write.
			runtime.Gosched()
			cancel, closing := s.cancelAsked.Load(), s.closeAsked.Load() // before Take: what was submitted earlier goes first
			p.taken = s.submitted.Take(p.taken[:0])
			request, ended := s.transmit(&p, cancel, closing)
			s.report(&p)
			if ended {
				return
			}
			if request != 0 {
				s.ask(request)
			} else if len(p.taken) == 0 {
				break
			}
		}
	}
}

// transmit writes p.taken and chooses the request to send after it, 0 if none.
func (s *stream) transmit(p *pass, cancel, closing bool) (request frameKind, ended bool) {
	b := s.broker
	p.written, p.refused, p.failed, p.err = p.written[:0], p.refused[:0], p.failed[:0], nil
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.end.Kind != 0 || s.closeSent || s.session.closing {
		p.failed, p.err = append(p.failed, p.taken...), s.closedError("settle")
		return 0, s.end.Kind != 0
	}
	for _, x := range p.taken {
		e := s.outstanding.find(x.Tag)
		switch {
		case e == nil || e.written || x.Verb < transport.Ack || x.Verb > transport.Reject:
			p.refused = append(p.refused, x)
		case b.failWrites > 0:
			b.failWrites--
			e.written = true
			p.failed, p.err = append(p.failed, x), b.failure
		default:
			p.written = append(p.written, x)
			s.wrote++
			if s.session.silent {
				e.written = true
				s.backlog = append(s.backlog, frame{kind: frameSettlement, n: x.Tag, verb: x.Verb})
				continue
			}
			s.taken++
			b.settle(s.queue, s.outstanding.settle(e), x.Verb)
		}
	}
	if len(p.written) > 0 {
		s.queue.offer(s)
		s.queue.dispatch()
	}
	return s.nextRequest(cancel, closing), false
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

// report tells the sink what became of a pass.
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
}

// ask sends a request. What the sink submits when it observes that it left goes after it, for nobody else writes.
func (s *stream) ask(request frameKind) {
	switch request {
	case frameCancel:
		s.sink.Observe(transport.Observation{Kind: transport.ObservedCancelWritten, At: now()})
	case frameClose:
		s.sink.Observe(transport.Observation{Kind: transport.ObservedCloseWritten, At: now()})
	}
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	switch {
	case s.end.Kind != 0:
	case s.session.silent:
		s.backlog = append(s.backlog, frame{kind: request})
	default:
		s.take(request)
	}
}

// take is the broker's act on a request.
func (s *stream) take(request frameKind) {
	answer := frame{kind: request, n: s.taken}
	kind := ReplyBarrier
	switch request {
	case frameCancel:
		kind = ReplyCancel
		s.queue.detach(s)
		s.queue.dispatch()
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

// takeBacklog is the broker's act on everything that was written while it was silent.
func (s *stream) takeBacklog() {
	backlog := s.backlog
	s.backlog = nil
	for _, f := range backlog {
		if f.kind != frameSettlement {
			s.take(f.kind)
			continue
		}
		e := s.outstanding.find(f.n)
		s.taken++
		s.broker.settle(s.queue, s.outstanding.settle(e), f.verb)
	}
	s.queue.offer(s)
	s.queue.dispatch()
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
