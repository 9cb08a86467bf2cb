package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

// session is one connection. Its watch goroutine decides how it ended; every other goroutine of it and its streams is started
// by spawn and freed by a cut.
type session struct {
	conn          *conn
	client        *amqp.Connection
	info          transport.Info
	countsReturns bool
	id            string

	opening chan struct{} // one slot: channels are opened one at a time, so that conn can tell which is whose
	closing sync.Once
	asked   atomic.Bool   // a close was asked for
	closed  chan struct{} // closed when its answer is in answer
	answer  error
	ending  chan struct{} // closed when end is known
	end     transport.End
	done    chan struct{}
	joined  chan struct{}
	group   sync.WaitGroup

	mu      sync.Mutex
	over    bool // nothing is started any more
	streams map[*stream]struct{}
	tags    map[string]struct{} // in use or being opened
	tag     uint64              // the last one made
}

func newSession(c *conn, client *amqp.Connection, e endpoint) *session {
	s := &session{
		conn: c, client: client, info: info(client, c, e), id: c.socket.LocalAddr().String(),
		opening: make(chan struct{}, 1), closed: make(chan struct{}), ending: make(chan struct{}), done: make(chan struct{}),
		joined: make(chan struct{}), streams: make(map[*stream]struct{}), tags: make(map[string]struct{}),
	}
	s.countsReturns = countsReturns(s.info.Version)
	closes := client.NotifyClose(make(chan *amqp.Error, 1))
	blocks := client.NotifyBlocked(make(chan amqp.Blocking, 16))
	s.group.Go(func() { s.watch(closes) })
	s.group.Go(func() { s.relay(blocks) })
	go func() { // joins the others, and ends when the session has
		<-s.done
		s.group.Wait()
		close(s.joined)
	}()
	return s
}

func (s *session) Info() transport.Info    { return s.info }
func (s *session) Done() <-chan struct{}   { return s.done }
func (s *session) Joined() <-chan struct{} { return s.joined }

// End returns the zero End before Done.
func (s *session) End() transport.End {
	if !isClosed(s.done) {
		return transport.End{}
	}
	return s.end
}

func (s *session) Close(ctx context.Context) error {
	if ctx.Err() != nil && !isClosed(s.done) {
		return context.Cause(ctx) // nothing is begun on a budget that is used up
	}
	s.closing.Do(func() {
		s.asked.Store(true)
		if !s.spawn(func() {
			s.answer = s.client.Close()
			close(s.closed)
		}) {
			close(s.closed)
		}
	})
	select {
	case <-s.done:
	case <-ctx.Done():
		if !isClosed(s.done) {
			return context.Cause(ctx)
		}
	}
	if s.end.Kind == transport.EndCloseOK {
		return nil
	}
	return endError("close connection", s.info.ConnectionName, s.end)
}

func (s *session) Cut() {
	s.conn.cut()
	// Without a deadline to set on conn this shuts amqp091 down where it stands, which frees what the closed socket does not.
	s.spawn(func() { _ = s.client.CloseDeadline(deadline.Now()) })
}

// spawn starts f as a goroutine that Joined waits for; false means that the session is over and f was not started. f ends by
// itself once the socket is closed.
func (s *session) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.group.Go(f)
	return true
}

// watch decides how the session ended, waits for the streams and closes done. It ends when amqp091 has shut the connection down.
func (s *session) watch(closes <-chan *amqp.Error) {
	var said *amqp.Error
	for said = range closes {
	}
	s.end = s.judge(said)
	close(s.ending)
	for {
		st := s.anyStream()
		if st == nil {
			break
		}
		<-st.ended
		s.forget(st)
	}
	close(s.done)
}

// anyStream returns a stream that has not ended; nil means that there is none, and that no more can begin.
func (s *session) anyStream() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		return st
	}
	s.over = true
	return nil
}

// judge tells the ends apart: the peer's word first, then our own answered close, then what was seen of the socket.
func (s *session) judge(said *amqp.Error) transport.End {
	end := transport.End{At: deadline.Now()}
	if said != nil && said.Server {
		end.Kind, end.By, end.Code, end.Text = transport.EndPeerClose, transport.ByPeer, said.Code, said.Reason
		return end
	}
	if s.asked.Load() {
		<-s.closed
		if s.answer == nil {
			end.Kind, end.By = transport.EndCloseOK, transport.ByUs
			return end
		}
	}
	if b := s.conn.broken.Load(); b != nil {
		end.Kind, end.Text, end.At = b.kind, b.err.Error(), b.at
		switch b.kind {
		case transport.EndCut:
			end.By, end.Text = transport.ByUs, ""
		case transport.EndPeerReset:
			end.By = transport.ByPeer
		}
		return end
	}
	end.Kind = transport.EndProtocol
	if said != nil {
		end.Code, end.Text = said.Code, said.Reason
	}
	return end
}

// relay passes connection.blocked on to every stream. It ends with the connection.
func (s *session) relay(blocks <-chan amqp.Blocking) {
	for b := range blocks {
		o := transport.Observation{Kind: transport.ObservedUnblocked, At: deadline.Now()}
		if b.Active {
			o.Kind, o.Detail = transport.ObservedBlocked, b.Reason
		}
		s.mu.Lock()
		for st := range s.streams {
			st.notes.add(note{observed: o})
		}
		s.mu.Unlock()
	}
}

// reserve takes a consumer tag, making one up if it is empty.
func (s *session) reserve(tag string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tag == "" {
		s.tag++
		tag = fmt.Sprintf("lastcall.%s.%d", s.id, s.tag)
	}
	if _, taken := s.tags[tag]; taken {
		return "", &transport.Error{Kind: transport.KindInvalid, Op: "consume", Subject: tag, Text: "the consumer tag is in use on this connection"}
	}
	s.tags[tag] = struct{}{}
	return tag, nil
}

func (s *session) unreserve(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tags, tag)
}

// adopt starts a stream's goroutines, unless the session is over.
func (s *session) adopt(st *stream, run ...func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.streams[st] = struct{}{}
	for _, f := range run {
		s.group.Go(f)
	}
	return true
}

// forget takes a stream that has ended out of the books.
func (s *session) forget(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	delete(s.tags, st.tag)
}

// openChannel opens a channel and returns it with its lane. It ends with the session, not with a context.
func (s *session) openChannel() (*amqp.Channel, *lane, error) {
	select {
	case s.opening <- struct{}{}:
	case <-s.ending:
		return nil, nil, amqp.ErrClosed
	}
	defer func() { <-s.opening }()
	ch, err := s.client.Channel()
	if err != nil {
		return nil, nil, err
	}
	return ch, s.conn.lastOpened(), nil
}

// endError is what is returned to whoever asked for another end than came.
func endError(op, subject string, end transport.End) *transport.Error {
	e := &transport.Error{Kind: transport.KindClosed, Op: op, Subject: subject, Code: end.Code, Text: "it had ended: " + end.Kind.String()}
	if end.Text != "" {
		e.Err = errors.New(end.Text)
	}
	return e
}
