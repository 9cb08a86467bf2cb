package rabbitmq_test

import (
	"strings"
	"testing"

	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
	"github.com/lastcall-go/lastcall/transport/transporttest"
)

func TestConsumeRefusesWhatMakesNoSense(t *testing.T) {
	noLeaks(t)
	s := dial(t, newTransport(t, rabbitmq.Config{URL: brokerURL()}))
	a := newAdmin(t)
	q := a.queue(t, transporttest.QueueOptions{})
	consume(t, s, transport.Subscription{Queue: q, Prefetch: 1, Tag: "lc.rmq.tag"}, &tape{})
	for name, sub := range map[string]transport.Subscription{
		"no queue":                        {Prefetch: 1},
		"a queue name that does not fit":  {Queue: strings.Repeat("q", 256), Prefetch: 1},
		"a tag that does not fit":         {Queue: q, Prefetch: 1, Tag: strings.Repeat("t", 256)},
		"a tag in use":                    {Queue: q, Prefetch: 1, Tag: "lc.rmq.tag"},
		"no prefetch":                     {Queue: q},
		"a prefetch that does not fit":    {Queue: q, Prefetch: 65536},
		"no declaration":                  {Queue: q, Prefetch: 1, Declare: 9},
		"arguments for a passive declare": {Queue: q, Prefetch: 1, Arguments: map[string]any{"x-expires": 1}},
		"arguments of no type of AMQP's":  {Queue: q, Prefetch: 1, Declare: transport.DeclareClassic, Arguments: map[string]any{"x": struct{}{}}},
		"exclusive on a quorum queue":     {Queue: q, Prefetch: 1, Declare: transport.DeclareQuorum, Exclusive: true},
	} {
		if _, err := s.Consume(t.Context(), sub, &tape{}); transport.KindOf(err) != transport.KindInvalid {
			t.Errorf("%s: %v, want an error of kind invalid", name, err)
		}
	}
	if err := s.Close(t.Context()); err != nil { // nothing of it reached the broker
		t.Error(err)
	}
}

// What is declared has the type and the arguments asked for.
func TestConsumeDeclares(t *testing.T) {
	noLeaks(t)
	a := newAdmin(t)
	s := dial(t, newTransport(t, rabbitmq.Config{URL: brokerURL()}))
	for _, kind := range []transport.Declare{transport.DeclareClassic, transport.DeclareQuorum} {
		q := a.name()
		sub := transport.Subscription{Queue: q, Prefetch: 1, Declare: kind, Arguments: map[string]any{"x-max-length": 1 << 33}}
		r := consume(t, s, sub, &tape{})
		t.Cleanup(func() { a.delete(t, q) })
		a.publish(t, q, numbered(1)...)
		r.awaitDeliveries(t, 1)
		sub.Arguments = map[string]any{"x-max-length": 7}
		if _, err := s.Consume(t.Context(), sub, &tape{}); transport.KindOf(err) != transport.KindMismatch {
			t.Errorf("%s with another length: %v, want a mismatch", kind, err)
		}
		sub.Declare = transport.DeclareClassic + transport.DeclareQuorum - kind
		if _, err := s.Consume(t.Context(), sub, &tape{}); transport.KindOf(err) != transport.KindMismatch {
			t.Errorf("%s as %s: %v, want a mismatch", kind, sub.Declare, err)
		}
	}
}
