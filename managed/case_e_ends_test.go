package managed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/transport"
)

// kinds are the ways in which the handler of everyKind ends, by the first part of the message id; "" is an empty body.
var kinds = []string{"malformed", "error", "panic", "goexit", "zero", "reject", "timeout", ""}

func kindOf(id string) string {
	kind, _, _ := strings.Cut(id, "-")
	return kind
}

var errKind = errors.New("this kind fails")

// everyKind ends as the message's kind says, after a while.
func everyKind(while time.Duration) managed.Handler {
	decode := managed.JSON(func(context.Context, struct{}, *managed.Delivery) managed.Outcome { return managed.Ack })
	return func(ctx context.Context, d *managed.Delivery) managed.Outcome {
		time.Sleep(while)
		switch kindOf(d.MessageID) {
		case "malformed":
			return decode(ctx, d)
		case "error":
			return managed.Fail(errKind)
		case "panic":
			panic(errKind)
		case "goexit":
			runtime.Goexit()
		case "zero":
			return managed.Outcome{}
		case "reject":
			return managed.Reject(errKind)
		case "timeout":
			<-ctx.Done()
			return managed.Fail(ctx.Err())
		case "":
			if len(d.Body) > 0 {
				return managed.Reject(fmt.Errorf("a body of %d bytes", len(d.Body)))
			}
		}
		return managed.Ack
	}
}

// ofEveryKind makes n ids of each kind, shuffled.
func ofEveryKind(n int, rng *rand.Rand) []string {
	var out []string
	for _, kind := range kinds {
		for i := range n {
			if kind == "" {
				out = append(out, "")
			} else {
				out = append(out, fmt.Sprintf("%s-%d", kind, i))
			}
		}
	}
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// Whatever way a handler ends, its delivery is counted down: the drain ends, and every sheet adds up to what handlers did.
func TestCase_E06_EveryPathCountsDown(t *testing.T) {
	// placed holds the sheet since the start against the calls, under OnErrorReject.
	placed := func(t *testing.T, d report.ShutdownReport, list []call) {
		t.Helper()
		n := make(map[string]uint64)
		for _, c := range list {
			n[kindOf(c.ID)]++
		}
		calls := uint64(len(list))
		if diff := cmp.Diff(report.Sheet{Received: calls, Started: calls, Acked: n[""], Rejected: calls - n[""], Conserved: true,
			HandlerPanics: n["panic"], Malformed: n["malformed"]}, startedOnly(d.Deliveries.SinceStart)); diff != "" {
			t.Errorf("since start (-want +got):\n%s", diff)
		}
		if d.Completion != report.GracefulCompleted || d.ExitCode != 0 || !d.QueueCloseReconciled {
			t.Errorf("completion %s, exit code %d, queue_close_reconciled %t: %+v", d.Completion, d.ExitCode, d.QueueCloseReconciled, d.Findings)
		}
	}
	subscription := managed.Subscription{Prefetch: 128, Concurrency: 32, OnError: managed.OnErrorReject, HandlerTimeout: 40 * time.Millisecond}

	t.Run("rabbitmq", func(t *testing.T) {
		t.Parallel()
		n := 1000
		if testing.Short() {
			n = 30
		}
		rng := rand.New(rand.NewPCG(6, 1))
		b := rabbittest.New(t)
		sub := subscription
		sub.Queue, sub.Declare, sub.Handler = b.Queue(rabbittest.Classic), transport.DeclareClassic, everyKind(0)
		published := ofEveryKind(n, rng)
		b.Publish(sub.Queue, published...)
		s := newStand(t, b, managed.Config{Subscriptions: []managed.Subscription{sub}})
		stopAt := int64(len(published)/2 + rng.IntN(len(published)/2))
		s.start()
		eventually(t, "the random point of the stop", func() bool { return s.calls.done.Load() >= stopAt })
		d := s.stop()
		placed(t, d, s.calls.all())
		s.within(2 * time.Second)
		s.agrees(d, sub.Queue, published, over)
	})
	t.Run("stopped at random points", func(t *testing.T) {
		rounds, n := 4, 1000
		if testing.Short() {
			rounds, n = 4, 50
		}
		for round := range rounds {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(6, uint64(round)))
				sub := subscription
				sub.Queue, sub.Handler = "q", everyKind(time.Millisecond)
				h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{sub}})
				var calls calls
				if err := h.Consumer.Use(calls.record); err != nil {
					t.Fatal(err)
				}
				h.Publish("q", ofEveryKind(n, rng)...)
				h.Start()
				// A message takes 1 ms, one in eight 30 ms, and 32 run at once: it would be over after about 1.15 ms for each n.
				time.Sleep(time.Duration(rng.IntN(1200*n)) * time.Microsecond)
				h.Stop()
				placed(t, h.Report(), calls.all())
				if ready, unacked := h.Broker.Depth("q"); ready != len(kinds)*n-len(calls.all()) || unacked != 0 {
					t.Errorf("%d ready, %d unacked after %d calls", ready, unacked, len(calls.all()))
				}
			})
		}
	})
	// Where failures are requeued the same messages come again and again, and none is lost or counted twice.
	t.Run("requeued", func(t *testing.T) {
		for round := range 4 {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(7, uint64(round)))
				sub := subscription
				sub.Queue, sub.Handler, sub.OnError, sub.RequeueDelay = "q", everyKind(time.Millisecond), managed.OnErrorRequeue, managed.NoRequeueDelay
				h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{sub}})
				var calls calls
				if err := h.Consumer.Use(calls.record); err != nil {
					t.Fatal(err)
				}
				const n = 100
				h.Publish("q", ofEveryKind(n, rng)...)
				h.Start()
				time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
				h.Stop()
				_, d := verdictOf(t, h)
				sheet, gone := d.Deliveries.SinceStart, uint64(calls.count(settled))
				if sheet.Acked+sheet.Rejected != gone || sheet.Requeued != uint64(calls.count(over))-gone || d.ExitCode != 0 {
					t.Errorf("%d calls, %d of them settled for good; the report says %+v, exit code %d", calls.count(over), gone, sheet, d.ExitCode)
				}
				if ready, unacked := h.Broker.Depth("q"); uint64(ready) != uint64(len(kinds)*n)-gone || unacked != 0 {
					t.Errorf("%d ready, %d unacked, %d gone", ready, unacked, gone)
				}
			})
		}
	})
	// One that is never counted down holds up nothing but itself, and the report names it.
	t.Run("with a leak", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		t.Cleanup(func() { close(release) })
		rng := rand.New(rand.NewPCG(6, 2))
		b := rabbittest.New(t)
		sub := subscription
		others := everyKind(0)
		sub.Queue = b.Queue(rabbittest.Classic)
		sub.Handler = func(ctx context.Context, d *managed.Delivery) managed.Outcome {
			if d.MessageID == "leak" {
				blockedForEver(release)
			}
			return others(ctx, d)
		}
		published := append([]string{"leak"}, ofEveryKind(10, rng)...)
		b.Publish(sub.Queue, published...)
		s := newStand(t, b, managed.Config{Lifecycle: managed.Lifecycle{ShutdownTimeout: time.Second, ForceWindow: 50 * time.Millisecond},
			Subscriptions: []managed.Subscription{sub}})
		s.start()
		eventually(t, "all but the leak", func() bool { return s.calls.count(over) == len(published)-1 })
		d := s.stop()
		if d.Completion != report.Incomplete || d.ExitCode != 3 || d.Deliveries.InShutdown.Abandoned != 1 || d.Deliveries.InShutdown.Unresolved != 0 {
			t.Errorf("completion %s, exit code %d, %+v", d.Completion, d.ExitCode, d.Deliveries.InShutdown)
		}
		s.within(2 * time.Second)
		if len(d.Unsettled) != 1 || d.Unsettled[0].MessageID != "leak" || d.Unsettled[0].Bucket != "abandoned" || d.Unsettled[0].Queue != sub.Queue {
			t.Errorf("unsettled %+v, want the leak alone", d.Unsettled)
		}
		s.agrees(d, sub.Queue, published, over)
	})
}

// An end that has nothing to wait for waits for nothing, also where a part had ended long before.
func TestCase_E07_IdleTakesNoTime(t *testing.T) {
	quick := func(t *testing.T, d report.ShutdownReport) {
		t.Helper()
		if d.Completion != report.GracefulCompleted || d.ExitCode != 0 || d.Deliveries.InShutdown.Received != 0 {
			t.Errorf("completion %s, exit code %d, %+v, findings %+v", d.Completion, d.ExitCode, d.Deliveries.InShutdown, d.Findings)
		}
		for name, span := range phaseTimes(t, d) {
			if took := span[1] - span[0]; took > 500_000 {
				t.Errorf("phase %s took %d us", name, took)
			}
		}
	}
	t.Run("one of three consumers stopped before", func(t *testing.T) {
		t.Parallel()
		b := rabbittest.New(t)
		tr := onBroker(t)
		var all []*stand
		for range 3 {
			s := newStand(t, b, managed.Config{Transport: tr, Subscriptions: []managed.Subscription{
				{Queue: b.Queue(rabbittest.Classic), Handler: returns(managed.Ack)}}})
			s.start()
			all = append(all, s)
		}
		if err := all[0].Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := all[0].ReportJSON()
		for _, s := range all {
			s.term()
		}
		for i, s := range all {
			d := s.end()
			s.within(time.Second)
			quick(t, d)
			if kind := d.Trigger.Kind; (kind == report.TriggerAPI) != (i == 0) {
				t.Errorf("consumer %d: trigger %s", i, kind)
			}
		}
		if err := all[0].Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(before, all[0].ReportJSON()) {
			t.Error("a later stop changed the report of the consumer that was stopped before")
		}
	})
	t.Run("one of three subscriptions ended before", func(t *testing.T) {
		t.Parallel()
		b := rabbittest.New(t)
		var subs []managed.Subscription
		for range 3 {
			subs = append(subs, managed.Subscription{Queue: b.Queue(rabbittest.Classic), Handler: returns(managed.Ack)})
		}
		s := newStand(t, b, managed.Config{Subscriptions: subs, Reconnect: managed.Reconnect{GiveUpAfter: time.Millisecond}})
		s.start()
		b.Delete(subs[1].Queue)
		eventually(t, "the subscription has failed", func() bool { return s.Snapshot().Subscriptions[1].State == "failed" })
		d := s.stop()
		s.within(time.Second)
		quick(t, d)
		if diff := cmp.Diff([]string{"ready", "failed", "ready"}, states(d)); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
	})
	t.Run("to the instant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := managedtest.New(t, managed.Config{Reconnect: managed.Reconnect{GiveUpAfter: time.Second}, Subscriptions: []managed.Subscription{
				{Queue: "a", Handler: returns(managed.Ack)}, {Queue: "b", Handler: returns(managed.Ack)}, {Queue: "c", Handler: returns(managed.Ack)}}})
			if err := h.Consumer.Go("done early", func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			h.Start()
			h.Broker.Delete("b")
			time.Sleep(time.Minute)
			begin := time.Now()
			h.Stop()
			if took := time.Since(begin); took != 0 {
				t.Errorf("an idle stop took %s", took)
			}
			_, d := verdictOf(t, h)
			quick(t, d)
			if got := flagsOf(d, "done early")["done early"]; got != (flags{true, true, true, true}) {
				t.Errorf("the task that had ended: %+v", got)
			}
		})
	})
}

// What ends beside a consumer or subscription does not reach its neighbour: its handlers run on, its settlements hold, nothing
// of it comes again.
func TestCase_E08_TheNeighbourNeverNotices(t *testing.T) {
	// blocks until release.
	blocks := func(release <-chan struct{}) managed.Handler {
		return func(ctx context.Context, _ *managed.Delivery) managed.Outcome {
			select {
			case <-release:
				return managed.Ack
			case <-ctx.Done():
				return managed.Requeue(context.Cause(ctx))
			}
		}
	}
	untouched := func(t *testing.T, s *stand, queue string, n int) {
		t.Helper()
		list := s.calls.all()
		for _, c := range list {
			if c.Queue == queue && (c.Redelivered || c.Cause != nil || !acked(c)) {
				t.Errorf("the neighbour noticed: %+v", c)
			}
		}
		if got := s.calls.count(func(c call) bool { return c.Queue == queue }); got != n {
			t.Errorf("%d calls at the neighbour, want %d", got, n)
		}
	}
	t.Run("of two consumers", func(t *testing.T) {
		t.Parallel()
		b := rabbittest.New(t)
		tr := onBroker(t)
		release := make(chan struct{})
		one, other := b.Queue(rabbittest.Classic), b.Queue(rabbittest.Classic)
		b.Publish(one, ids(1)...)
		b.Publish(other, ids(8)...)
		make := func(queue string, h managed.Handler) *stand {
			return newStand(t, b, managed.Config{Transport: tr, Subscriptions: []managed.Subscription{{Queue: queue, Prefetch: 8, Concurrency: 5, Handler: h}}})
		}
		stopped, neighbour := make(one, returns(managed.Ack)), make(other, blocks(release))
		stopped.start()
		neighbour.start()
		neighbour.await(5)
		first := stopped.stop()
		stopped.verdict(first, report.GracefulCompleted, 0, first.Deliveries.InShutdown)
		if got := neighbour.calls.count(running); got != 5 || !neighbour.Snapshot().Ready {
			t.Errorf("%d running at the neighbour, %+v", got, neighbour.Snapshot())
		}
		close(release)
		eventually(t, "the neighbour has had all", func() bool { return neighbour.calls.count(over) == 8 })
		b.Publish(other, "later")
		eventually(t, "the neighbour takes more", func() bool { return neighbour.calls.count(over) == 9 })
		d := neighbour.stop()
		untouched(t, neighbour, other, 9)
		if d.Completion != report.GracefulCompleted || d.Deliveries.SinceStart.Acked != 9 || len(d.Sessions) != 1 {
			t.Errorf("%s, %+v, sessions %+v", d.Completion, d.Deliveries.SinceStart, d.Sessions)
		}
		if !first.Trigger.At.Before(d.Trigger.At.Time) {
			t.Errorf("stopped at %s and %s", first.Trigger.At, d.Trigger.At)
		}
		if left := len(b.Drain(one)) + len(b.Drain(other)); left != 0 {
			t.Errorf("%d left", left)
		}
	})
	t.Run("of two subscriptions", func(t *testing.T) {
		t.Parallel()
		b := rabbittest.New(t)
		release := make(chan struct{})
		lost, other := b.Queue(rabbittest.Classic), b.Queue(rabbittest.Classic)
		b.Publish(lost, ids(4)...)
		b.Publish(other, ids(8)...)
		s := newStand(t, b, managed.Config{Subscriptions: []managed.Subscription{
			{Queue: lost, Prefetch: 4, Handler: blocks(nil)},
			{Queue: other, Prefetch: 8, Concurrency: 5, Handler: blocks(release)},
		}})
		s.start()
		s.await(6)
		eventually(t, "all received", func() bool { return s.Snapshot().Subscriptions[0].Sheet.Received == 4 })
		b.Delete(lost)
		s.await(5)
		eventually(t, "placed", func() bool { return s.Snapshot().Subscriptions[0].Sheet.InFlight == 0 })
		if got := s.Snapshot().Subscriptions[1]; got.Started != 5 || got.State != "ready" {
			t.Errorf("the neighbour: %+v", got)
		}
		close(release)
		eventually(t, "the neighbour has had all", func() bool { return s.calls.count(acked) == 8 })
		d := s.stop()
		untouched(t, s, other, 8)
		if diff := cmp.Diff(report.Sheet{Received: 4, Started: 1, Interrupted: 1, Released: 3, Conserved: true}, sheetOf(d, lost).SinceStart); diff != "" {
			t.Errorf("the lost one (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(report.Sheet{Received: 8, Started: 8, Acked: 8, Conserved: true}, sheetOf(d, other).SinceStart); diff != "" {
			t.Errorf("the neighbour (-want +got):\n%s", diff)
		}
		if d.Completion != report.GracefulCompleted || d.ExitCode != 0 || len(d.Sessions) != 1 {
			t.Errorf("%s, exit code %d, sessions %+v, findings %+v", d.Completion, d.ExitCode, d.Sessions, d.Findings)
		}
		if left := b.Drain(other); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
	t.Run("to the instant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{
				{Queue: "lost", Prefetch: 4, Handler: sleeps(time.Hour), HandlerTimeout: 2 * time.Hour},
				{Queue: "other", Prefetch: 8, Concurrency: 5, Handler: sleeps(10 * time.Second)}}})
			h.Publish("lost", ids(4)...)
			h.Publish("other", ids(5)...)
			h.Start()
			synctest.Wait()
			h.Broker.Delete("lost")
			time.Sleep(time.Second)
			begin := time.Now()
			h.Stop()
			if took := time.Since(begin); took != 9*time.Second {
				t.Errorf("took %s, want what the neighbour's handlers had to go: 9s", took)
			}
			got, d := verdictOf(t, h)
			want(t, got, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 5, Started: 5, Acked: 5}})
			if at := d.Deliveries.SinceStart; at.Released != 3 || at.Interrupted != 1 {
				t.Errorf("since start %+v", at)
			}
		})
	})
}
