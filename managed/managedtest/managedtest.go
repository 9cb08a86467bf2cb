package managedtest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
)

// Call calls h with a made-up delivery of m, as the first one of its session, and returns the outcome. ctx is the handler's:
// cancel it with a cause such as managed.ErrForced to see how the handler comes back.
func Call(ctx context.Context, h managed.Handler, m memory.Message) managed.Outcome {
	return h(ctx, &managed.Delivery{
		Delivery: &transport.Delivery{
			Tag: 1, Body: m.Body, MessageID: m.MessageID, CorrelationID: m.CorrelationID, ReplyTo: m.ReplyTo, Type: m.Type,
			AppID: m.AppID, ContentType: m.ContentType, Encoding: m.Encoding, Priority: m.Priority, Persistent: m.Persistent,
			Published: m.Published, Headers: m.Headers,
		},
		Queue: "test", Session: 1,
	})
}

// Harness is a consumer on an in-process broker.
type Harness struct {
	// Broker holds the queues and makes faults on request.
	Broker *memory.Broker
	// Consumer has been made and not started, so that a test can register what it needs.
	Consumer *managed.Consumer

	t testing.TB
}

// New makes a consumer of cfg on a fresh in-process broker with a queue for every subscription that names no transport of its
// own. cfg.Transport is replaced, and a nil cfg.Logger means silence. At the end of the test the consumer is shut down if it
// has not been.
func New(t testing.TB, cfg managed.Config) *Harness {
	t.Helper()
	h := &Harness{Broker: memory.New(memory.Config{}), t: t}
	cfg.Transport = h.Broker
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	for _, s := range cfg.Subscriptions {
		if s.Transport == nil && s.Queue != "" && s.Declare <= transport.DeclarePassive {
			if err := h.Broker.Declare(s.Queue, memory.Options{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := managed.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.Consumer = c
	t.Cleanup(func() { _ = c.Shutdown(context.Background()) })
	return h
}

// Start starts the consumer and fails the test if it does not start.
func (h *Harness) Start() {
	h.t.Helper()
	if err := h.Consumer.Start(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// Publish puts a message for each id at the end of queue.
func (h *Harness) Publish(queue string, ids ...string) {
	h.t.Helper()
	for _, id := range ids {
		if err := h.Broker.Publish(queue, memory.Message{MessageID: id, Body: []byte(id)}); err != nil {
			h.t.Fatal(err)
		}
	}
}

// Stop shuts the consumer down and returns its report.
func (h *Harness) Stop() report.ShutdownReport {
	h.t.Helper()
	_ = h.Consumer.Shutdown(context.WithoutCancel(h.t.Context())) // how it went is in the report
	return h.Report()
}

// Report waits for the end and returns the report.
func (h *Harness) Report() report.ShutdownReport {
	h.t.Helper()
	<-h.Consumer.Done()
	d, ok := h.Consumer.ShutdownReport()
	if !ok {
		h.t.Fatal("the consumer has ended without a report")
	}
	return d
}
