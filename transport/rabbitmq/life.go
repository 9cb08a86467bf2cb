package rabbitmq

import (
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

var errTagOutOfOrder = errors.New("a delivery tag did not follow the one before")

// life reports evidence as it comes and, when the channel is over, waits for read and the writer and calls Ended.
func (s *stream) life(closes <-chan *amqp.Error, cancels <-chan string) {
	var said *amqp.Error
	var lostAt time.Time // when the broker cancelled the consumer
	cancelWritten, closeWritten := s.lane.cancelWritten, s.lane.closeWritten
	for {
		select {
		case <-cancelWritten:
			cancelWritten = nil
			s.observe(transport.ObservedCancelWritten, deadline.Now(), "")
		case <-closeWritten:
			closeWritten = nil
			s.observe(transport.ObservedCloseWritten, deadline.Now(), "")
		case <-s.notes.wake:
			s.report()
		case _, ok := <-cancels:
			if !ok {
				cancels = nil
				continue
			}
			lostAt = deadline.Now()
			s.cancelAsked.Store(true)
			s.observe(transport.ObservedConsumerCancelled, lostAt, "")
			s.session.spawn(s.closeLost)
		case e, ok := <-closes:
			if ok {
				said = e
				continue
			}
			s.finish(s.judge(said, lostAt))
			return
		case <-s.giveUp:
			s.finish(transport.End{Kind: transport.EndCancelled, By: transport.ByPeer, At: lostAt})
			return
		}
	}
}

// judge tells how the stream ended once its channel is over for amqp091: by the broker's cancel, our answered close, the peer's
// close of the channel, or with the session.
func (s *stream) judge(said *amqp.Error, lostAt time.Time) transport.End {
	if s.closeAsked.Load() {
		<-s.closeReturn // amqp091 is about to return
		s.closeOK = s.closeErr == nil && isClosed(s.lane.closeWritten)
		if errors.Is(s.closeErr, amqp.ErrCommandInvalid) {
			s.session.conn.fail(transport.EndProtocol, s.closeErr)
		}
	}
	switch {
	case !lostAt.IsZero():
		return transport.End{Kind: transport.EndCancelled, By: transport.ByPeer, At: lostAt}
	case s.closeOK:
		return transport.End{Kind: transport.EndCloseOK, By: transport.ByUs, At: s.closeAt}
	case said != nil && isClosed(s.lane.closeOKWritten):
		return transport.End{Kind: transport.EndPeerClose, By: transport.ByPeer, Code: said.Code, Text: said.Reason, At: deadline.Now()}
	}
	<-s.session.ending
	end := s.session.end
	end.OfSession = true
	return end
}

// finish waits for read and the writer, reports the last evidence and calls Ended.
func (s *stream) finish(end transport.End) {
	close(s.writer.stop)
	<-s.writer.done
	<-s.drained
	s.report()
	if s.closeOK {
		s.observe(transport.ObservedCloseOK, s.closeAt, "")
		s.prove(s.provable.Load())
	}
	switch end.Kind {
	case transport.EndCloseOK:
		if end.OfSession {
			s.observe(transport.ObservedConnectionCloseOK, end.At, "")
		}
	case transport.EndPeerClose:
		s.observe(transport.ObservedPeerClose, end.At, end.Text)
	case transport.EndPeerReset:
		s.observe(transport.ObservedPeerReset, end.At, "")
	case transport.EndCut:
		s.observe(transport.ObservedCut, end.At, "")
	}
	s.end = end
	s.sink.Ended(end)
	close(s.ended)
	s.session.forget(s)
}

func (s *stream) observe(kind transport.ObservationKind, at time.Time, detail string) {
	s.sink.Observe(transport.Observation{Kind: kind, At: at, Detail: detail})
}

// prove reports what an answer proves. It is called by life once read has returned, and so after what the window proved.
func (s *stream) prove(n uint64) {
	if n > s.byWindow() && n > s.byReply {
		s.byReply = n
		s.sink.Proven(n, transport.ProvenReply)
	}
}

// byWindow is how many settlements the deliveries received prove.
func (s *stream) byWindow() uint64 {
	n := s.received.Load()
	return n - min(n, s.prefetch)
}

// note is evidence on its way to life.
type note struct {
	observed transport.Observation
	proven   uint64 // settlements
}

// notes holds them in order. Safe for concurrent use.
type notes struct {
	wake chan struct{} // one token: there are some

	mu   sync.Mutex
	list []note
}

func (n *notes) add(x note) {
	n.mu.Lock()
	n.list = append(n.list, x)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *notes) take() []note {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.list
	n.list = nil
	return list
}

// report passes notes on to the sink. A cancel-ok waits until read has handed over what came before it.
func (s *stream) report() {
	for _, x := range s.notes.take() {
		if x.observed.Kind == transport.ObservedCancelOK {
			<-s.drained
		}
		s.sink.Observe(x.observed)
		if x.proven > 0 {
			s.prove(x.proven)
		}
	}
}
