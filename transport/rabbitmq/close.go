package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

// lostPatience bounds the close of a channel whose consumer the broker has cancelled.
const lostPatience = 2 * time.Second

var errLost = errors.New("the channel of a cancelled consumer did not close in time")

func (s *stream) Cancel() {
	if !s.cancelAsked.CompareAndSwap(false, true) {
		return
	}
	s.session.spawn(func() {
		select {
		case s.turn <- struct{}{}:
			s.overdue.Store(false)
			_ = s.askCancel() // an error is the channel's end, which is reported as such
			<-s.turn
		case <-s.ended:
		}
	})
}

// askCancel sends basic.cancel and waits for its answer. The caller has the turn.
func (s *stream) askCancel() error {
	settled := s.writer.settled.Load()
	if err := s.channel.Cancel(s.tag, false); err != nil {
		return err
	}
	s.cancelTaken.Store(settled)
	s.notes.add(note{transport.Observation{Kind: transport.ObservedCancelOK, At: deadline.Now()}, settled})
	return nil
}

func (s *stream) Close(ctx context.Context) error {
	if isClosed(s.ended) {
		return s.closeResult()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case s.closing <- struct{}{}:
		defer func() { <-s.closing }()
	case <-s.ended:
		return s.closeResult()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	written, err := s.writer.seal(ctx)
	if err == nil {
		err = s.secure(ctx, &written)
	}
	if err == nil {
		err = s.request(ctx, "close channel", s.askClose)
	}
	if transport.KindOf(err) == transport.KindUnanswered {
		return err
	}
	select { // whatever else it was, the stream is about to end
	case <-s.ended:
	case <-ctx.Done():
		if !isClosed(s.ended) {
			return context.Cause(ctx)
		}
	}
	return s.closeResult()
}

// closeLost closes the channel of a consumer that the broker has cancelled.
func (s *stream) closeLost() {
	ctx, cancel := deadline.Timeout(context.Background(), lostPatience, errLost)
	defer cancel()
	if err := s.Close(ctx); err != nil && !isClosed(s.ended) {
		close(s.giveUp)
	}
}

// closeResult is what Close returns for a stream that has ended.
func (s *stream) closeResult() error {
	if s.end.Kind == transport.EndCloseOK && !s.end.OfSession {
		return nil
	}
	return endError("close channel", s.queue, s.end)
}

func (s *stream) closedError(op string) error {
	return &transport.Error{Kind: transport.KindClosed, Op: op, Subject: s.queue, Text: "the stream has ended or is being closed"}
}

// askClose sends channel.close and waits for its answer. The caller has the turn.
func (s *stream) askClose() error {
	s.closeAsked.Store(true)
	s.closeErr = s.channel.Close() // nil as well if the channel had been closed before: the lane knows
	s.closeAt = deadline.Now()
	close(s.closeReturn)
	return s.closeErr
}

// secure does what the answer to the close needs to prove everything written, and notes what it will prove.
func (s *stream) secure(ctx context.Context, written *tail) error {
	s.provable.Store(written.settled)
	if s.classic || written.needed <= s.applied() {
		return nil
	}
	if s.cancelAsked.CompareAndSwap(false, true) { // never with Ordered: its prefetch leaves no more than are taken anyway
		return s.request(ctx, "cancel", s.askCancel)
	}
	// The answer to an earlier cancel may still come. If it does not say enough, the broker must have all that was written before
	// the log is asked.
	if err := s.request(ctx, "barrier", func() error { return s.channel.Qos(int(s.prefetch), 0, false) }); err != nil {
		return err
	}
	s.evidence(transport.ObservedBarrier, "")
	if written.needed <= s.applied() {
		return nil
	}
	if s.passLog(ctx) {
		s.evidence(transport.ObservedBarrier, "through the queue's log")
	} else {
		s.provable.Store(s.applied())
		s.evidence(transport.ObservedUnproven, fmt.Sprintf("%d settlements", written.settled-s.applied()))
	}
	return nil
}

// applied is how many settlements a quorum queue is known to have applied: a delivery comes, and a cancel is answered, after that.
func (s *stream) applied() uint64 { return max(s.byWindow(), s.cancelTaken.Load()) }

// evidence passes an observation of now to life.
func (s *stream) evidence(kind transport.ObservationKind, detail string) {
	s.notes.add(note{observed: transport.Observation{Kind: kind, At: deadline.Now(), Detail: detail}})
}
