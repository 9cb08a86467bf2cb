package transport

import (
	"context"
	"time"
)

// Transport dials sessions. Implementations are safe for concurrent use.
type Transport interface {
	// Kind is the transport's name in configuration and report: "rabbitmq", "memory".
	Kind() string
	// Dial opens one session, once, without retry. It blocks; when ctx ends it returns promptly, whatever the peer does, and
	// leaves nothing behind. Errors are *Error.
	Dial(ctx context.Context) (Session, error)
}

// Session is one broker connection. Safe for concurrent use.
type Session interface {
	// Info describes the peer; it is constant.
	Info() Info
	// Consume opens a stream: its own channel, the declaration, the prefetch and the consumer. sink may be called before
	// Consume returns. It blocks; when ctx ends it returns promptly, with an *Error of KindUnanswered that wraps ctx's cause
	// where a request was under way; when the session has ended, with one of KindClosed. On an error nothing of it is left,
	// sink is not called again (not even Ended) and the session's other streams go on. Errors are *Error.
	Consume(ctx context.Context, sub Subscription, sink Sink) (Stream, error)
	// Done closes when the session has ended, by whomever; every stream's Sink has heard Ended by then.
	Done() <-chan struct{}
	// End says how the session ended. Valid once Done is closed.
	End() End
	// Close asks the peer to close the connection and waits for its answer. It returns nil only if the answer was observed
	// (also when it had been observed before, whatever ctx), ctx's cause if ctx ended first (the session is then still open:
	// Cut it), or an *Error of KindClosed if the session ended in another way. It is idempotent. What was submitted and is
	// not written when the close is asked for may be Failed: close the streams first.
	Close(ctx context.Context) error
	// Cut closes the socket without asking. It never blocks. The session ends as EndCut unless it had ended before. It may be
	// called at any time, by anyone, also while Close or Consume waits: they return.
	Cut()
	// Joined closes when every goroutine of the session and its streams has returned, after Done.
	Joined() <-chan struct{}
}

// Stream is one subscription's consumer on one session. Safe for concurrent use.
type Stream interface {
	// ConsumerTag is the tag the broker knows the consumer by.
	ConsumerTag() string
	// CountsReturns reports whether the broker is known to count returns against a delivery limit (a quorum queue before
	// RabbitMQ 4.3).
	CountsReturns() bool
	// Submit queues a settlement for the stream's one writer. It never blocks, allocates nothing and keeps the order of
	// calls: none is written in a later write than one submitted after it (within one write the transport chooses the order of
	// frames, and Written tells it). The settlement belongs to the stream until the sink hears of it in Written or Failed,
	// which happens exactly once, also when the stream has ended before: then Failed comes after Ended, and it may come on the
	// goroutine that calls Submit, so hold no lock around Submit that Failed needs. A tag that is not outstanding (never
	// delivered, or its settlement has been tried before) and a verb that is none are refused: Failed with an *Error of
	// KindInvalid, and nothing of them is sent.
	Submit(s *Settlement)
	// Cancel asks the broker to stop delivering. It returns at once; the sink observes ObservedCancelWritten when the request
	// left, and ObservedCancelOK if the answer comes. What still arrives is delivered. A settlement submitted after
	// ObservedCancelWritten reaches the broker after the cancel, so what is requeued then does not come back to this stream.
	// Later calls do nothing, and neither does a call after Close.
	Cancel()
	// Close ends the stream in order: what was submitted is written, the last settlements are proven as far as this broker
	// allows, the channel is closed. It returns nil only if the broker's answer to the close was observed (also when observed
	// before, whatever ctx). When a request on the channel is unanswered it does not queue another behind it but returns an
	// *Error of KindUnanswered at once if the request is past help (an earlier Close gave up on it), or ctx's cause when ctx
	// ends. The session is not harmed by either. A stream that ended otherwise, its session's close-ok included, returns an
	// *Error of KindClosed. What is submitted once the close has been written is Failed.
	Close(ctx context.Context) error
	// QueueState asks for the queue's counters where that is safe; ok is false where it is not known.
	QueueState() (state QueueState, ok bool)
}

// Sink receives what a stream observes. The methods are called by goroutines of the transport: Deliver by one at a time and
// in order, Written and Failed by one at a time and in write order, Proven and Observe at any time beside them. They must
// return quickly and must not call Session.Close or Stream.Close; Submit, Cancel and Cut are allowed.
type Sink interface {
	// Deliver hands over one delivery. At most Prefetch unsettled ones are outstanding. d is the sink's to keep; its Body and
	// Headers are not written again by anyone.
	Deliver(d *Delivery)
	// Written reports settlements whose frames left in one write, in order. The slice is the transport's: do not keep it.
	Written(batch []*Settlement, at time.Time)
	// Failed reports settlements that were not written, or not wholly. They have no place in the write order that Proven
	// counts. err is an *Error: of KindInvalid for what was refused, of KindClosed for what came too late.
	Failed(batch []*Settlement, err error)
	// Proven reports that the broker has taken at least the first n settlements in write order. n counts from the stream's
	// start, never falls, and may run ahead of Written. What the prefetch window proves is reported before the Deliver that
	// proves it.
	Proven(n uint64, by Proof)
	// Observe reports evidence.
	Observe(o Observation)
	// Ended is the last call, exactly once: no Deliver, Written, Proven or Observe follows, and Failed only for settlements
	// submitted later. Settlements submitted before the end and not yet reported have been reported as Failed before it. It
	// comes also after an orderly Close, and before Close returns. How a session ended is observed by each of its live streams
	// before Ended: ObservedConnectionCloseOK, ObservedPeerClose, ObservedPeerReset or ObservedCut.
	Ended(e End)
}

// Subscription says what to consume and how.
type Subscription struct {
	Queue string
	// Tag is the consumer tag asked for. Empty lets the transport make one; it must be unique per stream.
	Tag string
	// Prefetch caps the unsettled deliveries, at least 1.
	Prefetch int
	Declare  Declare
	// Arguments are the queue's arguments, for a declaration other than passive.
	Arguments map[string]any
	// Exclusive asks to be the queue's only consumer. Not every broker ensures that for every kind of queue: RabbitMQ 3.10
	// ignores it for quorum queues (measured).
	Exclusive bool
	// Ordered promises that the stream is closed without Cancel and without nacks: the transport must keep the order of what
	// goes back (close without cancel).
	Ordered bool
}

// Declare says what to do about the queue.
type Declare uint8

// The declarations. The zero Declare means DeclarePassive.
const (
	DeclareDefault Declare = iota
	DeclarePassive         // it must exist
	DeclareClassic         // durable classic queue
	DeclareQuorum          // quorum queue
)

// Delivery is one hand-over of a message by the broker.
type Delivery struct {
	// Tag is the delivery tag: 1, 2, 3, … per stream.
	Tag         uint64
	Body        []byte
	Redelivered bool
	// DeliveryCount is the broker's own count of earlier deliveries (x-delivery-count), 0 where it keeps none.
	DeliveryCount uint64

	MessageID     string
	CorrelationID string
	ReplyTo       string
	Type          string
	AppID         string
	ContentType   string
	Encoding      string
	Exchange      string
	RoutingKey    string
	Priority      uint8
	Persistent    bool
	Published     time.Time // zero where the publisher set none
	Headers       map[string]any
}

// Verb is the final word on a delivery.
type Verb uint8

// The verbs. The zero Verb is invalid.
const (
	_       Verb = iota
	Ack          // done
	Requeue      // give it to somebody again (nack with requeue)
	Reject       // not again (dead-lettered where the queue says so)
)

// Proof names an observation that proves settlements.
type Proof uint8

// The proofs. The zero Proof is invalid.
const (
	_             Proof = iota
	ProvenWindow        // the broker sent more than the prefetch allows without them
	ProvenReply         // a synchronous reply on the same channel came after them (barrier, cancel-ok, close-ok)
	ProvenReceipt       // the broker confirmed each of them
)

// Observation is one piece of evidence.
type Observation struct {
	Kind   ObservationKind
	At     time.Time
	Detail string
}

// ObservationKind names what was observed; it is the report's evidence kind.
type ObservationKind string

// The kinds of observation.
const (
	ObservedCancelWritten     ObservationKind = "cancel_written"
	ObservedCancelOK          ObservationKind = "cancel_ok"
	ObservedBarrier           ObservationKind = "barrier"
	ObservedQuiet             ObservationKind = "quiet" // a quiet period before the close; Detail is its length
	ObservedCloseWritten      ObservationKind = "close_written"
	ObservedCloseOK           ObservationKind = "close_ok"
	ObservedConnectionCloseOK ObservationKind = "connection_close_ok"
	ObservedPeerClose         ObservationKind = "peer_close"
	ObservedPeerReset         ObservationKind = "peer_reset"
	ObservedConsumerCancelled ObservationKind = "consumer_cancelled" // by the broker
	ObservedCut               ObservationKind = "cut"                // our own
	ObservedUnproven          ObservationKind = "unproven"           // the close could not prove the last settlements
	ObservedBlocked           ObservationKind = "blocked"
	ObservedUnblocked         ObservationKind = "unblocked"
)

// EndKind says how a stream or session ended.
type EndKind uint8

// The kinds of end. The zero EndKind is invalid.
const (
	_            EndKind = iota
	EndCloseOK           // our close was answered
	EndPeerClose         // the peer closed it, with a code
	EndPeerReset         // the peer closed or reset the socket without a word
	EndCut               // we closed the socket
	EndSilent            // nothing was heard for too long: heartbeats missed
	EndCancelled         // stream only: the broker cancelled the consumer (its queue was deleted, or failed over); at once
	EndProtocol          // what came was not understood
)

// Party is one side of a connection.
type Party uint8

// The parties. The zero Party means neither.
const (
	ByNobody Party = iota
	ByUs
	ByPeer
)

// End says how a stream or session ended. For a stream that ended because its session did, it is the session's End with
// OfSession set.
type End struct {
	Kind      EndKind
	By        Party
	Code      int
	Text      string
	At        time.Time
	OfSession bool
}

// PeerEnded reports whether the end itself was observed: our close was answered, or the peer ended it. Our own cut and a
// silence are not the peer's end.
func (e End) PeerEnded() bool {
	return e.Kind == EndCloseOK || e.Kind == EndPeerClose || e.Kind == EndPeerReset || e.Kind == EndCancelled
}

// Info describes a session's peer. Unknown fields are empty.
type Info struct {
	Product, Version, Node, VHost, ConnectionName, LocalAddr string
}

// QueueState is what the broker last said of a queue.
type QueueState struct {
	Ready, Consumers uint64
	At               time.Time
}

// Volatile is a transport whose queues end with the process.
type Volatile interface {
	// Remaining returns how many messages each queue still holds; queues that hold none are left out.
	Remaining() map[string]uint64
}
