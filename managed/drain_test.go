package managed_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
)

// seen records message ids in the order in which handlers start.
type seen struct {
	mu  sync.Mutex
	ids []string
}

func (s *seen) add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = append(s.ids, id)
}

func (s *seen) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ids)
}

func (s *seen) handler(d time.Duration) managed.Handler {
	return func(ctx context.Context, m *managed.Delivery) managed.Outcome {
		s.add(m.MessageID)
		return sleeps(d)(ctx, m)
	}
}

func TestDrainModes(t *testing.T) {
	for name, tc := range map[string]struct {
		drain    managed.Drain
		want     verdict
		took     time.Duration
		evidence []string
	}{
		"auto":      {managed.DrainAuto, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 4, Started: 1, Acked: 1, HandedBack: 3}}, time.Second, []string{"cancel_written", "cancel_ok", "close_ok"}},
		"hand_back": {managed.DrainHandBack, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 4, Started: 1, Acked: 1, HandedBack: 3}}, time.Second, []string{"cancel_written", "cancel_ok", "close_ok"}},
		"finish_prefetched": {managed.DrainFinishPrefetched, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 4, Started: 4, Acked: 4}}, 4 * time.Second,
			[]string{"cancel_written", "cancel_ok", "close_ok"}},
		// Nothing is cancelled, so that the ack lets one more come.
		"ordered": {managed.DrainOrdered, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 5, Started: 1, Acked: 1, HandedBack: 4}}, time.Second, []string{"close_ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s seen
				h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{
					{Queue: "q", Prefetch: 4, Drain: tc.drain, Handler: s.handler(time.Second)}}})
				h.Publish("q", ids(6)...)
				h.Start()
				synctest.Wait()
				begin := time.Now()
				h.Stop()
				if took := time.Since(begin); took != tc.took {
					t.Errorf("took %s, want %s", took, tc.took)
				}
				got, d := verdictOf(t, h)
				want(t, got, tc.want)
				var kinds []string
				for _, r := range d.Resources {
					for _, e := range r.Evidence {
						if r.Kind == "channel" && slices.Contains([]string{"cancel_written", "cancel_ok", "close_ok"}, e.Kind) {
							kinds = append(kinds, e.Kind)
						}
					}
				}
				if diff := cmp.Diff(tc.evidence, kinds); diff != "" {
					t.Errorf("evidence (-want +got):\n%s", diff)
				}
				var back []string
				for _, m := range h.Broker.Ready("q") {
					back = append(back, m.MessageID)
				}
				if diff := cmp.Diff(ids(6)[tc.want.Sheet.Acked:], back); diff != "" {
					t.Errorf("the queue (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// auto finishes a delivery whose returns are counted, so that rolling stops cannot use a message up.
func TestAutoFinishesWhatWasReturnedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := memory.New(memory.Config{Queues: map[string]memory.Options{"q": {Kind: transport.DeclareQuorum}}})
		h := managedtest.New(t, managed.Config{})
		for i := range 2 {
			c, err := managed.New(managed.Config{Transport: broker, Logger: slog.New(slog.DiscardHandler), Subscriptions: []managed.Subscription{
				{Queue: "q", Prefetch: 4, Handler: sleeps(time.Second)}}})
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				for _, id := range ids(4) {
					if err := broker.Publish("q", memory.Message{MessageID: id}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := c.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			d, _ := c.ShutdownReport()
			// The first one hands three back; for the second one those have been returned before, and are finished.
			w := []report.Sheet{{Received: 4, Started: 1, Acked: 1, HandedBack: 3}, {Received: 3, Started: 3, Acked: 3}}[i]
			w.Conserved = true
			if diff := cmp.Diff(w, d.Deliveries.InShutdown); diff != "" {
				t.Errorf("stop %d (-want +got):\n%s", i+1, diff)
			}
		}
		h.Stop()
	})
}
