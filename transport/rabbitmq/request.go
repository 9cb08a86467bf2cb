package rabbitmq

import (
	"context"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

// request runs one request on the channel, when it is its turn. When ctx ends first it returns the cause and leaves the request
// behind, with the turn: nothing is queued behind it until its answer comes.
func (s *stream) request(ctx context.Context, op string, ask func() error) error {
	if err := s.takeTurn(ctx, op); err != nil {
		return err
	}
	answer := make(chan error, 1)
	if !s.session.spawn(func() {
		err := ask()
		<-s.turn
		answer <- err
	}) {
		<-s.turn
		return s.closedError(op)
	}
	select {
	case err := <-answer:
		return brokerError(op, s.queue, err)
	case <-ctx.Done():
		s.overdue.Store(true)
		return context.Cause(ctx)
	}
}

// takeTurn waits for the request that has the turn. Once that has used up half of what ctx allows it is past help, for the rest
// belongs to the connection's close.
func (s *stream) takeTurn(ctx context.Context, op string) error {
	select {
	case s.turn <- struct{}{}:
		s.overdue.Store(false)
		return nil
	default:
	}
	unanswered := &transport.Error{Kind: transport.KindUnanswered, Op: op, Subject: s.queue, Text: "an earlier request on the channel was not answered"}
	if s.overdue.Load() {
		return unanswered
	}
	var half <-chan time.Time
	if at, ok := ctx.Deadline(); ok {
		t := deadline.NewTimer(deadline.Until(at) / 2)
		defer t.Stop()
		half = t.C
	}
	select {
	case s.turn <- struct{}{}:
		s.overdue.Store(false)
		return nil
	case <-s.ended:
		return s.closedError(op)
	case <-half:
		s.overdue.Store(true)
		return unanswered
	case <-ctx.Done():
		s.overdue.Store(true)
		return context.Cause(ctx)
	}
}
