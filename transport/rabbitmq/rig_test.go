package rabbitmq_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/lastcall-go/lastcall/internal/faultproxy"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
	"github.com/lastcall-go/lastcall/transport/transporttest"
)

// patience is how long the tests wait for what must happen.
const patience = 30 * time.Second

func brokerURL() string {
	if u := os.Getenv("LASTCALL_TEST_AMQP_URL"); u != "" {
		return u
	}
	return "amqp://guest:guest@127.0.0.1:5672/"
}

// brokerAt is the broker's URL with another host and port.
func brokerAt(t testing.TB, addr string) string {
	t.Helper()
	u, err := url.Parse(brokerURL())
	if err != nil {
		t.Fatal("LASTCALL_TEST_AMQP_URL cannot be read")
	}
	u.Host = addr
	return u.String()
}

func brokerAddr(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(brokerURL())
	if err != nil {
		t.Fatal("LASTCALL_TEST_AMQP_URL cannot be read")
	}
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "5672")
	}
	return u.Host
}

// admin is the tests' own way to the broker, apart from what is tested: one connection, one call at a time.
type admin struct {
	mu         sync.Mutex
	connection *amqp.Connection
	channel    *amqp.Channel // in confirm mode
}

// newAdmin connects; a test that needs a broker fails without one.
func newAdmin(t testing.TB) *admin {
	t.Helper()
	c, err := amqp.DialConfig(brokerURL(), amqp.Config{Properties: amqp.Table{"connection_name": "lc.rmq.admin"}})
	if err != nil {
		t.Fatalf("no broker: set LASTCALL_TEST_AMQP_URL or start one on 127.0.0.1:5672: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	a := &admin{connection: c}
	if a.channel, err = c.Channel(); err != nil {
		t.Fatal(err)
	}
	if err := a.channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return a
}

var queues atomic.Int64

// name is one that no other queue has.
func (a *admin) name() string { return fmt.Sprintf("lc.rmq.%d.%d", os.Getpid(), queues.Add(1)) }

// queue makes a queue that the test's end deletes.
func (a *admin) queue(t testing.TB, o transporttest.QueueOptions, arguments ...any) string {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	name := a.name()
	table := amqp.Table{"x-queue-type": "classic"}
	if o.Kind == transport.DeclareQuorum {
		table["x-queue-type"] = "quorum"
	}
	if o.DeadLetter != "" {
		table["x-dead-letter-exchange"], table["x-dead-letter-routing-key"] = "", o.DeadLetter
	}
	for i := 0; i < len(arguments); i += 2 {
		table[arguments[i].(string)] = arguments[i+1]
	}
	if _, err := a.channel.QueueDeclare(name, true, false, false, false, table); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.delete(t, name) })
	return name
}

func (a *admin) delete(t testing.TB, queue string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.channel.QueueDelete(queue, false, false, false); err != nil {
		t.Error(err)
	}
}

// publish returns when the broker has confirmed all.
func (a *admin) publish(t testing.TB, queue string, messages ...transporttest.Message) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	confirms := make([]*amqp.DeferredConfirmation, len(messages))
	for i, m := range messages {
		c, err := a.channel.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{
			MessageId: m.ID, Body: m.Body, ContentType: m.ContentType, Headers: m.Headers, DeliveryMode: amqp.Persistent})
		if err != nil {
			t.Fatal(err)
		}
		confirms[i] = c
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, c := range confirms {
		if ok, err := c.WaitContext(ctx); !ok {
			t.Fatalf("the broker did not confirm: %v", err)
		}
	}
}

// numbered makes n messages m0, m1, ….
func numbered(n int) []transporttest.Message {
	out := make([]transporttest.Message, n)
	for i := range out {
		out[i] = transporttest.Message{ID: fmt.Sprintf("m%d", i), Body: []byte("body")}
	}
	return out
}

// settled is for how long a queue must look empty to be taken for empty: what a channel or connection leaves behind comes back
// a moment after its close.
const settled = 30 * time.Millisecond

// drain takes out what the broker still has. It counts by consuming, because a quorum queue's counters lag.
func (a *admin) drain(t testing.TB, queue string, atLeast int) (left []transporttest.Message) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	over := time.Now().Add(patience)
	empty := time.Now()
	for {
		d, ok, err := a.channel.Get(queue, true)
		switch {
		case err != nil:
			t.Fatal(err)
		case ok:
			left = append(left, transporttest.Message{ID: d.MessageId, Body: d.Body, ContentType: d.ContentType, Headers: d.Headers})
			empty = time.Now()
		case len(left) >= atLeast && time.Since(empty) > settled, time.Now().After(over):
			return left
		default:
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// rig is a transport that reaches the broker through a proxy of its own.
type rig struct {
	*rabbitmq.Transport
	proxy *faultproxy.Proxy
}

func newRig(t testing.TB) rig {
	t.Helper()
	p, err := faultproxy.New(brokerAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return rig{newTransport(t, rabbitmq.Config{URL: brokerAt(t, p.Addr()), ConnectionName: "lc.rmq." + t.Name()}), p}
}

func newTransport(t testing.TB, cfg rabbitmq.Config) *rabbitmq.Transport {
	t.Helper()
	tr, err := rabbitmq.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func dial(t testing.TB, tr transport.Transport) transport.Session {
	t.Helper()
	s, err := tr.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, s) })
	return s
}

// end cuts a session, if it still lives, and waits until nothing of it runs.
func end(t testing.TB, s transport.Session) {
	t.Helper()
	s.Cut()
	within(t, "Session.Done", s.Done())
	within(t, "Session.Joined", s.Joined())
}

func within(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: not within %s", what, patience)
	}
}

// noLeaks makes the test fail if it leaves a goroutine behind. Call it first, so that it looks last.
func noLeaks(t testing.TB) {
	t.Helper()
	old := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, old) })
}
