package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/lastcall-go/lastcall/transport"
)

// session is one connection. Its goroutine, run, is owned by whoever dialled and ends after the session has.
type session struct {
	broker *Broker
	info   transport.Info

	// over closes when the end is decided, done when every sink has heard of it, joined when no goroutine is left.
	over, done, joined chan struct{}
	readers            sync.WaitGroup

	// Guarded by the broker's lock.
	streams  []*stream // live ones, oldest first
	end      transport.End
	silent   bool // nothing passes in either direction
	silences int
	unheard  []func() // answers of the connection that came due in a silence
	closing  bool     // our close was sent
}

var _ transport.Session = (*session)(nil)

func (s *session) Info() transport.Info    { return s.info }
func (s *session) Done() <-chan struct{}   { return s.done }
func (s *session) Joined() <-chan struct{} { return s.joined }

func (s *session) End() transport.End {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	return s.end
}

// run waits for the end of every stream. Streams are added before over closes only.
func (s *session) run() {
	<-s.over
	s.readers.Wait()
	close(s.done)
	close(s.joined)
}

// Consume opens a stream.
func (s *session) Consume(ctx context.Context, sub transport.Subscription, sink transport.Sink) (transport.Stream, error) {
	if sub.Prefetch < 1 {
		return nil, &transport.Error{Kind: transport.KindInvalid, Op: "consume", Subject: sub.Queue, Text: "prefetch is less than 1"}
	}
	b := s.broker
	if err := b.await(ctx, s, ReplyConsume, "consume", sub.Queue); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.end.Kind != 0 || s.closing {
		return nil, s.closedError("consume", sub.Queue)
	}
	q, err := b.lookup(sub)
	if err != nil {
		return nil, err
	}
	for _, c := range q.consumers {
		if sub.Exclusive || c.exclusive {
			return nil, &transport.Error{Kind: transport.KindLocked, Op: "consume", Subject: q.name, Code: 403,
				Text: "another consumer is there, and one of the two is exclusive"}
		}
	}
	tag := sub.Tag
	if tag == "" {
		b.tagged++
		tag = fmt.Sprintf("memory-%d", b.tagged)
	}
	st := newStream(s, q, sink, tag, sub)
	s.streams = append(s.streams, st)
	s.readers.Add(1)
	go st.read()
	go st.write()
	q.attach(st)
	q.dispatch()
	return st, nil
}

// lookup finds or declares the queue of a subscription.
func (b *Broker) lookup(sub transport.Subscription) (*queue, error) {
	switch sub.Declare {
	case transport.DeclareDefault, transport.DeclarePassive:
		q, ok := b.queues[sub.Queue]
		if !ok {
			return nil, &transport.Error{Kind: transport.KindNotFound, Op: "declare", Subject: sub.Queue, Code: 404, Text: "no such queue"}
		}
		return q, nil
	default:
		return b.declare(sub.Queue, Options{Kind: sub.Declare, Arguments: sub.Arguments})
	}
}

// Close asks for the end and waits for the answer.
func (s *session) Close(ctx context.Context) error {
	s.broker.mu.Lock()
	if s.end.Kind == 0 && !s.closing {
		s.closing = true
		if !s.silent {
			s.takeClose()
		}
	}
	s.broker.mu.Unlock()
	select {
	case <-s.done:
	case <-ctx.Done():
		select {
		case <-s.done:
		default:
			return context.Cause(ctx)
		}
	}
	if s.End().Kind == transport.EndCloseOK {
		return nil
	}
	return s.closedError("close", "")
}

// takeClose is the broker's part of an orderly close: everything unsettled goes back, then it answers.
func (s *session) takeClose() {
	s.broker.release(s.streams...)
	s.broker.reply(ReplyConnectionClose, s, s.closeOK)
}

func (s *session) closeOK() {
	if s.silent {
		s.unheard = append(s.unheard, s.closeOK)
		return
	}
	s.finish(transport.End{Kind: transport.EndCloseOK, By: transport.ByUs})
}

// Cut closes the socket; the broker sees that at once.
func (s *session) Cut() {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	s.finish(transport.End{Kind: transport.EndCut, By: transport.ByUs})
}

// finish decides the end, once.
func (s *session) finish(e transport.End) {
	if s.end.Kind != 0 {
		return
	}
	e.At = now()
	s.end = e
	e.OfSession = true
	s.broker.release(s.streams...)
	for _, st := range s.streams {
		st.finish(e)
	}
	s.streams = nil
	s.broker.sessions = slices.DeleteFunc(s.broker.sessions, func(o *session) bool { return o == s })
	close(s.over)
}

func (s *session) closedError(op, subject string) error {
	return &transport.Error{Kind: transport.KindClosed, Op: op, Subject: subject, Text: "the session has ended or is closing"}
}
