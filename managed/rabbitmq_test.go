package managed_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/report/reporttest"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
)

// onRabbitMQ returns a consumer on the real broker.
func onRabbitMQ(t *testing.T, lifecycle managed.Lifecycle, subs ...managed.Subscription) *managed.Consumer {
	t.Helper()
	tr, err := rabbitmq.New(rabbitmq.Config{URL: rabbittest.URL(), ConnectionName: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := managed.New(managed.Config{Transport: tr, Lifecycle: lifecycle, Subscriptions: subs, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Shutdown(context.Background()) })
	return c
}

// The main path on the real broker: what was started is acked, what was prefetched is with the second consumer within
// milliseconds, and the broker agrees with the report.
func TestRabbitMQStopWithWorkInHand(t *testing.T) {
	for _, kind := range []rabbittest.Kind{rabbittest.Classic, rabbittest.Quorum} {
		t.Run(string(kind), func(t *testing.T) {
			b := rabbittest.New(t)
			queue := b.Queue(kind)
			b.Publish(queue, ids(40)...)
			var mu sync.Mutex
			started := make(map[string]int)
			c := onRabbitMQ(t, managed.Lifecycle{}, managed.Subscription{Queue: queue, Prefetch: 20, Concurrency: 4,
				Handler: func(_ context.Context, d *managed.Delivery) managed.Outcome {
					mu.Lock()
					started[d.MessageID]++
					mu.Unlock()
					time.Sleep(300 * time.Millisecond)
					return managed.Ack
				}})
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(450 * time.Millisecond) // the situation: the second round of handlers is half-way
			second := make(chan time.Time, 64)
			b.Consume(queue, func(string, bool) { second <- time.Now() })
			for range 16 { // what was ready beyond the prefetch
				<-second
			}
			begin := time.Now()
			if err := c.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			took := time.Since(begin)
			d, _ := c.ShutdownReport()
			reporttest.Check(t, c.ReportJSON())
			if diff := cmp.Diff(report.Sheet{Received: 20, Started: 4, Acked: 4, HandedBack: 16, Conserved: true}, d.Deliveries.InShutdown); diff != "" {
				t.Errorf("in shutdown (-want +got):\n%s", diff)
			}
			for range 16 {
				if after := (<-second).Sub(begin); after > 50*time.Millisecond {
					t.Errorf("handed back to the second consumer after %s", after)
				}
			}
			if took > 300*time.Millisecond {
				t.Errorf("took %s for handlers with about 150ms to go", took)
			}
			if len(started) != 8 || d.Completion != report.GracefulCompleted {
				t.Errorf("%d started, completion %s, findings %+v", len(started), d.Completion, d.Findings)
			}
			if left := b.Drain(queue); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
