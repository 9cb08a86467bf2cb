package managed

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
	"github.com/lastcall-go/lastcall/transport"
)

// link is one transport with its sessions, numbered over the consumer's life.
type link struct {
	consumer  *Consumer
	transport transport.Transport
	name      string // the transport's kind, made unique
	subs      []*subscription
	// life ends when the shutdown begins: no session or stream is opened after that.
	life context.Context
	end  context.CancelCauseFunc
	// supervisors are the goroutines that open sessions and streams again; idle closes when all of them are back.
	supervisors sync.WaitGroup
	idle        chan struct{}

	mu       sync.Mutex
	begun    bool          // supervisors run, or must not begin any more
	watched  bool          // supervisors have run
	current  *session      // nil while there is none
	changed  chan struct{} // closed and replaced when current changes
	sessions []*session    // the newest, at most maxSessions
	number   uint64
	reason   string         // why there is no session
	info     transport.Info // of the newest session
}

// maxSessions caps the sessions a report lists; the newest are kept.
const maxSessions = 32

func newLink(c *Consumer, t transport.Transport, name string) *link {
	l := &link{consumer: c, transport: t, name: name, idle: make(chan struct{}), changed: make(chan struct{})}
	l.life, l.end = context.WithCancelCause(context.Background())
	return l
}

// session is one incarnation of a link's connection.
type session struct {
	link     *link
	number   uint64
	conn     transport.Session
	opened   time.Time
	streams  []*stream // guarded by link.mu
	resource *resources.Tracked
	done     chan struct{} // closes when it has ended
	watched  chan struct{} // closes when its end has been recorded

	unresolved, released atomic.Uint64
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
	if i := slices.IndexFunc(l.sessions, func(s *session) bool { return closed(s.conn.Joined()) }); i >= 0 && len(l.sessions) >= maxSessions {
		l.sessions = slices.Delete(l.sessions, i, i+1)
	}
	l.sessions = append(l.sessions, s)
	l.info = conn.Info()
	l.become(s, "")
	l.mu.Unlock()
	go s.watch()
	return s, nil
}

// become makes s the current session, nil for none. l.mu is held.
func (l *link) become(s *session, reason string) {
	l.current, l.reason = s, reason
	close(l.changed)
	l.changed = make(chan struct{})
}

// watch records the session's end. It is owned by the consumer and ends with the session, which the close or cut ends.
func (s *session) watch() {
	defer close(s.watched)
	<-s.conn.Done()
	end := s.conn.End()
	err := endError(end)
	if s.link.consumer.before(end.At) {
		s.resource.Drop() // it ended before the shutdown, which does not answer for it
	} else {
		switch {
		case end.Kind == transport.EndCloseOK:
			s.resource.Observe(string(transport.ObservedCloseOK), end.At, "")
			s.resource.End(end.At, nil)
		case end.PeerEnded():
			s.resource.Observe(end.Kind.String(), end.At, end.Text)
			s.resource.End(end.At, err)
		default: // our cut, or silence: it began, and its end was not observed
			s.resource.Begin(end.At)
			s.resource.Observe(end.Kind.String(), end.At, end.Text)
		}
	}
	s.link.mu.Lock()
	s.streams = nil
	if s.link.current == s {
		s.link.become(nil, report.NewError(err).Text)
	}
	s.link.mu.Unlock()
	close(s.done)
	if end.By != transport.ByUs {
		s.link.consumer.log.Warn("session ended", "transport", s.link.name, "session", s.number, "error", report.NewError(err).Text)
	}
}

func endError(e transport.End) *EndError {
	return &EndError{Kind: e.Kind.String(), By: e.By.String(), Code: e.Code, Text: e.Text}
}

// consume opens the subscription's stream on the session.
func (s *session) consume(ctx context.Context, sub *subscription) error {
	res, err := s.link.consumer.registry.Track(fmt.Sprintf("%s-channel:%s", s.link.name, sub.Queue), resources.Channel)
	if err != nil {
		return err
	}
	st := &stream{sub: sub, session: s, resource: res, cancelled: make(chan struct{}), gone: make(chan struct{})}
	sub.mu.Lock()
	sub.stream = st
	sub.mu.Unlock()
	ts, err := s.conn.Consume(ctx, transport.Subscription{
		Queue: sub.Queue, Tag: sub.ConsumerTag, Prefetch: sub.Prefetch, Declare: sub.Declare, Arguments: sub.Arguments,
		Exclusive: sub.Exclusive, Ordered: sub.Drain == DrainOrdered,
	}, st)
	if err != nil {
		st.failed()
		res.Drop() // it never was: Consume leaves nothing behind
		return err
	}
	s.link.mu.Lock()
	s.streams = append(s.streams, st)
	s.link.mu.Unlock()
	if st.opened(ts) {
		sub.cancel() // a shutdown began meanwhile and could not cancel what was not there
	}
	return nil
}

// live returns the session under way and its streams, nil if there is none.
func (l *link) live() (*session, []*stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return nil, nil
	}
	return l.current, slices.Clone(l.current.streams)
}

// close collects the evidence: every channel's proof and close-ok, then the connection's. It is the graceful half of the
// link's close_evidence action.
func (l *link) close(ctx context.Context) error {
	if err := l.unsupervised(ctx); err != nil {
		return err
	}
	s, streams := l.live()
	if s == nil {
		return l.lastEnded(ctx)
	}
	now := deadline.Now()
	share := time.Duration(0)
	if at, ok := ctx.Deadline(); ok {
		share = at.Sub(now) / 4 * 3
	}
	channels, cancel := deadline.Context(ctx, now.Add(share), errChannelShare)
	defer cancel()
	var wait sync.WaitGroup
	for _, st := range streams {
		st.resource.Begin(now)
		wait.Go(st.askQueue)
		wait.Go(func() {
			// What it observed stands in the resource; the connection's close is tried whatever came of it.
			if err := st.transport.Close(channels); err != nil {
				l.consumer.log.Debug("channel not closed in order", "queue", st.sub.Queue, "error", err)
			}
		})
	}
	back := make(chan struct{})
	go func() { wait.Wait(); close(back) }() // ends with the closes, which end with their context or the session
	select {
	case <-back:
	case <-channels.Done():
	}
	s.resource.Begin(deadline.Now())
	if err := s.conn.Close(ctx); err != nil && !closed(s.conn.Done()) {
		return err
	}
	return s.ended(ctx) // though perhaps not by our close; how, its resource says
}

// askQueue asks what the queue holds, where that is safe, while there is a channel to ask on.
func (s *stream) askQueue() {
	state, ok := s.transport.QueueState()
	if !ok {
		return
	}
	s.sub.mu.Lock()
	defer s.sub.mu.Unlock()
	s.queue = &state
}

// ended waits until the session's end has been recorded and its goroutines are back.
func (s *session) ended(ctx context.Context) error {
	for _, c := range []<-chan struct{}{s.watched, s.conn.Joined()} {
		if err := await(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// cut closes the socket: the force half of the link's close_evidence action.
func (l *link) cut(ctx context.Context) error {
	if s, _ := l.live(); s != nil {
		s.conn.Cut()
	}
	if err := l.unsupervised(ctx); err != nil {
		return err
	}
	if s, _ := l.live(); s != nil { // one that a supervisor was just opening
		s.conn.Cut()
	}
	return l.lastEnded(ctx)
}

// lastEnded waits until the end of the newest session, if there was one, has been recorded.
func (l *link) lastEnded(ctx context.Context) error {
	l.mu.Lock()
	var last *session
	if n := len(l.sessions); n > 0 {
		last = l.sessions[n-1]
	}
	l.mu.Unlock()
	if last == nil {
		return nil
	}
	return last.ended(ctx)
}

// unsupervised waits until no session or stream can be opened any more.
func (l *link) unsupervised(ctx context.Context) error {
	l.mu.Lock()
	l.begun = true
	watched := l.watched
	l.mu.Unlock()
	if !watched {
		return nil
	}
	return await(ctx, l.idle)
}

// joined reports whether every goroutine of every session is back.
func (l *link) joined() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watched && !closed(l.idle) {
		return false
	}
	for _, s := range l.sessions {
		if !closed(s.conn.Joined()) {
			return false
		}
	}
	return true
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
		r.Unresolved, r.Released = s.unresolved.Load(), s.released.Load()
		out = append(out, r)
	}
	return out
}
