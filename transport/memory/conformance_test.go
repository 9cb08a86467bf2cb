package memory_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
	"github.com/lastcall-go/lastcall/transport/transporttest"
)

func TestConformance(t *testing.T) {
	b := memory.New(memory.Config{})
	h := harness(b)
	h.New = func(testing.TB) transport.Transport { return b }
	transporttest.Run(t, h)
}

// harness is everything but New.
func harness(b *memory.Broker) transporttest.Harness {
	var queues atomic.Int64
	return transporttest.Harness{
		Kinds: []transport.Declare{transport.DeclareClassic, transport.DeclareQuorum},
		NewQueue: func(t testing.TB, o transporttest.QueueOptions) string {
			name := fmt.Sprintf("q%d", queues.Add(1))
			options := memory.Options{Kind: o.Kind}
			if o.DeadLetter != "" {
				options.Arguments = map[string]any{memory.ArgDeadLetter: o.DeadLetter}
			}
			if err := b.Declare(name, options); err != nil {
				t.Fatal(err)
			}
			return name
		},
		Publish: func(t testing.TB, queue string, messages ...transporttest.Message) {
			for _, m := range messages {
				err := b.Publish(queue, memory.Message{MessageID: m.ID, Body: m.Body, ContentType: m.ContentType, Headers: m.Headers})
				if err != nil {
					t.Fatal(err)
				}
			}
		},
		Drain: func(t testing.TB, queue string, _ int) (left []transporttest.Message) {
			if _, unacked := b.Depth(queue); unacked != 0 {
				t.Errorf("%d messages of %s are still with a consumer", unacked, queue)
			}
			for _, m := range b.Ready(queue) {
				left = append(left, transporttest.Message{ID: m.MessageID, Body: m.Body, ContentType: m.ContentType, Headers: m.Headers})
			}
			b.Delete(queue)
			return left
		},
		Faults: transporttest.Faults{
			Drop: func(t testing.TB, s transport.Session) {
				if b.Drop(320, "CONNECTION_FORCED", s) != 1 {
					t.Error("no such session to drop")
				}
			},
			Reset: func(t testing.TB, s transport.Session) {
				if b.Reset(s) != 1 {
					t.Error("no such session to reset")
				}
			},
			Silence: func(_ testing.TB, s transport.Session) func() {
				b.Silence(s)
				return func() { b.Resume(s) }
			},
			SilenceDial: func(testing.TB, transport.Transport) func() {
				b.Withhold(memory.ReplyDial)
				return func() { b.Release(memory.ReplyDial) }
			},
			DeleteQueue: func(t testing.TB, queue string) {
				if !b.Delete(queue) {
					t.Errorf("no queue %s to delete", queue)
				}
			},
		},
	}
}
