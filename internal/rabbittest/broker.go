package rabbittest

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// URL is the broker's address: LASTCALL_TEST_AMQP_URL, or the local default.
func URL() string {
	if url := os.Getenv("LASTCALL_TEST_AMQP_URL"); url != "" {
		return url
	}
	return "amqp://guest:guest@127.0.0.1:5672/"
}

// Broker is a test's own connection to the broker. It is for one goroutine at a time.
type Broker struct {
	t    testing.TB
	conn *amqp.Connection
}

var queues atomic.Uint64

// New connects; the connection is closed at the end of the test.
func New(t testing.TB) *Broker {
	t.Helper()
	conn, err := amqp.Dial(URL())
	if err != nil {
		t.Fatalf("no RabbitMQ at LASTCALL_TEST_AMQP_URL or 127.0.0.1:5672 (scripts/broker provides one): %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &Broker{t: t, conn: conn}
}

// Kind is a type of queue.
type Kind string

// The types of queue.
const (
	Classic Kind = "classic"
	Quorum  Kind = "quorum"
)

// Queue declares a fresh durable queue and deletes it at the end of the test.
func (b *Broker) Queue(kind Kind, arguments ...map[string]any) string {
	b.t.Helper()
	name := fmt.Sprintf("lc.test.%d.%d", os.Getpid(), queues.Add(1))
	args := amqp.Table{"x-queue-type": string(kind)}
	for _, more := range arguments {
		for k, v := range more {
			args[k] = v
		}
	}
	b.on(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, args)
		return err
	})
	b.t.Cleanup(func() {
		ch, err := b.conn.Channel()
		if err != nil {
			return
		}
		_, _ = ch.QueueDelete(name, false, false, false)
		_ = ch.Close()
	})
	return name
}

// Delete deletes queue with all it holds; its consumers are cancelled by the broker.
func (b *Broker) Delete(queue string) {
	b.t.Helper()
	b.on(func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		return err
	})
}

// Publish puts a message for each id at the end of queue, its body the id, and waits for the broker's confirms.
func (b *Broker) Publish(queue string, ids ...string) {
	b.t.Helper()
	b.on(func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		confirms := make([]*amqp.DeferredConfirmation, 0, len(ids))
		for _, id := range ids {
			c, err := ch.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{MessageId: id, Body: []byte(id), DeliveryMode: amqp.Persistent})
			if err != nil {
				return err
			}
			confirms = append(confirms, c)
		}
		for _, c := range confirms {
			if ok, err := c.WaitContext(context.Background()); err != nil || !ok {
				return fmt.Errorf("not confirmed: %v", err)
			}
		}
		return nil
	})
}

// Message is what the broker still had.
type Message struct {
	ID          string
	Redelivered bool
}

// Drain consumes everything that is ready in queue, acknowledges it, and returns it in order.
func (b *Broker) Drain(queue string) []Message {
	b.t.Helper()
	var out []Message
	b.on(func(ch *amqp.Channel) error {
		for {
			d, ok, err := ch.Get(queue, true)
			if err != nil || !ok {
				return err
			}
			out = append(out, Message{d.MessageId, d.Redelivered})
		}
	})
	return out
}

// State returns how many messages a classic queue has ready and how many consumers it has.
func (b *Broker) State(queue string) (ready, consumers int) {
	b.t.Helper()
	b.on(func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		ready, consumers = q.Messages, q.Consumers
		return err
	})
	return ready, consumers
}

// Consume starts a second consumer without a prefetch limit that acknowledges what it gets and calls f for each. It ends with
// the test.
func (b *Broker) Consume(queue string, f func(id string, redelivered bool)) {
	b.t.Helper()
	ch, err := b.conn.Channel()
	if err != nil {
		b.t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // ends when the channel is closed below
		defer close(done)
		for d := range deliveries {
			f(d.MessageId, d.Redelivered)
			_ = d.Ack(false)
		}
	}()
	b.t.Cleanup(func() {
		_ = ch.Close()
		<-done
	})
}

// on runs f on a channel of its own.
func (b *Broker) on(f func(ch *amqp.Channel) error) {
	b.t.Helper()
	ch, err := b.conn.Channel()
	if err != nil {
		b.t.Fatal(err)
	}
	err = f(ch)
	_ = ch.Close()
	if err != nil {
		b.t.Fatal(err)
	}
}
