package transporttest

import (
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

var endCases = []testCase{
	{name: "a cut frees everything and says so", test: func(e *env) {
		s, q := e.dial(), e.queue(10)
		a, b := e.open(s, q, 4), e.open(s, q, 3)
		a.awaitDeliveries(4)
		b.awaitDeliveries(3)
		s.Cut()
		s.Cut()
		e.awaitEnds(s, transport.EndCut, transport.ByUs, transport.ObservedCut, a, b)
		e.end(s)
		s.Cut()
		if k := s.End().Kind; k != transport.EndCut {
			e.Errorf("the session's end changed to %s", k)
		}
		e.wantLeft(q, messageIDs(0, 10)...)
	}},

	{name: "what a cut session had goes to others at once", test: func(e *env) {
		first, q := e.dial(), e.queue(5)
		e.open(first, q, 5).awaitDeliveries(5)
		other := e.openAuto(e.dial(), q, 5, transport.Ack)
		began := deadline.Now()
		first.Cut()
		other.awaitWritten(5)
		if took := deadline.Since(began); took > prompt {
			e.Errorf("it took %s", took)
		}
		for _, d := range other.got() {
			if !d.Redelivered {
				e.Errorf("%s is not marked as redelivered", d.MessageID)
			}
		}
		e.closeStream(other)
	}},

	{name: "nothing comes after the end", test: func(e *env) {
		s, q := e.dial(), e.queue(0)
		r := e.openAuto(s, q, 4, transport.Ack)
		e.Publish(e, q, messages(0, 50)...)
		r.awaitDeliveries(10)
		s.Cut()
		r.awaitEnd(transport.EndCut, transport.ByUs, true)
		e.Publish(e, q, messages(50, 20)...) // any call after Ended fails the test
		other := e.openAuto(e.dial(), q, 100, transport.Ack)
		other.await("the last message", func() bool {
			n := len(other.deliveries)
			return n > 0 && other.deliveries[n-1].MessageID == messageID(69)
		})
		e.closeStream(other)
	}},

	{name: "a close by the broker is told with its code", needs: []Fault{FaultDrop}, test: func(e *env) {
		s, q := e.dial(), e.queue(5)
		a, b := e.open(s, q, 3), e.open(s, e.queue(0), 3)
		a.awaitDeliveries(3)
		e.Faults.Drop(e, s)
		e.awaitEnds(s, transport.EndPeerClose, transport.ByPeer, transport.ObservedPeerClose, a, b)
		if s.End().Code == 0 {
			e.Error("the session's end has no code")
		}
		e.wantKind("Session.Close", s.Close(e.Context()), transport.KindClosed)
		e.end(s)
		if k := s.End().Kind; k != transport.EndPeerClose {
			e.Errorf("the session's end changed to %s", k)
		}
		e.wantLeft(q, messageIDs(0, 5)...)
	}},

	{name: "a reset is told from a close", needs: []Fault{FaultReset}, test: func(e *env) {
		s, q := e.dial(), e.queue(5)
		a, b := e.open(s, q, 3), e.open(s, e.queue(0), 3)
		a.awaitDeliveries(3)
		e.Faults.Reset(e, s)
		e.awaitEnds(s, transport.EndPeerReset, transport.ByPeer, transport.ObservedPeerReset, a, b)
		e.end(s)
		e.wantLeft(q, messageIDs(0, 5)...)
	}},

	{name: "a consumer cancelled by the broker ends its stream alone", needs: []Fault{FaultDeleteQueue}, test: func(e *env) {
		s, doomed, q := e.dial(), e.queue(3), e.queue(5)
		r, other := e.open(s, doomed, 2), e.openAuto(s, q, 1, transport.Ack)
		r.awaitDeliveries(2)
		e.Faults.DeleteQueue(e, doomed)
		r.awaitEnd(transport.EndCancelled, transport.ByPeer, false)
		r.wantObserved(transport.ObservedConsumerCancelled)
		e.wantKind("Submit after it", e.failed(r, 1), transport.KindClosed)
		e.wantKind("Stream.Close after it", r.stream.Close(e.Context()), transport.KindClosed)
		other.awaitWritten(5)
		e.closeStream(other)
		e.closeSession(s)
	}},

	{name: "a late settlement reaches no other session", needs: []Fault{FaultDrop}, test: func(e *env) {
		q := e.queue(2)
		first := e.dial()
		old := e.open(first, q, 10)
		old.awaitDeliveries(2)
		e.Faults.Drop(e, first)
		e.awaitClosed("Session.Done", first.Done())
		second := e.dial()
		r := e.open(second, q, 10)
		r.awaitDeliveries(2)
		for i, d := range r.got() {
			if d.Tag != uint64(i+1) || !d.Redelivered {
				e.Errorf("%s has tag %d on the new session, redelivered %t", d.MessageID, d.Tag, d.Redelivered)
			}
		}
		e.wantKind("a late Submit", e.failed(old, 2), transport.KindClosed)
		e.closeStream(r)
		e.end(second)
		e.wantLeft(q, messageIDs(0, 2)...)
	}},
}

// failed submits an ack that must fail and returns its error.
func (e *env) failed(r *recorder, tag uint64) error {
	e.Helper()
	x := r.settle(tag, transport.Ack)
	r.await("the failure of a late settlement", func() bool { return x.reports > 0 })
	return x.err
}

// awaitEnds waits until a session is done and fails the test unless it and its streams ended as said, the streams first.
func (e *env) awaitEnds(s transport.Session, kind transport.EndKind, by transport.Party, seen transport.ObservationKind, streams ...*recorder) {
	e.Helper()
	e.awaitClosed("Session.Done", s.Done())
	end := s.End()
	if end.Kind != kind || end.By != by || end.OfSession || end.At.IsZero() {
		e.Errorf("the session ended as %+v, want %s by %s", end, kind, by)
	}
	for _, r := range streams {
		r.mu.Lock()
		if len(r.ends) == 0 {
			e.Error("the session was done before a stream had ended")
		} else if got := r.ends[0]; got.Code != end.Code || got.Text != end.Text {
			e.Errorf("a stream ended as %+v, its session as %+v", got, end)
		}
		r.mu.Unlock()
		r.awaitEnd(kind, by, true)
		r.wantObserved(seen)
	}
}
