package rabbitmq

import (
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/lastcall-go/lastcall/transport"
)

// stream is one channel with one consumer. Three goroutines serve it, owned by the session: read hands deliveries over, the
// writer sends settlements, and life reports evidence, waits for the other two and calls Ended.
type stream struct {
	session  *session
	channel  *amqp.Channel
	lane     *lane
	sink     transport.Sink
	writer   *writer
	queue    string
	tag      string
	prefetch uint64
	classic  bool        // declared so
	quorum   atomic.Bool // declared so, or seen to be

	received atomic.Uint64
	drained  chan struct{} // closed when read has returned

	turn    chan struct{} // one slot: a channel has one reply slot, and two requests would get each other's answers
	overdue atomic.Bool   // the request that has the turn is past help

	cancelAsked atomic.Bool   // by us, or the broker did it unasked
	cancelTaken atomic.Uint64 // settlements that were written before a cancel that was answered
	closing     chan struct{} // one slot: one Close at a time
	provable    atomic.Uint64 // what close-ok will prove
	closeAsked  atomic.Bool
	closeReturn chan struct{} // closed when closeErr and closeAt are set
	closeErr    error
	closeAt     time.Time

	notes   notes
	giveUp  chan struct{} // closed when the channel of a cancelled consumer does not close
	ended   chan struct{} // closed after Ended
	end     transport.End
	closeOK bool   // our close was answered
	byReply uint64 // of life alone: the settlements that an answer has proven
}

func newStream(s *session, ch *amqp.Channel, l *lane, sub transport.Subscription, sink transport.Sink) *stream {
	st := &stream{
		session: s, channel: ch, lane: l, sink: sink, queue: sub.Queue, tag: sub.Tag, prefetch: uint64(sub.Prefetch),
		classic: sub.Declare == transport.DeclareClassic,
		drained: make(chan struct{}), turn: make(chan struct{}, 1), closing: make(chan struct{}, 1), closeReturn: make(chan struct{}),
		notes: notes{wake: make(chan struct{}, 1)}, giveUp: make(chan struct{}), ended: make(chan struct{}),
	}
	st.quorum.Store(sub.Declare == transport.DeclareQuorum)
	st.writer = newWriter(st)
	return st
}

func (s *stream) ConsumerTag() string { return s.tag }
func (s *stream) CountsReturns() bool { return s.session.countsReturns && s.quorum.Load() }

func (s *stream) Submit(x *transport.Settlement) { s.writer.submit(x) }

// read hands deliveries over until amqp091 has no more.
func (s *stream) read(deliveries <-chan amqp.Delivery) {
	defer close(s.drained)
	var n uint64
	for d := range deliveries {
		n++
		if d.DeliveryTag != n {
			s.session.conn.fail(transport.EndProtocol, errTagOutOfOrder)
			return
		}
		s.received.Store(n)
		if n > s.prefetch {
			s.sink.Proven(n-s.prefetch, transport.ProvenWindow)
		}
		s.sink.Deliver(s.delivery(&d))
	}
}

// delivery converts what amqp091 read; it is the one allocation made here for a delivery.
func (s *stream) delivery(d *amqp.Delivery) *transport.Delivery {
	out := &transport.Delivery{
		Tag: d.DeliveryTag, Body: d.Body, Redelivered: d.Redelivered,
		MessageID: d.MessageId, CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Type: d.Type, AppID: d.AppId,
		ContentType: d.ContentType, Encoding: d.ContentEncoding, Exchange: d.Exchange, RoutingKey: d.RoutingKey,
		Priority: d.Priority, Persistent: d.DeliveryMode == amqp.Persistent, Published: d.Timestamp,
	}
	if len(d.Headers) > 0 {
		out.Headers = fromTable(d.Headers)
		if count, ok := out.Headers[deliveryCount]; ok {
			out.DeliveryCount = toCount(count)
			s.quorum.Store(!s.classic) // a copied header at worst has something finished that might have been handed back
		}
	}
	return out
}
