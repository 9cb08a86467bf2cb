package managed_test

import (
	"context"
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
)

// BenchmarkDelivery measures one delivery through the whole consumer on the memory broker; BenchmarkTransport is the same
// without Lastcall's lifecycle, so that the difference is what the lifecycle costs.
func BenchmarkDelivery(b *testing.B) {
	for name, concurrency := range map[string]int{"concurrency=1": 1, "concurrency=16": 16} {
		b.Run(name, func(b *testing.B) {
			done := make(chan struct{}, b.N+1)
			h := managedtest.New(b, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Prefetch: 256, Concurrency: concurrency,
				Handler: func(context.Context, *managed.Delivery) managed.Outcome {
					done <- struct{}{}
					return managed.Ack
				}}}})
			fill(b, h.Broker, b.N)
			b.ReportAllocs()
			b.ResetTimer()
			h.Start()
			for range b.N {
				<-done
			}
			b.StopTimer()
			h.Stop()
		})
	}
}

func fill(b *testing.B, broker *memory.Broker, n int) {
	messages := make([]memory.Message, n)
	for i := range messages {
		messages[i].Body = []byte("x")
	}
	if err := broker.Publish("q", messages...); err != nil {
		b.Fatal(err)
	}
}

// acker acks everything as it comes.
type acker struct {
	transport.Sink
	stream transport.Stream
	ready  chan struct{}
	done   chan struct{}
}

func (a *acker) Deliver(d *transport.Delivery) {
	<-a.ready
	a.stream.Submit(&transport.Settlement{Tag: d.Tag, Verb: transport.Ack})
	a.done <- struct{}{}
}

func BenchmarkTransport(b *testing.B) {
	broker := memory.New(memory.Config{Queues: map[string]memory.Options{"q": {}}})
	fill(b, broker, b.N)
	a := &acker{Sink: quiet{}, ready: make(chan struct{}), done: make(chan struct{}, b.N+1)}
	s, err := broker.Dial(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if a.stream, err = s.Consume(b.Context(), transport.Subscription{Queue: "q", Prefetch: 256}, a); err != nil {
		b.Fatal(err)
	}
	close(a.ready)
	for range b.N {
		<-a.done
	}
	b.StopTimer()
	s.Cut()
	<-s.Joined()
}

// BenchmarkIdleShutdown measures the stop of a consumer that does nothing.
func BenchmarkIdleShutdown(b *testing.B) {
	for name, n := range map[string]int{"subscriptions=1": 1, "subscriptions=256": 256} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				var subs []managed.Subscription
				for i := range n {
					subs = append(subs, managed.Subscription{Queue: ids(i + 1)[i], Handler: returns(managed.Ack)})
				}
				h := managedtest.New(b, managed.Config{Subscriptions: subs})
				h.Start()
				b.StartTimer()
				h.Stop()
			}
		})
	}
}

// quiet hears nothing.
type quiet struct{}

func (quiet) Deliver(*transport.Delivery)                {}
func (quiet) Written([]*transport.Settlement, time.Time) {}
func (quiet) Failed([]*transport.Settlement, error)      {}
func (quiet) Proven(uint64, transport.Proof)             {}
func (quiet) Observe(transport.Observation)              {}
func (quiet) Ended(transport.End)                        {}
