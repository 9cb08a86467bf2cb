package rabbitmq

import (
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

// inspectPatience bounds QueueState.
const inspectPatience = 500 * time.Millisecond

// QueueState asks with a passive declare on a channel of its own, for on the stream's a queue deleted meanwhile would cost the
// channel. It waits for half a second at most, and not at all where a request is unanswered already.
func (s *stream) QueueState() (transport.QueueState, bool) {
	if s.overdue.Load() || s.session.asked.Load() {
		return transport.QueueState{}, false
	}
	answer := make(chan transport.QueueState, 1)
	if !s.session.spawn(func() {
		defer close(answer)
		ch, _, err := s.session.openChannel()
		if err != nil {
			return
		}
		if q, err := ch.QueueDeclarePassive(s.queue, true, false, false, false, nil); err == nil {
			answer <- transport.QueueState{Ready: uint64(q.Messages), Consumers: uint64(q.Consumers), At: deadline.Now()}
		}
		_ = ch.Close()
	}) {
		return transport.QueueState{}, false
	}
	t := deadline.NewTimer(inspectPatience)
	defer t.Stop()
	select {
	case state, ok := <-answer:
		return state, ok
	case <-t.C:
	case <-s.session.ending:
	}
	return transport.QueueState{}, false
}
