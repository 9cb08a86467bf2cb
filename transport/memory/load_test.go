package memory_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
)

// counter acks everything from Deliver, with settlements of its own that it uses again, and counts what is written.
type counter struct {
	stream  transport.Stream
	begin   chan struct{}
	ring    []transport.Settlement
	left    int
	written chan struct{} // closed when nothing is left
}

func newCounter(prefetch, n int) *counter {
	return &counter{begin: make(chan struct{}), ring: make([]transport.Settlement, 2*prefetch), left: n, written: make(chan struct{})}
}

func (c *counter) Deliver(d *transport.Delivery) {
	<-c.begin
	x := &c.ring[d.Tag%uint64(len(c.ring))]
	x.Tag, x.Verb = d.Tag, transport.Ack
	c.stream.Submit(x)
}

func (c *counter) Written(batch []*transport.Settlement, _ time.Time) {
	if c.left -= len(batch); c.left == 0 {
		close(c.written)
	}
}
func (c *counter) Failed([]*transport.Settlement, error) {}
func (c *counter) Proven(uint64, transport.Proof)        {}
func (c *counter) Observe(transport.Observation)         {}
func (c *counter) Ended(transport.End)                   {}

// load is a broker with messages in its queues and a counter at each.
type load struct {
	broker   *memory.Broker
	session  transport.Session
	counters []*counter
}

// newLoad prepares n messages for each subscription; up to prefetch of them are on their way when it returns.
func newLoad(tb testing.TB, subscriptions, prefetch, n int) *load {
	l := &load{broker: memory.New(memory.Config{})}
	var err error
	if l.session, err = l.broker.Dial(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	for i := range subscriptions {
		name := fmt.Sprintf("q%d", i)
		if err := l.broker.Declare(name, memory.Options{}); err != nil {
			tb.Fatal(err)
		}
		if err := l.broker.Publish(name, make([]memory.Message, n)...); err != nil {
			tb.Fatal(err)
		}
		c := newCounter(prefetch, n)
		if c.stream, err = l.session.Consume(tb.Context(), transport.Subscription{Queue: name, Prefetch: prefetch}, c); err != nil {
			tb.Fatal(err)
		}
		l.counters = append(l.counters, c)
	}
	return l
}

// run lets everything be delivered and settled.
func (l *load) run() {
	for _, c := range l.counters {
		close(c.begin)
	}
	for _, c := range l.counters {
		<-c.written
	}
}

func (l *load) end() {
	l.session.Cut()
	<-l.session.Joined()
}

func TestManySubscriptions(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := newLoad(t, 1024, 98, 98) // 100,352 in flight
	l.run()
	l.end() // what has been written arrives first
	if left := l.broker.Left(); left != nil {
		t.Errorf("left: %v", left)
	}
}

func TestMessagesInFlightAllComeBack(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := newLoad(t, 1, 100_000, 100_000)
	time.AfterFunc(0, l.session.Cut)
	close(l.counters[0].begin) // so that acks and the cut meet
	<-l.session.Joined()
	ready, unacked := l.broker.Depth("q0")
	if unacked != 0 || ready > 100_000 {
		t.Errorf("%d ready, %d unacked after the cut", ready, unacked)
	}
}

// TestDeliveriesAllocateLittle bounds the allocations of a delivery from its queue to its settlement: the Delivery itself, and
// growing buffers among many.
func TestDeliveriesAllocateLittle(t *testing.T) {
	const n = 20_000
	l := newLoad(t, 1, 64, n)
	defer l.end()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l.run()
	runtime.ReadMemStats(&after)
	if per := float64(after.Mallocs-before.Mallocs) / n; per > 1.2 {
		t.Errorf("%.2f allocations a delivery", per)
	}
}

// TestStorm lets publishers, consumers, cuts, drops and silences meet, for the race detector; then nothing may be missing.
func TestStorm(t *testing.T) {
	defer goleak.VerifyNone(t)
	const publishers, consumers, each, rounds = 4, 6, 500, 12
	b := memory.New(memory.Config{Queues: map[string]memory.Options{"q": {}, "r": {Kind: transport.DeclareQuorum}}})
	var group sync.WaitGroup
	for range publishers {
		group.Go(func() {
			for i := range each {
				if err := b.Publish([]string{"q", "r"}[i%2], memory.Message{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var acked [consumers]int
	for i := range consumers {
		group.Go(func() {
			for round := range rounds {
				s, err := b.Dial(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				c := newCounter(8, -1)
				c.stream, err = s.Consume(t.Context(), transport.Subscription{Queue: []string{"q", "r"}[i%2], Prefetch: 8}, c)
				if err != nil {
					t.Error(err)
					return
				}
				close(c.begin)
				switch round % 4 {
				case 0:
					s.Cut()
				case 1:
					b.Drop(320, "", s)
				case 2:
					b.Silence(s)
					c.stream.Cancel()
					b.Resume(s)
					fallthrough
				case 3:
					if err := c.stream.Close(t.Context()); err != nil {
						t.Error(err)
					}
					if err := s.Close(t.Context()); err != nil {
						t.Error(err)
					}
				}
				<-s.Joined()
				acked[i] += -1 - c.left
			}
		})
	}
	group.Wait()
	total := 0
	for _, n := range acked {
		total += n
	}
	for _, q := range []string{"q", "r"} {
		ready, unacked := b.Depth(q)
		if unacked != 0 {
			t.Errorf("%d messages of %s are with nobody", unacked, q)
		}
		total += ready
	}
	if total != publishers*each {
		t.Errorf("%d messages are acked or left, %d were published", total, publishers*each)
	}
}

func BenchmarkDelivery(b *testing.B) {
	for _, c := range []struct{ subscriptions, prefetch int }{{1, 1}, {1, 16}, {1, 256}, {1, 4096}, {1024, 97}} {
		b.Run(fmt.Sprintf("subscriptions=%d/prefetch=%d", c.subscriptions, c.prefetch), func(b *testing.B) {
			const n = 100_000
			each := n / c.subscriptions
			deliveries := 0
			for b.Loop() { // one round of many deliveries; publishing is not counted
				b.StopTimer()
				l := newLoad(b, c.subscriptions, c.prefetch, each)
				b.StartTimer()
				l.run()
				b.StopTimer()
				l.end()
				deliveries += each * c.subscriptions
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(deliveries), "ns/delivery")
		})
	}
}

// BenchmarkRoundTrip is one delivery alone: published, delivered, settled, before the next is published.
func BenchmarkRoundTrip(b *testing.B) {
	broker := memory.New(memory.Config{Queues: map[string]memory.Options{"q": {}}})
	s, err := broker.Dial(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	trip := &roundTrip{written: make(chan struct{}), held: make(chan struct{})}
	if trip.stream, err = s.Consume(b.Context(), transport.Subscription{Queue: "q", Prefetch: 1}, trip); err != nil {
		b.Fatal(err)
	}
	close(trip.held)
	for b.Loop() {
		if err := broker.Publish("q", memory.Message{}); err != nil {
			b.Fatal(err)
		}
		<-trip.written
	}
	s.Cut()
	<-s.Joined()
}

type roundTrip struct {
	counter
	held, written chan struct{}
	settlement    transport.Settlement
}

func (r *roundTrip) Deliver(d *transport.Delivery) {
	<-r.held
	r.settlement.Tag, r.settlement.Verb = d.Tag, transport.Ack
	r.stream.Submit(&r.settlement)
}

func (r *roundTrip) Written([]*transport.Settlement, time.Time) { r.written <- struct{}{} }
