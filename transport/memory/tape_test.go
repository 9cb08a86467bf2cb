package memory_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
)

// tape is a Sink that writes down what it hears, a line for each call.
type tape struct {
	transport.Stream
	start time.Time

	mu   sync.Mutex
	said []string
}

func (p *tape) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, fmt.Sprintf(format, args...))
}

func (p *tape) Deliver(d *transport.Delivery) {
	line := fmt.Sprintf("deliver %d %s", d.Tag, d.MessageID)
	if d.Redelivered {
		line += " again"
	}
	if d.DeliveryCount > 0 {
		line += fmt.Sprintf(" x%d", d.DeliveryCount)
	}
	p.say("%s", line)
}

func (p *tape) Written(batch []*transport.Settlement, _ time.Time) {
	for _, s := range batch {
		p.say("written %s %d", s.Verb, s.Tag)
	}
}

func (p *tape) Failed(batch []*transport.Settlement, err error) {
	for _, s := range batch {
		p.say("failed %s %d %s", s.Verb, s.Tag, transport.KindOf(err))
	}
}

func (p *tape) Proven(n uint64, by transport.Proof) { p.say("proven %d %s", n, by) }

func (p *tape) Observe(o transport.Observation) {
	line := fmt.Sprintf("%s at %s", o.Kind, o.At.Sub(p.start))
	if o.Detail != "" {
		line += ": " + o.Detail
	}
	p.say("%s", line)
}

func (p *tape) Ended(e transport.End) {
	of := "stream"
	if e.OfSession {
		of = "session"
	}
	p.say("ended %s by %q of %s", e.Kind, e.By, of)
}

// settle submits v for each tag, in a write of its own.
func (p *tape) settle(v transport.Verb, tags ...uint64) {
	for _, tag := range tags {
		p.Submit(&transport.Settlement{Tag: tag, Verb: v})
		synctest.Wait()
	}
}

// want waits until nothing moves and compares what was said since the last want, which it forgets.
func (p *tape) want(t testing.TB, lines ...string) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(lines, p.said); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
	p.said = nil
}

// bench is a bubble with a broker and one session.
type bench struct {
	*testing.T
	*memory.Broker
	start   time.Time
	session transport.Session
}

// bubble runs test in a bubble, with queues declared.
func bubble(t *testing.T, queues map[string]memory.Options, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, Broker: memory.New(memory.Config{Queues: queues, Heartbeat: 10 * time.Second}), start: time.Now()}
		b.session = b.dial()
		test(b)
	})
}

func (b *bench) dial() transport.Session {
	b.Helper()
	s, err := b.Dial(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		s.Cut()
		<-s.Joined()
	})
	return s
}

func (b *bench) consume(s transport.Session, sub transport.Subscription) *tape {
	b.Helper()
	p := &tape{start: b.start}
	stream, err := s.Consume(b.Context(), sub, p)
	if err != nil {
		b.Fatal(err)
	}
	p.Stream = stream
	return p
}

// publish publishes messages with these ids and waits until nothing moves.
func (b *bench) publish(queue string, ids ...string) {
	b.Helper()
	for _, id := range ids {
		if err := b.Publish(queue, memory.Message{MessageID: id}); err != nil {
			b.Fatal(err)
		}
	}
	synctest.Wait()
}

// wantReady compares the ids of what is ready in a queue.
func (b *bench) wantReady(queue string, ids ...string) {
	b.Helper()
	synctest.Wait()
	var got []string
	for _, m := range b.Ready(queue) {
		got = append(got, m.MessageID)
	}
	if diff := cmp.Diff(ids, got); diff != "" {
		b.Errorf("ready in %q (-want +got):\n%s", queue, diff)
	}
}

// within returns a context that ends after d.
func (b *bench) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(b.Context(), d, errOver)
	b.Cleanup(cancel)
	return ctx
}

var errOver = fmt.Errorf("memory_test: over")
