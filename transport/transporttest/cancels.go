package transporttest

import (
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

var cancelCases = []testCase{
	{name: "a cancel is observed when it left and when it is answered, once", test: func(e *env) {
		r := e.open(e.dial(), e.queue(0), 1)
		r.stream.Cancel()
		r.stream.Cancel()
		r.awaitObserved(transport.ObservedCancelOK)
		r.stream.Cancel()
		e.closeStream(r)
		r.stream.Cancel()
		r.wantObserved(transport.ObservedCancelWritten, transport.ObservedCancelOK, transport.ObservedCloseOK)
	}},

	{name: "nothing is delivered after cancel-ok", test: func(e *env) {
		s, q := e.dial(), e.queue(4)
		r := e.open(s, q, 10)
		r.awaitDeliveries(4)
		r.stream.Cancel()
		r.awaitObserved(transport.ObservedCancelOK)
		e.Publish(e, q, messages(4, 6)...)
		other := e.open(e.dial(), q, 10)
		other.awaitDeliveries(6) // they went past the cancelled one
		e.wantSame("deliveries", messageIDs(0, 4), r.ids())
	}},

	{name: "a cancelled stream still settles", test: func(e *env) {
		s, q := e.dial(), e.queue(8)
		r := e.open(s, q, 8)
		r.awaitDeliveries(8)
		r.stream.Cancel()
		r.awaitObserved(transport.ObservedCancelOK)
		for tag := uint64(1); tag <= 7; tag++ {
			r.settle(tag, transport.Ack)
		}
		e.closeStream(r)
		e.end(s)
		if got := len(r.provenIDs(transport.Ack)); got != 7 {
			e.Errorf("%d of 7 settlements are proven", got)
		}
		e.wantLeft(q, messageID(7))
	}},

	{name: "what is handed back after the cancel left goes to others and never comes back", test: func(e *env) {
		const n, prefetch = 60, 20
		for range 5 {
			first, second, q := e.dial(), e.dial(), e.queue(n)
			r := e.recorder(prefetch)
			left := make(chan struct{})
			r.react = func(o transport.Observation) {
				if o.Kind == transport.ObservedCancelWritten {
					close(left)
				}
			}
			e.consume(first, transport.Subscription{Queue: q}, r)
			other := e.recorder(n)
			other.auto = transport.Ack
			r.awaitDeliveries(prefetch)
			for tag := uint64(1); tag <= 3; tag++ {
				r.settle(tag, transport.Ack) // so that deliveries are on the way while the cancel goes out
			}
			r.stream.Cancel()
			e.awaitClosed("cancel_written", left)
			e.consume(second, transport.Subscription{Queue: q}, other)
			began := deadline.Now()
			back := 3
			for done := false; !done; {
				r.await("deliveries or cancel-ok", func() bool {
					done = r.times(transport.ObservedCancelOK) > 0
					return len(r.deliveries) > back || done
				})
				for back < len(r.ids()) {
					back++
					r.settle(uint64(back), transport.Requeue)
				}
			}
			other.awaitDeliveries(n - 3)
			took := deadline.Since(began)
			e.Logf("%d were handed back, and all others were at the second consumer after %s", back-3, took)
			if took > prompt {
				e.Errorf("what was handed back reached the other consumer after %s", took)
			}
			for _, d := range r.got() {
				if d.Redelivered {
					e.Errorf("%s came back to the stream that was cancelled", d.MessageID)
				}
			}
			e.closeStream(r)
			e.closeStream(other)
			e.wantSame("at the second consumer", messageIDs(3, n-3), other.ids())
			e.end(first)
			e.end(second)
			e.wantLeft(q)
		}
	}},

	{name: "an unanswered cancel harms neither the stream nor the session", needs: []Fault{FaultSilence}, test: func(e *env) {
		s, q := e.dial(), e.queue(2)
		r := e.open(s, q, 1)
		r.awaitDeliveries(1)
		resume := e.Faults.Silence(e, s)
		defer resume()
		r.stream.Cancel()
		r.awaitObserved(transport.ObservedCancelWritten)
		e.wantUnanswered("Stream.Close behind a cancel", e.promptly("Stream.Close behind a cancel", r.stream.Close))
		e.wantUnanswered("the second Stream.Close", e.promptly("the second Stream.Close", r.stream.Close))
		resume()
		e.closeSession(s)
	}},
}
