package rabbitmq

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

// noCredit makes a consumer that is sent nothing. RabbitMQ before 4.0 knows it, from its AMQP 1.0 plugin; a later one sends the one
// message that the prefetch allows, and gets it back at once.
var noCredit = amqp.Table{"x-credit": amqp.Table{"credit": int64(0), "drain": false}}

// passLog reports whether a consumer came and went on the queue, on a channel of its own. A quorum queue answers the second once its
// log is applied up to there, with all that the broker had passed on for this stream's channel before; by then the broker has
// passed on what it had kept back. Where the queue is gone there is nothing to lose, and where another consumer has it for itself
// it is no quorum queue.
//
// It takes half of what ctx allows at most: the other half belongs to the close. It is left behind after that, and ends with the
// session.
func (s *stream) passLog(ctx context.Context) bool {
	if at, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = deadline.Timeout(ctx, deadline.Until(at)/2, context.DeadlineExceeded)
		defer cancel()
	}
	answer := make(chan error, 1)
	if !s.session.spawn(func() {
		ch, _, err := s.session.openChannel()
		if err != nil {
			answer <- err
			return
		}
		if err = ch.Qos(1, 0, false); err == nil {
			_, err = ch.Consume(s.queue, s.tag, false, false, false, false, noCredit)
		}
		if err == nil {
			err = ch.Cancel(s.tag, false)
		}
		answer <- err
		_ = ch.Close()
	}) {
		return false
	}
	select {
	case err := <-answer:
		kind := transport.KindOf(brokerError("consume", s.queue, err))
		return err == nil || kind == transport.KindNotFound || kind == transport.KindLocked
	case <-ctx.Done():
		return false
	}
}
