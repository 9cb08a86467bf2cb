package memory_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
)

var plain = map[string]memory.Options{"q": {}}

func TestRequeuedMessageKeepsItsPlace(t *testing.T) {
	bubble(t, plain, func(b *bench) {
		b.publish("q", "a", "b", "c", "d", "e")
		p := b.consume(b.session, transport.Subscription{Queue: "q", Prefetch: 3})
		p.want(b, "deliver 1 a", "deliver 2 b", "deliver 3 c")
		p.settle(transport.Requeue, 2)
		p.want(b, "written requeue 2", "proven 1 window", "deliver 4 b again")
		p.Cancel()
		p.want(b, "cancel_written at 0s", "cancel_ok at 0s")
		p.settle(transport.Requeue, 4, 1)
		b.wantReady("q", "a", "b", "d", "e")
		p.settle(transport.Requeue, 3)
		b.wantReady("q", "a", "b", "c", "d", "e")
	})
}

func TestUnsettledMessagesGoBackInOrder(t *testing.T) {
	for name, end := range map[string]func(*bench, *tape){
		"cut":           func(b *bench, _ *tape) { b.session.Cut() },
		"stream close":  func(b *bench, p *tape) { _ = p.Close(b.Context()) },
		"session close": func(b *bench, _ *tape) { _ = b.session.Close(b.Context()) },
		"reset":         func(b *bench, _ *tape) { b.Reset() },
		"drop":          func(b *bench, _ *tape) { b.Drop(320, "") },
		"cancel":        func(b *bench, _ *tape) { b.CancelConsumers("q") },
		"channel":       func(b *bench, _ *tape) { b.CloseChannels("q", 406, "") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, plain, func(b *bench) {
				b.publish("q", "a", "b", "c", "d", "e", "f")
				p := b.consume(b.session, transport.Subscription{Queue: "q", Prefetch: 2})
				q := b.consume(b.session, transport.Subscription{Queue: "q", Prefetch: 2})
				synctest.Wait()
				p.settle(transport.Ack, 2)
				q.Cancel()
				synctest.Wait()
				q.settle(transport.Requeue, 2)
				synctest.Wait()
				_ = q.Close(b.Context())
				end(b, p)
				b.wantReady("q", "a", "c", "d", "e", "f")
				if _, unacked := b.Depth("q"); unacked != 0 {
					b.Errorf("%d messages are with nobody", unacked)
				}
			})
		})
	}
}

func TestConsumersTakeTurns(t *testing.T) {
	bubble(t, plain, func(b *bench) {
		p := b.consume(b.session, transport.Subscription{Queue: "q", Prefetch: 2})
		q := b.consume(b.session, transport.Subscription{Queue: "q", Prefetch: 3})
		b.publish("q", "a", "b", "c", "d", "e", "f")
		p.want(b, "deliver 1 a", "deliver 2 c")
		q.want(b, "deliver 1 b", "deliver 2 d", "deliver 3 e")
		b.wantReady("q", "f")
		p.settle(transport.Ack, 1)
		p.want(b, "written ack 1", "proven 1 window", "deliver 3 f")
	})
}

func TestConsumersThatLeaveArePassedOver(t *testing.T) {
	bubble(t, plain, func(b *bench) {
		var tapes []*tape
		for range 5 {
			tapes = append(tapes, b.consume(b.session, transport.Subscription{Queue: "q", Prefetch: 9}))
		}
		tapes[1].Cancel()
		if err := tapes[3].Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		b.publish("q", "a", "b", "c", "d")
		tapes[0].want(b, "deliver 1 a", "deliver 2 d")
		tapes[1].want(b, "cancel_written at 0s", "cancel_ok at 0s")
		tapes[2].want(b, "deliver 1 b")
		tapes[4].want(b, "deliver 1 c")
	})
}

func TestSingleActiveConsumer(t *testing.T) {
	single := map[string]memory.Options{"q": {Arguments: map[string]any{memory.ArgSingleActive: true}}}
	bubble(t, single, func(b *bench) {
		p := b.consume(b.session, transport.Subscription{Queue: "q", Prefetch: 1})
		q := b.consume(b.session, transport.Subscription{Queue: "q", Prefetch: 2})
		b.publish("q", "a", "b", "c")
		p.want(b, "deliver 1 a")
		q.want(b)
		if err := p.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		q.want(b, "deliver 1 a again", "deliver 2 b")
	})
}

func TestDeliveryLimit(t *testing.T) {
	limited := map[string]memory.Options{
		"q":    {Kind: transport.DeclareQuorum, Arguments: map[string]any{memory.ArgDeliveryLimit: 2, memory.ArgDeadLetter: "dead"}},
		"dead": {},
	}
	bubble(t, limited, func(b *bench) {
		headers := map[string]any{"k": "v"}
		if err := b.Publish("q", memory.Message{MessageID: "a", Headers: headers}, memory.Message{MessageID: "b"}); err != nil {
			b.Fatal(err)
		}
		p := b.consume(b.session, transport.Subscription{Queue: "q", Prefetch: 1})
		p.want(b, "deliver 1 a")
		p.settle(transport.Requeue, 1)
		p.want(b, "written requeue 1", "proven 1 window", "deliver 2 a again x1")
		if err := p.Close(b.Context()); err != nil { // a close counts like a requeue
			b.Fatal(err)
		}
		p = b.consume(b.session, transport.Subscription{Queue: "q", Prefetch: 1})
		p.want(b, "deliver 1 a again x2")
		p.settle(transport.Requeue, 1)
		p.want(b, "written requeue 1", "proven 1 window", "deliver 2 b")
		got := b.Ready("dead")
		want := []memory.Message{{MessageID: "a", Headers: map[string]any{"k": "v", "x-first-death-queue": "q", "x-first-death-reason": "delivery_limit"}}}
		if diff := cmp.Diff(want, got); diff != "" {
			b.Errorf("dead letters (-want +got):\n%s", diff)
		}
		if len(headers) != 1 {
			b.Errorf("the publisher's headers were written to: %v", headers)
		}
	})
}

func TestDeclarationsThatMakeNoSense(t *testing.T) {
	b := memory.New(memory.Config{Queues: map[string]memory.Options{
		"classic": {}, "quorum": {Kind: transport.DeclareQuorum, Arguments: map[string]any{"x-max-length": 5}},
	}})
	for _, c := range []struct {
		name, queue string
		options     memory.Options
		want        transport.ErrorKind
	}{
		{"the same again", "classic", memory.Options{Kind: transport.DeclareClassic, Arguments: map[string]any{}}, 0},
		{"the same arguments", "quorum", memory.Options{Kind: transport.DeclareQuorum, Arguments: map[string]any{"x-max-length": 5}}, 0},
		{"another kind", "classic", memory.Options{Kind: transport.DeclareQuorum}, transport.KindMismatch},
		{"other arguments", "quorum", memory.Options{Kind: transport.DeclareQuorum, Arguments: map[string]any{"x-max-length": 6}}, transport.KindMismatch},
		{"no arguments", "quorum", memory.Options{Kind: transport.DeclareQuorum}, transport.KindMismatch},
		{"a passive queue", "new", memory.Options{Kind: transport.DeclarePassive}, transport.KindInvalid},
		{"a limit on a classic queue", "new", memory.Options{Arguments: map[string]any{memory.ArgDeliveryLimit: 1}}, transport.KindInvalid},
		{"a negative limit", "new", memory.Options{Kind: transport.DeclareQuorum, Arguments: map[string]any{memory.ArgDeliveryLimit: -1}}, transport.KindInvalid},
		{"a dead letter queue without a name", "new", memory.Options{Arguments: map[string]any{memory.ArgDeadLetter: 1}}, transport.KindInvalid},
		{"single active, perhaps", "new", memory.Options{Arguments: map[string]any{memory.ArgSingleActive: "yes"}}, transport.KindInvalid},
	} {
		if got := transport.KindOf(b.Declare(c.queue, c.options)); got != c.want {
			t.Errorf("%s: kind %s, want %s", c.name, got, c.want)
		}
	}
	if got := transport.KindOf(b.Publish("new", memory.Message{})); got != transport.KindNotFound {
		t.Errorf("a refused declaration left a queue behind: Publish returned kind %s", got)
	}
}

func TestConsumeDeclares(t *testing.T) {
	bubble(t, nil, func(b *bench) {
		sub := transport.Subscription{Queue: "new", Prefetch: 1, Declare: transport.DeclareQuorum, Arguments: map[string]any{memory.ArgDeliveryLimit: 3}}
		p := b.consume(b.session, sub)
		b.publish("new", "a")
		p.want(b, "deliver 1 a")
		if !p.CountsReturns() {
			b.Error("a quorum queue counts returns")
		}
		sub.Arguments["x-max-length"] = 1 // what was declared stays as it was
		if _, err := b.session.Consume(b.Context(), sub, &tape{}); transport.KindOf(err) != transport.KindMismatch {
			b.Errorf("Consume with other arguments returned %v", err)
		}
	})
}

func TestLeft(t *testing.T) {
	bubble(t, map[string]memory.Options{"b": {}, "a": {}, "empty": {}}, func(b *bench) {
		b.publish("a", "1", "2", "3")
		b.publish("b", "4")
		p := b.consume(b.session, transport.Subscription{Queue: "a", Prefetch: 1})
		p.want(b, "deliver 1 1")
		if diff := cmp.Diff([]memory.Remainder{{"a", 2, 1}, {"b", 1, 0}}, b.Left()); diff != "" {
			b.Errorf("left (-want +got):\n%s", diff)
		}
		state, ok := p.QueueState()
		if want := (transport.QueueState{Ready: 2, Consumers: 1, At: b.start}); !ok || state != want {
			b.Errorf("queue state %+v, %t; want %+v", state, ok, want)
		}
		if b.Delete("nothing") || !b.Delete("a") {
			b.Error("Delete must report whether there was a queue")
		}
		if diff := cmp.Diff([]memory.Remainder{{"b", 1, 0}}, b.Left()); diff != "" {
			b.Errorf("left after the deletion (-want +got):\n%s", diff)
		}
	})
}
