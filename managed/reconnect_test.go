package managed_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lastcall-go/lastcall/internal/faultproxy"
	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/report/reporttest"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
)

var (
	reconnects        = flag.Int("reconnects", 12, "how often TestReconnectsUnderLoad breaks the connection")
	reconnectMessages = flag.Int("reconnect-messages", 6000, "how many messages TestReconnectsUnderLoad publishes")
)

// handled is the record of handlers that the report is held against.
type handled struct {
	mu       sync.Mutex
	finished map[string]int // handlers that returned ack
	done     chan struct{}  // closes when every message has been handled at least once
	want     int
}

func (h *handled) finish(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.finished[id]++; len(h.finished) == h.want {
		select {
		case <-h.done:
		default:
			close(h.done)
		}
	}
}

// The connection breaks again and again under load: nothing is lost, nothing is acked that no handler finished, and neither a
// goroutine nor a connection is left.
func TestReconnectsUnderLoad(t *testing.T) {
	before := goleak.IgnoreCurrent()
	for _, kind := range []rabbittest.Kind{rabbittest.Classic, rabbittest.Quorum} {
		t.Run(string(kind), func(t *testing.T) { reconnectUnderLoad(t, kind) })
	}
	goleak.VerifyNone(t, before)
}

func reconnectUnderLoad(t *testing.T, kind rabbittest.Kind) {
	b := rabbittest.New(t)
	queue := b.Queue(kind)
	all := ids(*reconnectMessages)
	b.Publish(queue, all...)
	target, err := url.Parse(rabbittest.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faultproxy.New(target.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	target.Host = proxy.Addr()
	tr, err := rabbitmq.New(rabbitmq.Config{URL: target.String(), ConnectionName: fmt.Sprintf("%s %d", t.Name(), time.Now().UnixNano())})
	if err != nil {
		t.Fatal(err)
	}
	record := &handled{finished: make(map[string]int), done: make(chan struct{}), want: len(all)}
	c, err := managed.New(managed.Config{Transport: tr, Logger: slog.New(slog.DiscardHandler),
		Reconnect: managed.Reconnect{Max: time.Second},
		Subscriptions: []managed.Subscription{{Queue: queue, Prefetch: 64, Concurrency: 16, RequeueDelay: managed.NoRequeueDelay,
			Handler: func(ctx context.Context, d *managed.Delivery) managed.Outcome {
				select {
				case <-time.After(time.Duration(rand.IntN(4)) * time.Millisecond):
				case <-ctx.Done():
					return managed.Outcome{}
				}
				record.finish(d.MessageID)
				return managed.Ack
			}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range *reconnects {
		select {
		case <-record.done:
		case <-time.After(time.Duration(20+rand.IntN(80)) * time.Millisecond):
		}
		if i%3 == 2 {
			proxy.FinishAll(faultproxy.ToClient)
		} else {
			proxy.ResetAll()
		}
		awaitReady(t, c)
	}
	select {
	case <-record.done:
	case <-time.After(60 * time.Second):
		t.Fatalf("not everything handled after a minute: %d of %d, %+v", len(record.finished), len(all), c.Snapshot())
	}
	if err := c.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	reporttest.Check(t, c.ReportJSON())
	d, _ := c.ShutdownReport()
	since := d.Deliveries.SinceStart
	left := make(map[string]bool)
	for _, m := range b.Drain(queue) {
		if left[m.ID] = true; !m.Redelivered {
			t.Errorf("%s is left and was never delivered", m.ID)
		}
	}
	finished := 0
	for _, id := range all {
		finished += record.finished[id]
		if record.finished[id] == 0 && !left[id] {
			t.Errorf("%s is lost: no handler finished it, and the broker does not have it", id)
		}
	}
	// What the broker no longer has was acked, by us: proven, or written on a session that was lost.
	if gone := len(all) - len(left); int(since.Acked) > gone || int(since.Acked+since.Unresolved) < gone {
		t.Errorf("%d acked and %d unresolved, but %d are gone from the queue", since.Acked, since.Unresolved, gone)
	}
	if int(since.Acked) > finished {
		t.Errorf("%d acked, but only %d handlers said so", since.Acked, finished)
	}
	t.Logf("%d sessions, %d deliveries: %d acked, %d released, %d interrupted, %d unresolved; left %d", d.Sessions[len(d.Sessions)-1].N,
		since.Received, since.Acked, since.Released, since.Interrupted, since.Unresolved, len(left))
}

func awaitReady(t *testing.T, c *managed.Consumer) {
	t.Helper()
	begin := time.Now()
	for c.Snapshot().Lifecycle != managed.StateReady {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("not consuming again: %+v", c.Snapshot())
		}
		time.Sleep(time.Millisecond)
	}
}
