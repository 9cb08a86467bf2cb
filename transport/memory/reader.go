package memory

import (
	"strconv"
	"strings"

	"github.com/lastcall-go/lastcall/transport"
)

// read hands over what arrives until the stream has ended, then ends it towards the sink.
func (s *stream) read() {
	defer s.session.readers.Done()
	var batch []frame
	for range s.readable {
		for {
			var notices []transport.Observation
			s.broker.mu.Lock()
			end := s.end
			if !s.session.silent {
				s.in, batch = batch[:0], s.in
				notices, s.notices = s.notices, nil
			}
			s.broker.mu.Unlock()
			if end.Kind != 0 {
				s.conclude(end)
				return
			}
			if len(batch) == 0 && len(notices) == 0 {
				break
			}
			for _, o := range notices {
				s.sink.Observe(o)
			}
			s.handle(batch)
			clear(batch)
			batch = batch[:0]
		}
	}
}

// handle hands over frames in order. The broker sent the last delivery among them only because it had taken enough
// settlements; that is known, and said, before the first.
func (s *stream) handle(batch []frame) {
	for i := len(batch) - 1; i >= 0; i-- {
		if f := &batch[i]; f.kind == frameDelivery {
			s.prove(f.n-min(f.n, uint64(s.prefetch)), transport.ProvenWindow)
			break
		}
	}
	for i := range batch {
		if s.gone.Load() {
			return
		}
		if f := &batch[i]; f.kind == frameDelivery {
			s.sink.Deliver(f.delivery(s.queue))
		} else {
			s.answered(f)
		}
	}
}

// prove reports that the broker has taken the first n settlements, if that is news.
func (s *stream) prove(n uint64, by transport.Proof) {
	if n > s.proven.Load() {
		s.proven.Store(n)
		s.sink.Proven(n, by)
	}
}

// answered takes the answer to the pending request.
func (s *stream) answered(f *frame) {
	s.prove(f.n, transport.ProvenReply)
	kind := transport.ObservedBarrier
	switch f.kind {
	case frameCancel:
		kind = transport.ObservedCancelOK
	case frameClose:
		kind = transport.ObservedCloseOK
	}
	s.sink.Observe(transport.Observation{Kind: kind, At: now()})
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	s.pending, s.givenUp = 0, 0
	if f.kind == frameClose {
		s.finish(transport.End{Kind: transport.EndCloseOK, By: transport.ByUs})
		return
	}
	wake(s.writable)
}

// conclude is the end towards the sink: write has returned, how it ended is observed, then Ended.
func (s *stream) conclude(e transport.End) {
	<-s.written
	if kind := observedEnd(e); kind != "" {
		detail := e.Text
		if e.Code != 0 {
			detail = strings.TrimSpace(strconv.Itoa(e.Code) + " " + e.Text)
		}
		s.sink.Observe(transport.Observation{Kind: kind, At: e.At, Detail: detail})
	}
	s.late.Store(true) // first, so that what is pushed is seen either here or by who pushed it
	s.failLate()
	s.sink.Ended(e)
	close(s.ended)
}

// observedEnd is the evidence of an end that has not been observed as an answer.
func observedEnd(e transport.End) transport.ObservationKind {
	switch {
	case e.Kind == transport.EndPeerClose:
		return transport.ObservedPeerClose
	case e.Kind == transport.EndPeerReset:
		return transport.ObservedPeerReset
	case e.Kind == transport.EndCut:
		return transport.ObservedCut
	case e.Kind == transport.EndCancelled:
		return transport.ObservedConsumerCancelled
	case e.Kind == transport.EndCloseOK && e.OfSession:
		return transport.ObservedConnectionCloseOK
	}
	return ""
}
