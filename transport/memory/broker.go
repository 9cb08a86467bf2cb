package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

// Config configures a Broker. The zero Config is a broker without queues.
type Config struct {
	// Queues are declared at once. Nil means none. New panics if one of them makes no sense.
	Queues map[string]Options
	// Heartbeat is how often a peer must be heard of: a session on which nothing comes for one and a half of it ends as
	// transport.EndSilent. Zero means that silence is borne for ever.
	Heartbeat time.Duration
}

// Broker is a broker inside the process and the transport to it. What is in it when the process ends is gone; see Left.
// All methods are safe for concurrent use.
type Broker struct {
	heartbeat time.Duration

	mu       sync.Mutex
	queues   map[string]*queue
	sessions []*session // live ones, oldest first
	named    int        // sessions so far
	tagged   int        // consumer tags made so far
	faults
}

var _ transport.Transport = (*Broker)(nil)

// New returns a broker. It starts nothing.
func New(cfg Config) *Broker {
	if cfg.Heartbeat < 0 {
		panic("memory: negative heartbeat")
	}
	b := &Broker{heartbeat: cfg.Heartbeat, queues: make(map[string]*queue), faults: newFaults()}
	for name, o := range cfg.Queues {
		if err := b.Declare(name, o); err != nil {
			panic(err)
		}
	}
	return b
}

// Kind returns "memory".
func (b *Broker) Kind() string { return "memory" }

// Declare makes a queue, or does nothing if it exists with the same options. It returns an *transport.Error of KindMismatch
// if it exists with others, of KindInvalid if the options make no sense.
func (b *Broker) Declare(name string, o Options) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.declare(name, o)
	return err
}

func (b *Broker) declare(name string, o Options) (*queue, error) {
	q, err := newQueue(name, o)
	if err != nil {
		return nil, err
	}
	if old, ok := b.queues[name]; ok {
		if !old.opts.same(q.opts) {
			return nil, &transport.Error{Kind: transport.KindMismatch, Op: "declare", Subject: name, Code: 406,
				Text: "the queue exists with another kind or other arguments"}
		}
		return old, nil
	}
	b.queues[name] = q
	return q, nil
}

// Delete removes a queue with everything in it; the broker cancels its consumers. It reports whether there was one.
func (b *Broker) Delete(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, ok := b.queues[name]
	if !ok {
		return false
	}
	delete(b.queues, name)
	b.endConsumersOf(q, transport.End{Kind: transport.EndCancelled, By: transport.ByPeer})
	return true
}

// Publish puts messages at the end of a queue. It returns an *transport.Error of KindNotFound if there is no such queue.
func (b *Broker) Publish(name string, messages ...Message) error {
	stored := make([]message, len(messages))
	for i := range messages {
		stored[i].Message = messages[i]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	q, ok := b.queues[name]
	if !ok {
		return &transport.Error{Kind: transport.KindNotFound, Op: "publish", Subject: name, Code: 404, Text: "no such queue"}
	}
	for i := range stored {
		q.publish(&stored[i])
	}
	q.dispatch()
	return nil
}

// Depth returns how many messages of a queue are ready and how many are with consumers, unsettled. Both are 0 where there is
// no such queue.
func (b *Broker) Depth(name string) (ready, unacked int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q, ok := b.queues[name]; ok {
		return q.ready(), q.unacked
	}
	return 0, 0
}

// Ready returns copies of the messages that are ready in a queue, first one first.
func (b *Broker) Ready(name string) []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q, ok := b.queues[name]; ok {
		return q.messages()
	}
	return nil
}

// Remainder is what one queue still holds.
type Remainder struct {
	Queue          string
	Ready, Unacked int
}

// Left returns the queues that are not empty, by name. When the process ends these messages are gone.
func (b *Broker) Left() []Remainder {
	b.mu.Lock()
	defer b.mu.Unlock()
	var left []Remainder
	for _, q := range b.queues {
		if r := (Remainder{q.name, q.ready(), q.unacked}); r.Ready+r.Unacked > 0 {
			left = append(left, r)
		}
	}
	slices.SortFunc(left, func(a, b Remainder) int { return cmp.Compare(a.Queue, b.Queue) })
	return left
}

// Remaining returns how many messages each queue still holds, ready and unsettled; see transport.Volatile.
func (b *Broker) Remaining() map[string]uint64 {
	left := make(map[string]uint64)
	for _, r := range b.Left() {
		left[r.Queue] = uint64(r.Ready + r.Unacked)
	}
	return left
}

// Dial opens a session. It returns at once unless a fault holds it.
func (b *Broker) Dial(ctx context.Context) (transport.Session, error) {
	if err := b.admitDial(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.named++
	s := &session{
		broker: b, done: make(chan struct{}), joined: make(chan struct{}), over: make(chan struct{}),
		info: transport.Info{Product: "lastcall memory broker", ConnectionName: fmt.Sprintf("memory#%d", b.named)},
	}
	b.sessions = append(b.sessions, s)
	go s.run()
	return s, nil
}

// settle carries out one verb on the broker's side and reports whether the message went back to its queue.
func (b *Broker) settle(q *queue, m *message, v transport.Verb) {
	q.unacked--
	switch v {
	case transport.Requeue:
		if !q.giveBack(m) {
			b.bury(q, m, "delivery_limit")
		}
	case transport.Reject:
		b.bury(q, m, "rejected")
	}
}

// bury dead-letters m, or drops it where the queue names no place for it.
func (b *Broker) bury(q *queue, m *message, reason string) {
	target, ok := b.queues[q.deadLetter]
	if q.deadLetter == "" || !ok {
		return
	}
	dead := &message{Message: m.Message}
	dead.Headers = maps.Clone(dead.Headers)
	if dead.Headers == nil {
		dead.Headers = make(map[string]any, 2)
	}
	if _, again := dead.Headers["x-first-death-queue"]; !again {
		dead.Headers["x-first-death-queue"] = q.name
		dead.Headers["x-first-death-reason"] = reason
	}
	target.publish(dead)
	if target != q {
		target.dispatch()
	}
}

// release ends the broker's side of streams: their consumers are gone, the settlements that were on the way arrive unless
// nothing does, and everything unsettled goes back before anybody gets any of it.
func (b *Broker) release(streams ...*stream) {
	for _, s := range streams {
		s.queue.detach(s)
	}
	for _, s := range streams {
		for _, f := range s.wire {
			if f.request == 0 && !s.session.silent {
				s.takeSettlement(f)
			}
		}
		s.wire = nil
		for _, m := range s.outstanding.takeAll() {
			b.settle(s.queue, m, transport.Requeue)
		}
	}
	for _, s := range streams {
		s.queue.dispatch()
	}
}

// now is read under the broker's lock, so that instants of the broker's acts are in the order of the acts.
func now() time.Time { return deadline.Now() }
