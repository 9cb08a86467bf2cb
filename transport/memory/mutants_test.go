package memory_test

import (
	"context"
	"sync"
	"time"

	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
)

// mutants are the ways to break the contract, by name.
var mutants = map[string]mutant{
	"tags from zero": {
		fails: "deliveries come in order with tags from one",
		sink: func(m *mutated) transport.Sink {
			return onDeliver{m.Sink, func(d *transport.Delivery) { d.Tag--; m.Deliver(d) }}
		},
	},
	"pairs swapped": {
		fails: "deliveries come in order with tags from one",
		sink: func(m *mutated) transport.Sink {
			var held *transport.Delivery
			return onDeliver{m.Sink, func(d *transport.Delivery) {
				if held == nil {
					held = d
					return
				}
				held.Tag, d.Tag = d.Tag, held.Tag
				m.Deliver(d)
				m.Deliver(held)
				held = nil
			}}
		},
	},
	"deliveries at once": {
		fails: "the window proves all but the last prefetch",
		sink: func(m *mutated) transport.Sink {
			return onDeliver{m.Sink, func(d *transport.Delivery) { go m.Deliver(d) }}
		},
	},
	"headers lost": {
		fails: "a delivery carries what was published",
		sink: func(m *mutated) transport.Sink {
			return onDeliver{m.Sink, func(d *transport.Delivery) { d.Headers = nil; m.Deliver(d) }}
		},
	},
	"prefetch exceeded": {
		fails: "the prefetch is used and never exceeded",
		sub:   func(s *transport.Subscription) { s.Prefetch++ },
	},
	"prefetch unused": {
		fails: "the prefetch is used and never exceeded",
		sub:   func(s *transport.Subscription) { s.Prefetch = max(1, s.Prefetch-1) },
	},
	"redelivery unmarked": {
		fails: "a requeued message comes again, marked as redelivered",
		sink: func(m *mutated) transport.Sink {
			return onDeliver{m.Sink, func(d *transport.Delivery) { d.Redelivered = false; m.Deliver(d) }}
		},
	},
	"requeue for ack": {
		fails:  "an acked message is gone",
		stream: func(m *mutated) transport.Stream { return verbs(m, transport.Ack, transport.Requeue) },
	},
	"ack for requeue": {
		fails:  "verbs out of order reach the right messages",
		stream: func(m *mutated) transport.Stream { return verbs(m, transport.Requeue, transport.Ack) },
	},
	"ack for reject": {
		fails:  "a rejected message is dead-lettered where the queue says so",
		stream: func(m *mutated) transport.Stream { return verbs(m, transport.Reject, transport.Ack) },
	},
	"requeue for reject": {
		fails:  "a rejected message is gone",
		stream: func(m *mutated) transport.Stream { return verbs(m, transport.Reject, transport.Requeue) },
	},
	"written twice": {
		fails: "each settlement is reported once, in the order of Submit",
		sink: func(m *mutated) transport.Sink {
			return onWritten{m.Sink, func(b []*transport.Settlement, at time.Time) { m.Written(b, at); m.Written(b, at) }}
		},
	},
	"written out of order": {
		fails: "each settlement is reported once, in the order of Submit",
		sink: func(m *mutated) transport.Sink {
			return onWritten{m.Sink, func(b []*transport.Settlement, at time.Time) {
				for i := range b {
					m.Written(b[len(b)-1-i:len(b)-i], at)
				}
			}}
		},
	},
	"written not reported": {
		fails: "each settlement is reported once, in the order of Submit",
		sink: func(m *mutated) transport.Sink {
			return onWritten{m.Sink, func(b []*transport.Settlement, at time.Time) {
				if len(b) > 1 {
					m.Written(b[1:], at)
				}
			}}
		},
	},
	"settlements confused among goroutines": {
		fails: "settlements may come from many goroutines",
		sink: func(m *mutated) transport.Sink {
			return onWritten{m.Sink, func(b []*transport.Settlement, at time.Time) {
				for range b {
					m.Written(b[:1], at)
				}
			}}
		},
	},
	"nonsense accepted": {
		fails: "what makes no sense is refused before the wire",
		sink: func(m *mutated) transport.Sink {
			return onFailed{m.Sink, func(b []*transport.Settlement, _ error) { m.Written(b, time.Now()) }}
		},
	},
	"late settlements forgotten": {
		fails: "what is submitted after the end fails, once",
		sink: func(m *mutated) transport.Sink {
			return onFailed{m.Sink, func([]*transport.Settlement, error) {}}
		},
	},
	"settlements at the end forgotten": {
		fails: "settlements in the very moment of the end are all reported",
		sink: func(m *mutated) transport.Sink {
			return onFailed{m.Sink, func([]*transport.Settlement, error) {}}
		},
	},
	"written taken for proven": {
		fails: "nothing is proven without an observation",
		sink: func(m *mutated) transport.Sink {
			return onWritten{m.Sink, func(b []*transport.Settlement, at time.Time) {
				m.Written(b, at)
				m.written += uint64(len(b))
				m.Proven(m.written, transport.ProvenReply)
			}}
		},
	},
	"window proof after the delivery": {
		fails: "the window proves all but the last prefetch",
		sink: func(m *mutated) transport.Sink {
			return onProven{m.Sink, func(n uint64, by transport.Proof) {
				time.AfterFunc(time.Millisecond, func() { m.Proven(n, by) })
			}}
		},
	},
	"no window proof": {
		fails: "the window proves all but the last prefetch",
		sink:  func(m *mutated) transport.Sink { return onProven{m.Sink, func(uint64, transport.Proof) {}} },
	},
	"proof falls": {
		fails: "the window proves all but the last prefetch",
		sink: func(m *mutated) transport.Sink {
			return onProven{m.Sink, func(n uint64, by transport.Proof) { m.Proven(n, by); m.Proven(n-1, by) }}
		},
	},
	"the window taken for wider than it is": {
		fails: "what is proven before a loss has been taken",
		sink: func(m *mutated) transport.Sink {
			return onProven{m.Sink, func(n uint64, by transport.Proof) {
				time.Sleep(time.Millisecond) // so that more is submitted
				m.Proven(n+15, by)
			}}
		},
	},
	"cancel said twice": {
		fails: "a cancel is observed when it left and when it is answered, once",
		sink: func(m *mutated) transport.Sink {
			return onObserve{m.Sink, func(o transport.Observation) {
				m.Observe(o)
				if o.Kind == transport.ObservedCancelOK {
					m.Observe(o)
				}
			}}
		},
	},
	"cancel not sent": {
		fails:  "nothing is delivered after cancel-ok",
		stream: func(m *mutated) transport.Stream { return onCancel{m.Stream, func() { sayCancelled(m) }} },
	},
	"cancel said to have left before it did": {
		fails: "what is handed back after the cancel left goes to others and never comes back",
		sink: func(m *mutated) transport.Sink {
			return onObserve{m.Sink, func(o transport.Observation) {
				if o.Kind != transport.ObservedCancelWritten {
					m.Observe(o)
				}
			}}
		},
		stream: func(m *mutated) transport.Stream {
			return onCancel{m.Stream, func() {
				m.Observe(transport.Observation{Kind: transport.ObservedCancelWritten, At: time.Now()})
				time.AfterFunc(5*time.Millisecond, m.Cancel)
			}}
		},
	},
	"a cancelled stream settles nothing": {
		fails: "a cancelled stream still settles",
		sink: func(m *mutated) transport.Sink {
			return onObserve{m.Sink, func(o transport.Observation) {
				m.mu.Lock()
				m.ended = m.ended || o.Kind == transport.ObservedCancelOK
				m.mu.Unlock()
				m.Observe(o)
			}}
		},
		stream: func(m *mutated) transport.Stream {
			return onSubmit{m.Stream, func(x *transport.Settlement) {
				m.mu.Lock()
				ended := m.ended
				m.mu.Unlock()
				if ended {
					m.Failed([]*transport.Settlement{x}, &transport.Error{Kind: transport.KindClosed})
					return
				}
				m.Submit(x)
			}}
		},
	},
	"close taken for answered": {
		fails: "an unanswered close of a stream harms nothing but itself",
		stream: func(m *mutated) transport.Stream {
			return onClose{m.Stream, func(ctx context.Context) error { _ = m.Close(ctx); return nil }}
		},
	},
	"close that ignores its context": {
		fails: "an unanswered close of a stream harms nothing but itself",
		stream: func(m *mutated) transport.Stream {
			return onClose{m.Stream, func(context.Context) error { return m.Close(context.Background()) }}
		},
	},
	"close behind a cancel waits for ever": {
		fails: "an unanswered cancel harms neither the stream nor the session",
		stream: func(m *mutated) transport.Stream {
			return onClose{m.Stream, func(context.Context) error { return m.Close(context.Background()) }}
		},
	},
	"close without proof": {
		fails: "closing a stream writes and proves what was submitted",
		sink: func(m *mutated) transport.Sink {
			return onProven{m.Sink, func(n uint64, by transport.Proof) {
				if by == transport.ProvenWindow {
					m.Proven(n, by)
				}
			}}
		},
	},
	"close of a closed stream is an error": {
		fails: "concurrent closes of a stream all return nil",
		stream: func(m *mutated) transport.Stream {
			return onClose{m.Stream, func(ctx context.Context) error {
				m.mu.Lock()
				again := m.ended
				m.ended = true
				m.mu.Unlock()
				if again {
					return &transport.Error{Kind: transport.KindClosed}
				}
				return m.Close(ctx)
			}}
		},
	},
	"a context that is over goes before an answer": {
		fails: "a close that was answered stays so, whatever the next call's context",
		session: func(s transport.Session) transport.Session {
			return onSessionClose{s, func(ctx context.Context) error {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return s.Close(ctx)
			}}
		},
	},
	"close of a stream takes the session along": {
		fails: "closing a stream leaves the session's others alone",
		stream: func(m *mutated) transport.Stream {
			return onClose{m.Stream, func(ctx context.Context) error {
				err := m.Close(ctx)
				m.session.Cut()
				return err
			}}
		},
	},
	"close with requeue in between": {
		fails: "closing a stream gives the unsettled back, in order",
		stream: func(m *mutated) transport.Stream {
			return onClose{m.Stream, func(ctx context.Context) error {
				m.Submit(&transport.Settlement{Tag: 2, Verb: transport.Reject})
				return m.Close(ctx)
			}}
		},
		sink: func(m *mutated) transport.Sink {
			return onWritten{m.Sink, func(b []*transport.Settlement, at time.Time) {
				if b[0].Owner != nil {
					m.Written(b, at)
				}
			}}
		},
	},
	"connection close unobserved": {
		fails: "closing a session is answered, and ends its streams",
		sink: func(m *mutated) transport.Sink {
			return onObserve{m.Sink, func(o transport.Observation) {
				if o.Kind != transport.ObservedConnectionCloseOK {
					m.Observe(o)
				}
			}}
		},
	},
	"close of a cut session is fine": {
		fails: "closing a session that ended otherwise is an error",
		session: func(s transport.Session) transport.Session {
			return onSessionClose{s, func(ctx context.Context) error { _ = s.Close(ctx); return nil }}
		},
	},
	"unanswered close of a session cuts it": {
		fails: "an unanswered close of a session ends with its context and leaves the cut",
		session: func(s transport.Session) transport.Session {
			return onSessionClose{s, func(ctx context.Context) error {
				err := s.Close(ctx)
				s.Cut()
				return err
			}}
		},
	},
	"cut waits for an answer": {
		fails: "a cut returns whoever waits for an answer",
		session: func(s transport.Session) transport.Session {
			return onCut{s, func() { time.AfterFunc(2*time.Second, s.Cut) }}
		},
	},
	"cut called by another name": {
		fails: "a cut frees everything and says so",
		sink: func(m *mutated) transport.Sink {
			return onEnded{m.Sink, func(e transport.End) {
				e.Kind, e.By = transport.EndPeerReset, transport.ByPeer
				m.Ended(e)
			}}
		},
	},
	"session done before its streams": {
		fails: "a cut frees everything and says so",
		session: func(s transport.Session) transport.Session {
			done := make(chan struct{})
			var once sync.Once
			return onCut{onDone{s, done}, func() { once.Do(func() { close(done) }); time.AfterFunc(20*time.Millisecond, s.Cut) }}
		},
	},
	"a delivery after the end": {
		fails: "nothing comes after the end",
		sink: func(m *mutated) transport.Sink {
			return onEnded{m.Sink, func(e transport.End) {
				m.Ended(e)
				m.Observe(transport.Observation{Kind: transport.ObservedCut, At: e.At})
			}}
		},
	},
	"ended twice": {
		fails: "a close by the broker is told with its code",
		sink: func(m *mutated) transport.Sink {
			return onEnded{m.Sink, func(e transport.End) { m.Ended(e); m.Ended(e) }}
		},
	},
	"a reset taken for a close": {
		fails: "a reset is told from a close",
		sink: func(m *mutated) transport.Sink {
			return onEnded{m.Sink, func(e transport.End) { e.Kind = transport.EndPeerClose; m.Ended(e) }}
		},
	},
	"a lost consumer takes the session along": {
		fails: "a consumer cancelled by the broker ends its stream alone",
		sink: func(m *mutated) transport.Sink {
			return onEnded{m.Sink, func(e transport.End) {
				m.Ended(e)
				if e.Kind == transport.EndCancelled {
					m.session.Cut()
				}
			}}
		},
	},
	"late settlements sent on the new session": {
		fails: "a late settlement reaches no other session",
		stream: func() func(*mutated) transport.Stream {
			var newest transport.Stream
			return func(m *mutated) transport.Stream {
				newest = m.Stream
				return onSubmit{m.Stream, func(x *transport.Settlement) { newest.Submit(x) }}
			}
		}(),
	},
	"info that changes": {
		fails:   "a session says who its peer is",
		session: func(s transport.Session) transport.Session { return onInfo{s, new(int)} },
	},
	"one tag for all": {
		fails:  "consumer tags are what was asked for, or unique",
		stream: func(m *mutated) transport.Stream { return onTag{m.Stream, "of-my-own"} },
	},
	"streams mixed": {
		fails: "streams of one session do not mix",
		sink: func() func(*mutated) transport.Sink {
			var first *mutated
			return func(m *mutated) transport.Sink {
				if first == nil {
					first = m
				}
				return onDeliver{m.Sink, func(d *transport.Delivery) { first.Deliver(d) }}
			}
		}(),
	},
	"settlements held until nothing older is open": {
		fails: "the prefetch is freed by any delivery, not the oldest alone",
		stream: func(m *mutated) transport.Stream {
			held := make(map[uint64]*transport.Settlement)
			return onSubmit{m.Stream, func(x *transport.Settlement) {
				held[x.Tag] = x
				for next := held[m.written+1]; next != nil; next = held[m.written+1] {
					m.written++
					m.Submit(next)
				}
			}}
		},
	},
	"one consumer for a queue": {
		fails: "consumers of one queue share it",
		sub:   func(s *transport.Subscription) { s.Exclusive = true },
	},
	"an exclusive consumer with company": {
		fails: "an exclusive consumer is alone",
		sub:   func(s *transport.Subscription) { s.Exclusive = false },
	},
	"messages kept after a cut": {
		fails: "what a cut session had goes to others at once",
		session: func(s transport.Session) transport.Session {
			return onCut{s, func() { time.AfterFunc(1500*time.Millisecond, s.Cut) }}
		},
	},
	"a declaration of what is there refused": {
		fails: "a declared queue is found as it is",
		sub: func(s *transport.Subscription) {
			if s.Declare != transport.DeclareDefault {
				s.Arguments = map[string]any{"x-max-length": 1}
			}
		},
	},
	"counters made up": {
		fails:  "counters of a queue are right or not known",
		stream: func(m *mutated) transport.Stream { return onState{m.Stream} },
	},
	"a mismatch overlooked": {
		fails: "a refused Consume leaves nothing behind",
		sub:   func(s *transport.Subscription) { s.Declare = transport.DeclarePassive },
	},
	"a refused consumer left behind": {
		fails: "a refused Consume leaves nothing behind",
		session: func(s transport.Session) transport.Session {
			return onConsume{s, func(ctx context.Context, sub transport.Subscription, sink transport.Sink) (transport.Stream, error) {
				st, err := s.Consume(ctx, sub, sink)
				if transport.KindOf(err) == transport.KindMismatch {
					sub.Declare = transport.DeclarePassive
					_, _ = s.Consume(ctx, sub, onDeliver{quiet{}, func(*transport.Delivery) {}})
				}
				return st, err
			}}
		},
	},
	"a dial that cannot wait": {
		fails: "a call whose context is over does nothing",
		dial: func(_ context.Context, b *memory.Broker) (transport.Session, error) {
			return b.Dial(context.Background())
		},
	},
	"a dial that ignores its context": {
		fails: "Dial ends with its context when the peer is silent",
		dial: func(_ context.Context, b *memory.Broker) (transport.Session, error) {
			return b.Dial(context.Background())
		},
	},
	"a consume that ignores its context": {
		fails: "Consume ends with its context when the peer is silent",
		session: func(s transport.Session) transport.Session {
			return onConsume{s, func(_ context.Context, sub transport.Subscription, sink transport.Sink) (transport.Stream, error) {
				return s.Consume(context.Background(), sub, sink)
			}}
		},
	},
	"a goroutine left behind": {
		fails: "a session says who its peer is",
		dial: func(ctx context.Context, b *memory.Broker) (transport.Session, error) {
			go func() { select {} }()
			return b.Dial(ctx)
		},
	},
	"requeues said to be acks": {
		fails: "random sequences end in the truth",
		sink: func(m *mutated) transport.Sink {
			return onWritten{m.Sink, func(b []*transport.Settlement, at time.Time) {
				for _, x := range b {
					if x.Verb == transport.Requeue && x.Tag%3 == 0 {
						x.Verb = transport.Ack
					}
				}
				m.Written(b, at)
			}}
		},
	},
}

// verbs sends one verb for another.
func verbs(m *mutated, from, to transport.Verb) transport.Stream {
	return onSubmit{m.Stream, func(x *transport.Settlement) {
		if x.Verb == from {
			x.Verb = to
		}
		m.Submit(x)
	}}
}

// sayCancelled reports a cancel that never was.
func sayCancelled(m *mutated) {
	for _, k := range []transport.ObservationKind{transport.ObservedCancelWritten, transport.ObservedCancelOK} {
		m.Observe(transport.Observation{Kind: k, At: time.Now()})
	}
}

// quiet is a Sink that hears nothing.
type quiet struct{ transport.Sink }

func (quiet) Deliver(*transport.Delivery)                {}
func (quiet) Written([]*transport.Settlement, time.Time) {}
func (quiet) Failed([]*transport.Settlement, error)      {}
func (quiet) Proven(uint64, transport.Proof)             {}
func (quiet) Observe(transport.Observation)              {}
func (quiet) Ended(transport.End)                        {}
