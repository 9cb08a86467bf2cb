package transporttest

import (
	"context"
	"time"

	"github.com/lastcall-go/lastcall/transport"
)

var consumeCases = []testCase{
	{name: "a session says who its peer is", test: func(e *env) {
		if e.transport.Kind() == "" {
			e.Error("the transport has no kind")
		}
		s := e.dial()
		info := s.Info()
		if info.Product == "" {
			e.Error("the peer has no product name")
		}
		e.closeSession(s)
		if s.Info() != info {
			e.Errorf("Info changed from %+v to %+v", info, s.Info())
		}
	}},

	{name: "consumer tags are what was asked for, or unique", test: func(e *env) {
		s := e.dial()
		asked := e.consume(s, transport.Subscription{Queue: e.queue(0), Tag: "of-my-own"}, e.recorder(1))
		if tag := asked.stream.ConsumerTag(); tag != "of-my-own" {
			e.Errorf("the tag is %q", tag)
		}
		q := e.queue(0)
		a, b := e.open(s, q, 1), e.open(e.dial(), q, 1)
		if a.stream.ConsumerTag() == "" || a.stream.ConsumerTag() == b.stream.ConsumerTag() {
			e.Errorf("the tags are %q and %q", a.stream.ConsumerTag(), b.stream.ConsumerTag())
		}
	}},

	{name: "counters of a queue are right or not known", test: func(e *env) {
		q := e.queue(5)
		r := e.open(e.dial(), q, 2)
		r.awaitDeliveries(2)
		if state, ok := r.stream.QueueState(); ok && (state.Consumers != 1 || state.Ready > 5 || state.At.IsZero()) {
			e.Errorf("5 messages, 2 of them delivered to 1 consumer: %+v", state)
		}
	}},

	{name: "a declared queue is found as it is", test: func(e *env) {
		s := e.dial()
		q := e.queue(3)
		r := e.consume(s, transport.Subscription{Queue: q, Declare: e.kind}, e.recorder(3))
		r.awaitDeliveries(3)
	}},

	{name: "a refused Consume leaves nothing behind", test: func(e *env) {
		s := e.dial()
		q := e.queue(4)
		kept := e.open(s, q, 1)
		kept.awaitDeliveries(1)
		other := transport.DeclareQuorum
		if e.kind == other {
			other = transport.DeclareClassic
		}
		for _, c := range []struct {
			name string
			sub  transport.Subscription
			want transport.ErrorKind
		}{
			{"a missing queue", transport.Subscription{Queue: q + "-missing", Prefetch: 1}, transport.KindNotFound},
			{"another kind", transport.Subscription{Queue: q, Prefetch: 1, Declare: other}, transport.KindMismatch},
			{"no prefetch", transport.Subscription{Queue: q}, transport.KindInvalid},
			{"a negative prefetch", transport.Subscription{Queue: q, Prefetch: -1}, transport.KindInvalid},
		} {
			e.refused(s, c.name, c.sub, c.want)
		}
		for tag := uint64(1); tag <= 4; tag++ { // the session's other stream gets all the rest: nobody else consumes
			kept.awaitDeliveries(int(tag))
			kept.settle(tag, transport.Ack)
		}
		e.closeStream(kept)
		e.end(s)
		e.wantLeft(q)
	}},

	{name: "an exclusive consumer is alone", kind: transport.DeclareClassic, test: func(e *env) {
		s := e.dial()
		shared, alone := e.queue(1), e.queue(1)
		first := e.open(s, shared, 1)
		first.awaitDeliveries(1)
		e.refused(s, "a queue that is not ours alone", transport.Subscription{Queue: shared, Prefetch: 1, Exclusive: true}, transport.KindLocked)
		second := e.consume(s, transport.Subscription{Queue: alone, Exclusive: true}, e.recorder(1))
		second.awaitDeliveries(1)
		e.refused(s, "a queue that is another's", transport.Subscription{Queue: alone, Prefetch: 1}, transport.KindLocked)
		e.closeStream(second)
		e.open(s, alone, 1).awaitDeliveries(1) // it is free again
	}},

	{name: "a call whose context is over does nothing", test: func(e *env) {
		ctx, cancel := context.WithCancelCause(e.Context())
		cancel(errOver)
		if s, err := e.transport.Dial(ctx); err == nil {
			e.end(s)
			e.Error("Dial returned a session")
		} else {
			e.wantUnanswered("Dial", err)
		}
		s, q := e.dial(), e.queue(1)
		_, err := s.Consume(ctx, transport.Subscription{Queue: q, Prefetch: 1}, forbidden{e, "a context that is over"})
		if err == nil {
			e.Error("Consume returned a stream")
		} else {
			e.wantUnanswered("Consume", err)
		}
		e.open(s, q, 1).awaitDeliveries(1)
	}},

	{name: "Dial ends with its context when the peer is silent", needs: []Fault{FaultSilenceDial}, test: func(e *env) {
		resume := e.Faults.SilenceDial(e, e.transport)
		defer resume()
		e.wantUnanswered("Dial", e.promptly("Dial", func(ctx context.Context) error {
			_, err := e.transport.Dial(ctx)
			return err
		}))
	}},

	{name: "Consume ends with its context when the peer is silent", needs: []Fault{FaultSilence}, test: func(e *env) {
		s, q := e.dial(), e.queue(3)
		other := e.openAuto(s, e.queue(0), 1, transport.Ack)
		resume := e.Faults.Silence(e, s)
		defer resume()
		e.wantUnanswered("Consume", e.promptly("Consume", func(ctx context.Context) error {
			_, err := s.Consume(ctx, transport.Subscription{Queue: q, Prefetch: 3}, forbidden{e, "a silent peer"})
			return err
		}))
		resume()
		e.closeStream(other) // the session is still good
		third := e.openAuto(s, q, 1, transport.Ack)
		third.awaitWritten(3) // and nobody else has the messages
		e.closeStream(third)
		e.closeSession(s)
	}},
}

// refused consumes and fails the test unless that is refused with the kind, and the Sink hears nothing of it.
func (e *env) refused(s transport.Session, name string, sub transport.Subscription, want transport.ErrorKind) {
	e.Helper()
	ctx, cancel := e.ctx(e.Patience)
	defer cancel()
	_, err := s.Consume(ctx, sub, forbidden{e, name})
	e.wantKind("Consume of "+name, err, want)
}

// forbidden is the Sink of a stream that must not come to be.
type forbidden struct {
	*env
	name string
}

func (f forbidden) Deliver(*transport.Delivery) { f.Errorf("Deliver to the Sink of %s", f.name) }
func (f forbidden) Written([]*transport.Settlement, time.Time) {
	f.Errorf("Written to the Sink of %s", f.name)
}
func (f forbidden) Failed([]*transport.Settlement, error) {
	f.Errorf("Failed to the Sink of %s", f.name)
}
func (f forbidden) Proven(uint64, transport.Proof) { f.Errorf("Proven to the Sink of %s", f.name) }
func (f forbidden) Observe(o transport.Observation) {
	f.Errorf("%s observed by the Sink of %s", o.Kind, f.name)
}
func (f forbidden) Ended(transport.End) { f.Errorf("Ended to the Sink of %s", f.name) }
