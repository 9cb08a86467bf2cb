package transporttest

import (
	"context"
	"sync"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

var closeCases = []testCase{
	{name: "closing a stream writes and proves what was submitted", test: func(e *env) {
		for _, n := range []int{1, 20, 200} {
			s, q := e.dial(), e.queue(n)
			r := e.open(s, q, n)
			r.awaitDeliveries(n)
			for tag := 1; tag <= n; tag++ {
				r.settle(uint64(tag), transport.Ack)
			}
			e.closeStream(r)
			r.wantObserved(transport.ObservedCloseOK)
			r.awaitEnd(transport.EndCloseOK, transport.ByUs, false)
			if got := len(r.provenIDs(transport.Ack)); got != n {
				e.Errorf("%d of %d settlements are proven after the close", got, n)
			}
			e.closeStream(r) // it stays nil
			e.end(s)
			e.wantLeft(q)
			e.closeStream(r)
		}
	}},

	{name: "closing a stream gives the unsettled back, in order", test: func(e *env) {
		s, q := e.dial(), e.queue(10)
		r := e.consume(s, transport.Subscription{Queue: q, Ordered: true}, e.recorder(6))
		r.awaitDeliveries(6)
		r.settle(1, transport.Ack)
		e.closeStream(r)
		other := e.open(s, q, 20)
		other.awaitDeliveries(9)
		if diff := gocmp.Diff(messageIDs(1, 9), other.ids()); diff != "" {
			e.Errorf("at the next consumer (-want +got):\n%s", diff)
		}
	}},

	{name: "closing a stream leaves the session's others alone", test: func(e *env) {
		s, q := e.dial(), e.queue(10)
		a, b := e.open(s, e.queue(3), 3), e.openAuto(s, q, 2, transport.Ack)
		a.awaitDeliveries(3)
		e.closeStream(a)
		b.awaitWritten(10)
		c := e.open(s, q, 1)
		e.Publish(e, q, messages(10, 1)...)
		e.await("a delivery to one of two", func() bool { return len(b.ids())+len(c.ids()) == 11 }, b, c)
	}},

	{name: "concurrent closes of a stream all return nil", test: func(e *env) {
		r := e.openAuto(e.dial(), e.queue(50), 50, transport.Ack)
		r.awaitDeliveries(50)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				ctx, cancel := e.ctx(e.Patience)
				defer cancel()
				if err := r.stream.Close(ctx); err != nil {
					e.Errorf("Stream.Close: %v", err)
				}
			})
		}
		group.Wait()
		r.wantObserved(transport.ObservedCloseOK)
	}},

	{name: "an unanswered close of a stream harms nothing but itself", needs: []Fault{FaultSilence}, test: func(e *env) {
		s, q := e.dial(), e.queue(3)
		r, other := e.open(s, q, 3), e.open(s, e.queue(0), 1)
		r.awaitDeliveries(3)
		r.settle(1, transport.Ack)
		r.awaitWritten(1)
		resume := e.Faults.Silence(e, s)
		defer resume()
		e.wantUnanswered("Stream.Close", e.promptly("Stream.Close", r.stream.Close))
		e.wantUnanswered("the second Stream.Close", e.promptly("the second Stream.Close", r.stream.Close))
		resume()
		e.closeStream(other)
		e.closeSession(s)
		e.end(s)
		e.wantLeft(q, messageIDs(1, 2)...)
	}},

	{name: "closing a session is answered, and ends its streams", test: func(e *env) {
		s, q := e.dial(), e.queue(5)
		r, closed := e.open(s, q, 3), e.open(s, e.queue(0), 1)
		r.awaitDeliveries(3)
		e.closeStream(closed)
		e.closeSession(s)
		r.awaitEnd(transport.EndCloseOK, transport.ByUs, true)
		r.wantObserved(transport.ObservedConnectionCloseOK)
		closed.awaitEnd(transport.EndCloseOK, transport.ByUs, false)
		if end := s.End(); end.Kind != transport.EndCloseOK || end.By != transport.ByUs || end.At.IsZero() {
			e.Errorf("the session ended as %+v", end)
		}
		e.closeSession(s) // it stays nil
		e.wantKind("Stream.Close after the session's", r.stream.Close(e.Context()), transport.KindClosed)
		e.closeStream(closed)
		e.end(s)
		e.closeSession(s)
		e.wantLeft(q, messageIDs(0, 5)...)
	}},

	{name: "a close that was answered stays so, whatever the next call's context", test: func(e *env) {
		s := e.dial()
		r := e.open(s, e.queue(0), 1)
		over, cancel := context.WithCancelCause(e.Context())
		cancel(errOver)
		e.closeStream(r)
		for range 20 {
			if err := r.stream.Close(over); err != nil {
				e.Fatalf("Stream.Close: %v", err)
			}
		}
		e.closeSession(s)
		for range 20 {
			if err := s.Close(over); err != nil {
				e.Fatalf("Session.Close: %v", err)
			}
		}
	}},

	{name: "closing a session that ended otherwise is an error", test: func(e *env) {
		s := e.dial()
		r := e.open(s, e.queue(0), 1)
		e.end(s)
		e.wantKind("Session.Close", s.Close(e.Context()), transport.KindClosed)
		e.wantKind("Stream.Close", r.stream.Close(e.Context()), transport.KindClosed)
		_, err := s.Consume(e.Context(), transport.Subscription{Queue: e.queue(0), Prefetch: 1}, e.recorder(1))
		e.wantKind("Consume", err, transport.KindClosed)
	}},

	{name: "an unanswered close of a session ends with its context and leaves the cut", needs: []Fault{FaultSilence}, test: func(e *env) {
		s, q := e.dial(), e.queue(2)
		r := e.open(s, q, 2)
		r.awaitDeliveries(2)
		resume := e.Faults.Silence(e, s)
		defer resume()
		e.wantCause("Session.Close", e.promptly("Session.Close", s.Close))
		e.wantCause("the second Session.Close", e.promptly("the second Session.Close", s.Close))
		select {
		case <-s.Done():
			e.Error("the session has ended although nothing was answered and nobody cut it")
		default:
		}
		e.end(s)
		r.awaitEnd(transport.EndCut, transport.ByUs, true)
	}},

	{name: "a cut returns whoever waits for an answer", needs: []Fault{FaultSilence}, test: func(e *env) {
		for name, call := range map[string]func(context.Context, transport.Session, *recorder) error{
			"Session.Close": func(ctx context.Context, s transport.Session, _ *recorder) error { return s.Close(ctx) },
			"Stream.Close":  func(ctx context.Context, _ transport.Session, r *recorder) error { return r.stream.Close(ctx) },
			"Consume": func(ctx context.Context, s transport.Session, _ *recorder) error {
				_, err := s.Consume(ctx, transport.Subscription{Queue: "any", Prefetch: 1}, e.recorder(1))
				return err
			},
		} {
			s := e.dial()
			r := e.open(s, e.queue(0), 1)
			resume := e.Faults.Silence(e, s)
			result := make(chan error, 1)
			go func() {
				ctx, cancel := e.ctx(e.Patience)
				defer cancel()
				result <- call(ctx, s, r)
			}()
			if err := deadline.Sleep(e.Context(), shortly); err != nil { // let it get as far as waiting; nothing depends on it
				e.Fatal(err)
			}
			s.Cut()
			e.wantKind(name, e.returns(name+" after the cut", result), transport.KindClosed)
			resume()
			e.end(s)
		}
	}},
}
