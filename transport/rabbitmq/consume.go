package rabbitmq

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/lastcall-go/lastcall/transport"
)

const (
	maxShort    = 255 // bytes of an AMQP short string
	maxPrefetch = math.MaxUint16
)

// Consume opens a channel, declares, sets the prefetch and consumes. When ctx ends in between, the request in flight is left
// behind, and the channel closed as soon as its answer comes.
func (s *session) Consume(ctx context.Context, sub transport.Subscription, sink transport.Sink) (transport.Stream, error) {
	arguments, err := check(sub)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, &transport.Error{Kind: transport.KindUnanswered, Op: "consume", Subject: sub.Queue, Err: context.Cause(ctx)}
	}
	tag, err := s.reserve(sub.Tag)
	if err != nil {
		return nil, err
	}
	sub.Tag = tag
	if sub.Ordered && sub.Declare != transport.DeclareClassic {
		// Then the broker never has more to keep back than it takes, and the close needs no cancel, which would break the order.
		sub.Prefetch = min(sub.Prefetch, maxUnapplied)
	}
	o := &opening{session: s, sub: sub, arguments: arguments, sink: sink, opened: make(chan error, 1)}
	o.op.Store("open channel")
	if !s.spawn(o.run) {
		s.unreserve(tag)
		return nil, &transport.Error{Kind: transport.KindClosed, Op: "consume", Subject: sub.Queue, Text: "the session has ended"}
	}
	select {
	case err = <-o.opened:
	case <-ctx.Done():
		if o.decided.CompareAndSwap(false, true) {
			return nil, &transport.Error{Kind: transport.KindUnanswered, Op: o.op.Load().(string), Subject: sub.Queue, Err: context.Cause(ctx)}
		}
		err = <-o.opened
	}
	if err != nil {
		return nil, err
	}
	return o.stream, nil
}

// opening is one Consume under way.
type opening struct {
	session   *session
	sub       transport.Subscription
	arguments amqp.Table
	sink      transport.Sink

	op      atomic.Value // string: the request in flight
	decided atomic.Bool  // whose the outcome is: set first by run, it is Consume's; by Consume, it is nobody's
	stream  *stream
	opened  chan error
}

// run makes the requests one after the other. It outlives Consume if an answer does not come, and ends with the session.
func (o *opening) run() {
	st, err := o.open()
	switch {
	case err == nil && o.decided.CompareAndSwap(false, true):
		if o.session.adopt(st.stream, st.run...) {
			o.stream = st.stream
			o.opened <- nil
			return
		}
		err = &transport.Error{Kind: transport.KindClosed, Op: "consume", Subject: o.sub.Queue, Text: "the session has ended"}
	case err != nil:
		o.decided.Store(true)
	}
	if st.stream != nil {
		_ = st.channel.Close()
	}
	o.session.unreserve(o.sub.Tag)
	o.opened <- err
}

// ready is a stream with the goroutines that make it live.
type ready struct {
	*stream
	run []func()
}

// open makes the requests. With an error it returns the stream too if there is a channel to close.
func (o *opening) open() (ready, error) {
	sub := o.sub
	failed := func(op string, err error) error {
		if err == nil && o.decided.Load() {
			return context.Canceled // nobody waits for it any more
		}
		return brokerError(op, sub.Queue, err)
	}
	ch, l, err := o.session.openChannel()
	if err != nil {
		return ready{}, failed("open channel", err)
	}
	st := newStream(o.session, ch, l, sub, o.sink)
	closes, cancels := ch.NotifyClose(make(chan *amqp.Error, 1)), ch.NotifyCancel(make(chan string, 1))
	r := ready{stream: st}

	o.op.Store("declare")
	switch sub.Declare {
	case transport.DeclareClassic, transport.DeclareQuorum:
		_, err = ch.QueueDeclare(sub.Queue, true, false, false, false, o.arguments)
	default:
		_, err = ch.QueueDeclarePassive(sub.Queue, true, false, false, false, nil)
	}
	if err := failed("declare", err); err != nil {
		return r, err
	}
	o.op.Store("qos")
	if err := failed("qos", ch.Qos(sub.Prefetch, 0, false)); err != nil {
		return r, err
	}
	o.op.Store("consume")
	deliveries, err := ch.Consume(sub.Queue, sub.Tag, false, sub.Exclusive, false, false, nil)
	if err := failed("consume", err); err != nil {
		return r, err
	}
	r.run = []func(){func() { st.read(deliveries) }, st.writer.run, func() { st.life(closes, cancels) }}
	return r, nil
}

// check refuses what makes no sense before anything is sent, and returns the arguments as AMQP has them.
func check(sub transport.Subscription) (amqp.Table, error) {
	refuse := func(format string, args ...any) error {
		return &transport.Error{Kind: transport.KindInvalid, Op: "consume", Subject: sub.Queue, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case sub.Queue == "" || len(sub.Queue) > maxShort:
		return nil, refuse("the queue name must be 1 to %d bytes long", maxShort)
	case len(sub.Tag) > maxShort:
		return nil, refuse("the consumer tag must be at most %d bytes long", maxShort)
	case sub.Prefetch < 1 || sub.Prefetch > maxPrefetch:
		return nil, refuse("the prefetch is %d: it must lie between 1 and %d", sub.Prefetch, maxPrefetch)
	case sub.Declare > transport.DeclareQuorum:
		return nil, refuse("%s is no declaration", sub.Declare)
	case sub.Exclusive && sub.Declare == transport.DeclareQuorum:
		return nil, refuse("RabbitMQ does not keep other consumers off a quorum queue: give it the argument x-single-active-consumer instead")
	}
	arguments, err := toTable(sub.Arguments)
	if err != nil {
		return nil, refuse("arguments: %s", err)
	}
	switch sub.Declare {
	case transport.DeclareClassic:
		arguments[queueType] = amqp.QueueTypeClassic
	case transport.DeclareQuorum:
		arguments[queueType] = amqp.QueueTypeQuorum
	default:
		if len(sub.Arguments) > 0 {
			return nil, refuse("arguments need a declaration as classic or quorum: a passive one has none")
		}
	}
	return arguments, nil
}
