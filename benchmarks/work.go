package main

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// work counts what handlers did. With stuck the first one takes two seconds, or until everything else is done.
type work struct {
	want    int64
	stuck   bool
	count   atomic.Int64
	done    chan struct{}
	release chan struct{}
}

func newWork(messages int, stuck bool) *work {
	w := &work{want: int64(messages), stuck: stuck, done: make(chan struct{}), release: make(chan struct{})}
	if stuck {
		w.want-- // the stuck one is not waited for
	}
	return w
}

func (w *work) handle() {
	n := w.count.Add(1)
	if w.stuck && n == 1 {
		select {
		case <-time.After(2 * time.Second):
		case <-w.release:
		}
		return
	}
	if w.stuck {
		n--
	}
	if n == w.want {
		close(w.done)
	}
}

// broker is a queue full of messages.
type broker struct {
	conn  *amqp.Connection
	queue string
}

func prepare(url string, s scenario, messages int) (*broker, error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return nil, err
	}
	b := &broker{conn: conn, queue: fmt.Sprintf("lc.bench.%d", time.Now().UnixNano())}
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if _, err := ch.QueueDeclare(b.queue, true, false, false, false, amqp.Table{"x-queue-type": s.Queue}); err != nil {
		return nil, err
	}
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	body := bytes.Repeat([]byte("x"), s.Body)
	var last *amqp.DeferredConfirmation
	for range messages {
		if last, err = ch.PublishWithDeferredConfirm("", b.queue, false, false, amqp.Publishing{Body: body}); err != nil {
			return nil, err
		}
	}
	last.Wait()
	return b, ch.Close()
}

func (b *broker) close() {
	if ch, err := b.conn.Channel(); err == nil {
		_, _ = ch.QueueDelete(b.queue, false, false, false)
	}
	_ = b.conn.Close()
}
