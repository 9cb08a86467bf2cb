package managed

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
	"github.com/lastcall-go/lastcall/transport"
)

// link is one transport with its sessions, numbered over the whole consumer's life.
type link struct {
	consumer  *Consumer
	transport transport.Transport
	name      string // the transport's kind, made unique
	subs      []*subscription

	mu       sync.Mutex
	current  *session
	sessions []*session
	number   uint64
}

// session is one incarnation of a link's connection.
type session struct {
	link     *link
	number   uint64
	conn     transport.Session
	opened   time.Time
	streams  []*stream
	resource *resources.Tracked
	done     chan struct{}
	watched  chan struct{} // closes when the session's watcher has recorded its end
}

// dial opens the link's next session.
func (l *link) dial(ctx context.Context) (*session, error) {
	conn, err := l.transport.Dial(ctx)
	if err != nil {
		return nil, err
	}
	res, err := l.consumer.registry.Track(l.name+"-connection", resources.Connection)
	if err != nil {
		conn.Cut()
		return nil, err
	}
	l.mu.Lock()
	l.number++
	s := &session{link: l, number: l.number, conn: conn, opened: deadline.Now(), resource: res,
		done: make(chan struct{}), watched: make(chan struct{})}
	l.current = s
	l.sessions = append(l.sessions, s)
	l.mu.Unlock()
	go s.watch()
	return s, nil
}

// watch records the session's end. It is owned by the consumer and ends with the session, which the close or cut ends.
func (s *session) watch() {
	defer close(s.watched)
	<-s.conn.Done()
	close(s.done)
	end := s.conn.End()
	switch {
	case end.Kind == transport.EndCloseOK:
		s.resource.Observe(string(transport.ObservedCloseOK), end.At, "")
		s.resource.End(end.At, nil)
	case end.PeerEnded():
		s.resource.Observe(end.Kind.String(), end.At, end.Text)
		s.resource.End(end.At, &EndError{Kind: end.Kind.String(), By: end.By.String(), Code: end.Code, Text: end.Text})
	default:
		s.resource.Observe(end.Kind.String(), end.At, end.Text)
	}
	if end.By != transport.ByUs {
		s.link.consumer.sessionLost(s, end)
	}
}

// consume opens the subscription's stream on the session.
func (s *session) consume(ctx context.Context, sub *subscription) error {
	res, err := s.link.consumer.registry.Track(fmt.Sprintf("%s-channel:%s", s.link.name, sub.Queue), resources.Channel)
	if err != nil {
		return err
	}
	st := &stream{sub: sub, session: s, resource: res, cancelled: make(chan struct{})}
	sub.mu.Lock()
	sub.stream = st
	sub.mu.Unlock()
	ts, err := s.conn.Consume(ctx, transport.Subscription{
		Queue: sub.Queue, Tag: sub.ConsumerTag, Prefetch: sub.Prefetch, Declare: sub.Declare, Arguments: sub.Arguments,
		Exclusive: sub.Exclusive, Ordered: sub.Drain == DrainOrdered,
	}, st)
	if err != nil {
		res.Drop() // it never was: Consume leaves nothing behind
		sub.mu.Lock()
		sub.stream = nil
		sub.mu.Unlock()
		return err
	}
	s.link.mu.Lock()
	s.streams = append(s.streams, st)
	s.link.mu.Unlock()
	st.opened(ts)
	sub.mu.Lock()
	if sub.state == subscriptionStarting {
		sub.state = subscriptionReady
	}
	sub.mu.Unlock()
	return nil
}

// live returns the session under way and its streams, nil if there is none.
func (l *link) live() (*session, []*stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return nil, nil
	}
	return l.current, append([]*stream(nil), l.current.streams...)
}

// close collects the evidence: every channel's proof and close-ok, then the connection's. It is the graceful half of the
// link's close_evidence action.
func (l *link) close(ctx context.Context) error {
	s, streams := l.live()
	if s == nil {
		return nil
	}
	now := deadline.Now()
	share := time.Duration(0)
	if at, ok := ctx.Deadline(); ok {
		share = at.Sub(now) / 2
	}
	channels, cancel := deadline.Context(ctx, now.Add(share), errChannelShare)
	defer cancel()
	var wait sync.WaitGroup
	for _, st := range streams {
		st.resource.Begin(now)
		wait.Go(func() {
			// What it observed stands in the resource; the connection's close is tried whatever came of it.
			if err := st.transport.Close(channels); err != nil {
				l.consumer.log.Debug("channel not closed in order", "queue", st.sub.Queue, "error", err)
			}
		})
	}
	closed := make(chan struct{})
	go func() { wait.Wait(); close(closed) }() // ends with the closes, which end with their context or the session
	select {
	case <-closed:
	case <-channels.Done():
	}
	s.resource.Begin(deadline.Now())
	if err := s.conn.Close(ctx); err != nil {
		select {
		case <-s.conn.Done(): // it has ended, though not by our close; how, its resource says
			return nil
		default:
			return err
		}
	}
	return s.ended(ctx)
}

// ended waits until the session's end has been recorded and its goroutines are back.
func (s *session) ended(ctx context.Context) error {
	for _, c := range []<-chan struct{}{s.watched, s.conn.Joined()} {
		select {
		case <-c:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// cut closes the socket: the force half of the link's close_evidence action.
func (l *link) cut(ctx context.Context) error {
	s, _ := l.live()
	if s == nil {
		return nil
	}
	s.conn.Cut()
	return s.ended(ctx)
}

// joined reports whether every goroutine of every session is back.
func (l *link) joined() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sessions {
		select {
		case <-s.conn.Joined():
		default:
			return false
		}
	}
	return true
}

// streamEnded reacts to the end of one subscription's stream while its session may go on.
func (l *link) streamEnded(s *stream, e transport.End) {
	if e.OfSession || e.By == transport.ByUs {
		return
	}
	l.consumer.subscriptionLost(s.sub, e)
}

// report lists the link's sessions.
func (l *link) report() []report.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]report.Session, 0, len(l.sessions))
	for _, s := range l.sessions {
		r := report.Session{N: s.number, Transport: l.name, OpenedAt: report.At(s.opened)}
		select {
		case <-s.conn.Done():
			e := s.conn.End()
			at := report.At(e.At)
			r.EndedAt, r.End, r.Code, r.Text, r.By = &at, e.Kind.String(), e.Code, report.Redact(e.Text), e.By.String()
		default:
		}
		for _, st := range s.streams {
			st.sub.mu.Lock()
			r.Unresolved += st.unresolved
			r.Released += st.released
			st.sub.mu.Unlock()
		}
		out = append(out, r)
	}
	return out
}
