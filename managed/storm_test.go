package managed_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report/reporttest"
)

// Sixteen callers, from inside handlers too, ask for the end in every way at random: one result, the same bytes for all, no
// deadlock, no goroutine left.
func TestConcurrentShutdowns(t *testing.T) {
	before := goleak.IgnoreCurrent()
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	for round := range rounds {
		concurrentShutdown(t, rand.New(rand.NewPCG(uint64(round), 1)))
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	goleak.VerifyNone(t, before)
}

func concurrentShutdown(t *testing.T, rng *rand.Rand) {
	const callers = 16
	var consumer atomic.Pointer[managed.Consumer]
	fromHandler := rng.IntN(3)
	h := managedtest.New(t, managed.Config{
		Lifecycle: budget(time.Second),
		Subscriptions: []managed.Subscription{{Queue: "q", Concurrency: 4, Prefetch: 8,
			Handler: func(ctx context.Context, d *managed.Delivery) managed.Outcome {
				if c := consumer.Load(); c != nil && d.Tag%3 == uint64(fromHandler) {
					if err := c.Shutdown(ctx); err != managed.ErrInHandler {
						t.Errorf("Shutdown in a handler: %v", err)
					}
				}
				return managed.Ack
			}}},
	})
	h.Publish("q", ids(12)...)
	h.Start()
	consumer.Store(h.Consumer)

	delays := make([]time.Duration, callers)
	kinds := make([]int, callers)
	for i := range callers {
		delays[i], kinds[i] = time.Duration(rng.IntN(200))*time.Microsecond, rng.IntN(4)
	}
	kinds[0] = 0 // one at least asks
	results := make([]error, callers)
	var wait sync.WaitGroup
	for i := range callers {
		wait.Go(func() {
			time.Sleep(delays[i])
			switch kinds[i] {
			case 0:
				results[i] = h.Consumer.Shutdown(context.Background())
			case 1:
				ctx, cancel := context.WithTimeoutCause(context.Background(), delays[i], context.DeadlineExceeded)
				defer cancel()
				if err := h.Consumer.Shutdown(ctx); err == context.DeadlineExceeded {
					<-h.Consumer.Done()
				}
				results[i] = h.Consumer.Shutdown(context.Background())
			case 2:
				h.Consumer.Force()
				results[i] = h.Consumer.Shutdown(context.Background())
			case 3:
				h.Consumer.ShutdownReport()
				<-h.Consumer.Done()
				results[i] = h.Consumer.Shutdown(context.Background())
			}
		})
	}
	wait.Wait()
	for _, err := range results[1:] {
		a, aOK := errors.AsType[*managed.ShutdownError](err)
		b, bOK := errors.AsType[*managed.ShutdownError](results[0])
		if aOK != bOK || aOK && *a != *b {
			t.Errorf("results differ: %v and %v", err, results[0])
		}
	}
	raw := h.Consumer.ReportJSON()
	reporttest.Check(t, raw)
	d, _ := h.Consumer.ShutdownReport()
	d.Findings, d.Phases = nil, nil // a copy: nobody else sees this
	if !bytes.Equal(raw, h.Consumer.ReportJSON()) {
		t.Error("the report's bytes changed")
	}
	ready, unacked := h.Broker.Depth("q")
	sheet := h.Report().Deliveries.SinceStart
	if unacked != 0 || uint64(ready) != 12-sheet.Acked {
		t.Errorf("%d ready, %d unacked at the broker; the report says %d of 12 acked", ready, unacked, sheet.Acked)
	}
}
