package memory

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/lastcall-go/lastcall/transport"
)

// stream is one consumer on its own channel. Two goroutines serve it: read, which ends it and calls Ended, and write. Both
// are owned by the session and end when the stream has.
type stream struct {
	session  *session
	broker   *Broker
	queue    *queue
	sink     transport.Sink
	tag      string
	prefetch int

	submitted          transport.Queue
	readable, writable chan struct{} // one token each: there may be something to do
	written            chan struct{} // closed when write has returned
	ended              chan struct{} // closed after Ended
	gone               atomic.Bool   // the end is decided: stop delivering
	late               atomic.Bool   // write has returned: whoever submits reports the failure
	failing            atomic.Bool   // somebody does so at the moment
	cancelAsked        atomic.Bool
	closeAsked         atomic.Bool
	proven             atomic.Uint64 // written by read alone

	// Guarded by the broker's lock; up to the blank line, the broker's side.
	consuming   bool
	offered     bool
	exclusive   bool
	sent        uint64 // deliveries, and so the last tag
	taken       uint64 // settlements
	outstanding outstanding
	in          []frame // sent, not yet read

	wrote      uint64     // settlements
	wire       []outgoing // written, not yet taken by the broker
	cancelSent bool
	closeSent  bool
	pending    frameKind // the request that waits for its answer, 0 if none: a channel has one reply slot
	givenUp    frameKind // the request that a Close has waited for in vain
	notices    []transport.Observation
	end        transport.End
}

// frameKind is what passes between the two sides of a stream.
type frameKind uint8

const (
	frameDelivery frameKind = iota + 1
	frameCancel
	frameBarrier
	frameClose
)

// frame is a delivery or an answer, on the way in.
type frame struct {
	kind        frameKind
	redelivered bool
	n           uint64 // a tag; in an answer: the settlements taken before the request
	returns     uint64
	message     *message
}

// outgoing is a request or, without one, a settlement, on the way out.
type outgoing struct {
	request frameKind
	verb    transport.Verb
	tag     uint64
}

func newStream(s *session, q *queue, sink transport.Sink, tag string, sub transport.Subscription) *stream {
	return &stream{
		session: s, broker: s.broker, queue: q, sink: sink, tag: tag, prefetch: sub.Prefetch, exclusive: sub.Exclusive,
		readable: make(chan struct{}, 1), writable: make(chan struct{}, 1), written: make(chan struct{}), ended: make(chan struct{}),
	}
}

func (s *stream) ConsumerTag() string { return s.tag }
func (s *stream) CountsReturns() bool { return s.queue.counts() }

// QueueState returns the queue's counters as they are; not while the peer is silent or the stream has ended.
func (s *stream) QueueState() (transport.QueueState, bool) {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if s.session.silent || s.end.Kind != 0 {
		return transport.QueueState{}, false
	}
	return transport.QueueState{Ready: uint64(s.queue.ready()), Consumers: uint64(len(s.queue.consumers)), At: now()}, true
}

func (s *stream) Submit(x *transport.Settlement) {
	first := s.submitted.Push(x)
	if s.late.Load() {
		s.failLate()
		return
	}
	if first {
		wake(s.writable)
	}
}

func (s *stream) Cancel() {
	if s.closeAsked.Load() {
		return
	}
	s.cancelAsked.Store(true)
	wake(s.writable)
}

func (s *stream) Close(ctx context.Context) error {
	s.broker.mu.Lock()
	helpless := s.end.Kind == 0 && s.pending != 0 && s.pending == s.givenUp
	s.broker.mu.Unlock()
	if helpless {
		return &transport.Error{Kind: transport.KindUnanswered, Op: "close", Subject: s.queue.name,
			Text: "a request on the channel was not answered"}
	}
	s.closeAsked.Store(true)
	wake(s.writable)
	select {
	case <-s.ended:
	case <-ctx.Done():
		select {
		case <-s.ended:
		default:
			s.broker.mu.Lock()
			s.givenUp = s.pending
			s.broker.mu.Unlock()
			return context.Cause(ctx)
		}
	}
	if e := s.endState(); e.Kind == transport.EndCloseOK && !e.OfSession {
		return nil
	}
	return s.closedError("close")
}

func (s *stream) endState() transport.End {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	return s.end
}

func (s *stream) closedError(op string) error {
	return &transport.Error{Kind: transport.KindClosed, Op: op, Subject: s.queue.name, Text: "the stream has ended"}
}

func wake(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// room reports whether the broker may send one more delivery.
func (s *stream) room() bool { return s.consuming && s.outstanding.live < s.prefetch }

// send is the broker's act of delivering m.
func (s *stream) send(m *message) {
	s.sent++
	s.outstanding.add(s.sent, m)
	s.arrive(frame{kind: frameDelivery, n: s.sent, message: m, redelivered: m.redelivered, returns: m.returns})
}

// arrive puts f where the reader finds it.
func (s *stream) arrive(f frame) {
	s.in = append(s.in, f)
	if len(s.in) == 1 && !s.session.silent {
		wake(s.readable)
	}
}

// notice puts an observation that is no answer where the reader finds it.
func (s *stream) notice(o transport.Observation) {
	s.notices = append(s.notices, o)
	wake(s.readable)
}

// finish decides the stream's end, once.
func (s *stream) finish(e transport.End) {
	if s.end.Kind != 0 {
		return
	}
	if e.At.IsZero() {
		e.At = now()
	}
	s.end = e
	if !e.OfSession {
		s.session.streams = slices.DeleteFunc(s.session.streams, func(o *stream) bool { return o == s })
	}
	s.gone.Store(true)
	wake(s.readable)
	wake(s.writable)
}
