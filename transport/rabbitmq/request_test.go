package rabbitmq_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/internal/faultproxy"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/transporttest"
)

// method is how a request begins on the wire: class and number, behind the frame's size.
func method(class, number byte) []byte { return []byte{0, class, 0, number} }

// FACTS 6: none of amqp091's calls takes a deadline. Whichever request the peer leaves unanswered, the caller comes back when its
// context ends, nothing waits for it, and a cut frees every goroutine.
func TestBlackHoleInEachRequest(t *testing.T) {
	a := newAdmin(t)
	const n = 40 // more than 32, so that the close has something to ask
	sub := transport.Subscription{Prefetch: n}
	open := func(ctx context.Context, s transport.Session, r *tape) error {
		stream, err := s.Consume(ctx, sub, r)
		r.stream = stream
		return err
	}
	opened := func(t *testing.T, s transport.Session, r *tape) {
		consume(t, s, sub, r)
		r.awaitDeliveries(t, n)
		r.settle(transport.Ack, descending(n, 2)...)
		r.awaitWritten(t, n-1)
	}
	closeStream := func(ctx context.Context, _ transport.Session, r *tape) error { return r.stream.Close(ctx) }
	closeSession := func(ctx context.Context, s transport.Session, _ *tape) error { return s.Close(ctx) }
	for _, c := range []struct {
		name    string
		request []byte
		before  func(*testing.T, transport.Session, *tape)
		call    func(context.Context, transport.Session, *tape) error
		want    transport.ErrorKind // 0: the context's cause and no *transport.Error
	}{
		{"channel.open", method(20, 10), nil, open, transport.KindUnanswered},
		{"queue.declare", method(50, 10), nil, open, transport.KindUnanswered},
		{"basic.qos", method(60, 10), nil, open, transport.KindUnanswered},
		{"basic.consume", method(60, 20), nil, open, transport.KindUnanswered},
		{"basic.cancel", method(60, 30), opened, closeStream, 0},
		{"channel.close", method(20, 40), opened, closeStream, 0},
		{"connection.close", method(10, 50), opened, closeSession, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			noLeaks(t)
			rig := newRig(t)
			s := dial(t, rig)
			r := &tape{}
			sub.Queue = a.queue(t, transporttest.QueueOptions{Kind: transport.DeclareQuorum})
			a.publish(t, sub.Queue, numbered(n)...)
			if c.before != nil {
				c.before(t, s, r)
			}
			hole := make(chan struct{})
			rig.proxy.When(faultproxy.ToServer, c.request, func() {
				rig.proxy.Set(faultproxy.ToServer, faultproxy.Discard)
				rig.proxy.Set(faultproxy.ToClient, faultproxy.Discard)
				close(hole)
			})
			cause := errors.New("no answer")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 150*time.Millisecond, cause)
			defer cancel()
			began := time.Now()
			err := c.call(ctx, s, r)
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("came back after %s", took)
			}
			if !errors.Is(err, cause) || transport.KindOf(err) != c.want {
				t.Errorf("%v, want the context's cause, kind %s", err, c.want)
			}
			within(t, "the request at the proxy", hole)
			if r.stream != nil && c.want == 0 && bytes.Equal(c.request, method(60, 30)) {
				// One reply slot: nothing is sent behind it, and the caller is told at once, so that it can go on to the session.
				if err := r.stream.Close(t.Context()); transport.KindOf(err) != transport.KindUnanswered {
					t.Errorf("the next close: %v, want unanswered", err)
				}
			}
			if c.want != 0 && r.stream != nil {
				t.Error("a stream was returned")
			}
			end(t, s)
			if c.before != nil {
				if got := r.awaitEnd(t); got.Kind != transport.EndCut || !got.OfSession {
					t.Errorf("the stream ended as %+v", got)
				}
			}
		})
	}
}

// FACTS 8, case A09: requests on one channel get each other's replies unless they take turns.
func TestRequestsTakeTurns(t *testing.T) {
	noLeaks(t)
	a := newAdmin(t)
	s := dial(t, newRig(t))
	q := a.queue(t, transporttest.QueueOptions{})
	for range 60 {
		r := consume(t, s, transport.Subscription{Queue: q, Prefetch: 5}, &tape{})
		var group sync.WaitGroup
		group.Go(r.stream.Cancel)
		group.Go(func() { _, _ = r.stream.QueueState() })
		group.Go(func() {
			if err := r.stream.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
		if got := r.awaitEnd(t); got.Kind != transport.EndCloseOK || got.OfSession {
			t.Fatalf("the stream ended as %+v", got)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
