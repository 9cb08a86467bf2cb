package memory

import (
	"context"
	"slices"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

// Reply names an answer of the broker that can be withheld or delayed. The act itself is done at once, except for
// ReplyDial and ReplyConsume, where the whole request waits.
type Reply uint8

// The replies. The zero Reply is invalid.
const (
	_                    Reply = iota
	ReplyDial                  // the connection is made
	ReplyConsume               // the queue is declared and the consumer is there
	ReplyCancel                // cancel-ok: the consumer is gone
	ReplyBarrier               // everything written before has been taken
	ReplyChannelClose          // the channel is closed and what was unsettled on it went back
	ReplyConnectionClose       // the same for the connection
	replies
)

// faults is guarded by the broker's lock.
type faults struct {
	withheld   [replies]bool
	delays     [replies]time.Duration
	held       []heldReply
	silent     bool
	refusals   int
	refusal    *transport.Error
	failWrites int
	failure    *transport.Error
	changed    chan struct{} // closed and replaced when a fault is lifted
}

type heldReply struct {
	kind    Reply
	session *session
	deliver func()
}

func newFaults() faults { return faults{changed: make(chan struct{})} }

// Withhold keeps back the named replies from now on, until Release.
func (b *Broker) Withhold(kinds ...Reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range kinds {
		b.withheld[k] = true
	}
}

// Release sends the named replies that were kept back and those to come. Without names it means all of them.
func (b *Broker) Release(kinds ...Reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(kinds) == 0 {
		b.withheld = [replies]bool{}
	}
	for _, k := range kinds {
		b.withheld[k] = false
	}
	held := b.held
	b.held = nil
	for _, h := range held {
		if b.withheld[h.kind] {
			b.held = append(b.held, h)
		} else {
			h.deliver()
		}
	}
	b.lifted()
}

// Delay sends each later reply of the kind d after its act. Zero means at once.
func (b *Broker) Delay(kind Reply, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.delays[kind] = d
}

// Silence makes the peer of the given sessions deaf and dumb: what is written still leaves, but nothing is taken, answered
// or delivered until Resume. Without sessions it means all of them, and dialling too.
func (b *Broker) Silence(sessions ...transport.Session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silent = b.silent || len(sessions) == 0
	for _, s := range b.pick(sessions) {
		s.silence()
	}
}

// Resume ends the silence: what was written in it is taken, in order, and answered. Without sessions it means all of them,
// and dialling too.
func (b *Broker) Resume(sessions ...transport.Session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silent = b.silent && len(sessions) > 0
	for _, s := range b.pick(sessions) {
		s.resume()
	}
	b.lifted()
}

// Drop makes the broker close the connections of the given sessions with a code and a text. Without sessions it means all of
// them. It returns how many it closed.
func (b *Broker) Drop(code int, text string, sessions ...transport.Session) int {
	return b.endAll(transport.End{Kind: transport.EndPeerClose, By: transport.ByPeer, Code: code, Text: text}, sessions)
}

// Reset closes the sockets of the given sessions without a word. Without sessions it means all of them. It returns how many
// it closed.
func (b *Broker) Reset(sessions ...transport.Session) int {
	return b.endAll(transport.End{Kind: transport.EndPeerReset, By: transport.ByPeer}, sessions)
}

// CancelConsumers makes the broker cancel every consumer of a queue, as in a failover. It returns how many there were.
func (b *Broker) CancelConsumers(queue string) int {
	return b.endConsumers(queue, transport.End{Kind: transport.EndCancelled, By: transport.ByPeer})
}

// CloseChannels makes the broker close the channel of every consumer of a queue with a code and a text, as after an error.
// It returns how many there were.
func (b *Broker) CloseChannels(queue string, code int, text string) int {
	return b.endConsumers(queue, transport.End{Kind: transport.EndPeerClose, By: transport.ByPeer, Code: code, Text: text})
}

// Block makes the broker say on every connection that it takes no more publishes, and why; consuming goes on.
func (b *Broker) Block(reason string) { b.tellAll(transport.ObservedBlocked, reason) }

// Unblock makes the broker say on every connection that it takes publishes again.
func (b *Broker) Unblock() { b.tellAll(transport.ObservedUnblocked, "") }

// FailWrites makes the next n settlements fail with err, nil meaning a broken pipe, instead of being written. The session
// lives on, and so does the delivery at the broker; for a socket that dies in a write add Reset. Zero ends the fault.
func (b *Broker) FailWrites(n int, err *transport.Error) {
	if err == nil {
		err = &transport.Error{Kind: transport.KindUnavailable, Op: "settle", Text: "broken pipe"}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failWrites, b.failure = n, err
}

// RefuseDials makes the next n dials fail with err, nil meaning a refused connection. Zero ends the fault.
func (b *Broker) RefuseDials(n int, err *transport.Error) {
	if err == nil {
		err = &transport.Error{Kind: transport.KindUnavailable, Op: "dial", Subject: "memory", Text: "connection refused"}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusals, b.refusal = n, err
}

func (b *Broker) lifted() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// pick returns the live ones among the given sessions, all live ones if none is given.
func (b *Broker) pick(given []transport.Session) []*session {
	return slices.DeleteFunc(slices.Clone(b.sessions), func(s *session) bool {
		return len(given) > 0 && !slices.Contains(given, transport.Session(s))
	})
}

func (b *Broker) endAll(e transport.End, given []transport.Session) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	picked := b.pick(given)
	for _, s := range picked {
		s.finish(e)
	}
	return len(picked)
}

func (b *Broker) endConsumers(queue string, e transport.End) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, ok := b.queues[queue]
	if !ok {
		return 0
	}
	return b.endConsumersOf(q, e)
}

func (b *Broker) endConsumersOf(q *queue, e transport.End) int {
	streams := slices.Clone(q.consumers)
	b.release(streams...)
	for _, s := range streams {
		s.finish(e)
	}
	return len(streams)
}

func (b *Broker) tellAll(kind transport.ObservationKind, detail string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := now()
	for _, s := range b.sessions {
		for _, st := range s.streams {
			st.notice(transport.Observation{Kind: kind, At: at, Detail: detail})
		}
	}
}

// reply sends an answer through the faults.
func (b *Broker) reply(kind Reply, s *session, deliver func()) {
	switch d := b.delays[kind]; {
	case b.withheld[kind]:
		b.held = append(b.held, heldReply{kind, s, deliver})
	case d > 0:
		deadline.AfterFunc(d, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			deliver()
		})
	default:
		deliver()
	}
}

// admitDial waits until a dial may go on.
func (b *Broker) admitDial(ctx context.Context) error {
	if err := b.await(ctx, nil, ReplyDial, "dial", ""); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refusals > 0 {
		b.refusals--
		return b.refusal
	}
	return nil
}

// await waits until a request is answered: while its reply is withheld or the peer silent, and then for its delay. s is nil
// for a dial.
func (b *Broker) await(ctx context.Context, s *session, kind Reply, op, subject string) error {
	var over chan struct{}
	if s != nil {
		over = s.over
	}
	for ctx.Err() == nil {
		b.mu.Lock()
		waits := b.withheld[kind] || (s == nil && b.silent) || (s != nil && s.silent)
		d, changed := b.delays[kind], b.changed
		b.mu.Unlock()
		if !waits && d <= 0 {
			return nil
		}
		var due <-chan time.Time // never, while it waits
		if !waits {
			timer := deadline.NewTimer(d)
			defer timer.Stop()
			due, changed = timer.C, nil
		}
		select {
		case <-due:
			return nil
		case <-changed:
		case <-over:
			return s.closedError(op, subject)
		case <-ctx.Done():
		}
	}
	return &transport.Error{Kind: transport.KindUnanswered, Op: op, Subject: subject, Err: context.Cause(ctx)}
}

// resume is the broker's act on what was written in a silence.
func (s *session) resume() {
	if !s.silent {
		return
	}
	s.silent = false
	for _, st := range slices.Clone(s.streams) {
		st.takeWire()
		wake(st.readable)
	}
	if s.closing { // again, perhaps: it can be answered once only
		s.takeClose()
	}
	unheard := s.unheard
	s.unheard = nil
	for _, deliver := range unheard {
		deliver()
	}
}

// silence stops everything from passing. After one and a half heartbeats of it we give the session up.
func (s *session) silence() {
	if s.silent {
		return
	}
	s.silent = true
	s.silences++
	if beat := s.broker.heartbeat; beat > 0 {
		this := s.silences
		deadline.AfterFunc(beat+beat/2, func() {
			s.broker.mu.Lock()
			defer s.broker.mu.Unlock()
			if s.silent && s.silences == this {
				s.finish(transport.End{Kind: transport.EndSilent, By: transport.ByUs})
			}
		})
	}
}
