package managed_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
)

// spread is how far handlers end before or after the cut.
const spread = 5 * time.Millisecond

// cutWindow is the force window: the cut comes so long after the force. The close has most of a second then.
const cutWindow = 100 * time.Millisecond

// cut is a subscription whose handlers ignore their context and end so long before or after the cut, one length for each id.
type cut struct {
	at      chan struct{} // closed when instant is set
	instant time.Time
	lengths map[string]time.Duration
	done    sync.WaitGroup
}

func newCut(lengths map[string]time.Duration) *cut {
	c := &cut{at: make(chan struct{}), lengths: lengths}
	c.done.Add(len(lengths))
	return c
}

func (c *cut) handler(_ context.Context, d *managed.Delivery) managed.Outcome {
	defer c.done.Done()
	<-c.at
	time.Sleep(time.Until(c.instant.Add(c.lengths[d.MessageID])))
	return managed.Ack
}

func (c *cut) config(queue string) managed.Config {
	return managed.Config{Lifecycle: managed.Lifecycle{ForceWindow: cutWindow}, Subscriptions: []managed.Subscription{
		{Queue: queue, Prefetch: len(c.lengths), Concurrency: len(c.lengths), HandlerTimeout: time.Hour, Handler: c.handler}}}
}

// end forces the consumer and waits for the report and then for the handlers, so that a late ack has had its chance.
func (c *cut) end(consumer *managed.Consumer) {
	c.instant = time.Now().Add(cutWindow)
	close(c.at)
	consumer.Force()
	<-consumer.Done()
	c.done.Wait()
}

// fates are what became of the deliveries of all runs.
type fates struct{ acked, abandoned atomic.Int64 }

// judge holds one run's report against what the broker has left: what is abandoned is there, what is acked is not. A machine so
// busy that the end of an action is not seen in time makes the report say that, and may leave acks unproven.
func (f *fates) judge(t *testing.T, d report.ShutdownReport, started int, left []string) {
	t.Helper()
	buckets := make(map[string]string)
	count := make(map[string]uint64)
	for _, u := range d.Unsettled {
		buckets[u.MessageID] = u.Bucket
		count[u.Bucket]++
	}
	for _, id := range left {
		switch buckets[id] {
		case "abandoned":
			delete(buckets, id)
		case "unresolved":
		default:
			t.Errorf("%s is still at the broker and was acked, the report says", id)
		}
	}
	for id, bucket := range buckets {
		if bucket == "abandoned" {
			t.Errorf("%s was abandoned, the report says, and is not at the broker", id)
		}
	}
	unseen := hasFinding(d, report.CodeConnectionCloseUnanswered)
	for _, p := range d.Phases {
		unseen = unseen || slices.ContainsFunc(p.Actions, func(a report.Action) bool { return a.Forced == report.ForcedTimedOut })
	}
	gone := uint64(started) - count["abandoned"] - count["unresolved"]
	w := verdict{report.Incomplete, 3, report.Sheet{Received: uint64(started), Started: uint64(started), Acked: gone, Abandoned: count["abandoned"]}}
	w.Sheet.LateResults = d.Deliveries.InShutdown.LateResults // those that came between cut and sealing
	if unseen {
		w.Sheet.Unresolved = count["unresolved"]
	} else if count["abandoned"] == 0 {
		w.Completion = report.ForcedCompleted
	}
	got := verdict{d.Completion, d.ExitCode, d.Deliveries.InShutdown}
	want(t, got, w)
	if w.Sheet.Conserved = true; got != w {
		t.Logf("findings %+v", d.Findings)
	}
	f.acked.Add(int64(gone))
	f.abandoned.Add(int64(count["abandoned"]))
}

// bothSeen fails if the cut was not where the test thinks.
func (f *fates) bothSeen(t *testing.T) {
	t.Helper()
	t.Logf("%d acked, %d abandoned", f.acked.Load(), f.abandoned.Load())
	if f.acked.Load() == 0 || f.abandoned.Load() == 0 {
		t.Error("the race has not been run: there is only one fate")
	}
}

// lengthsAround makes one length for each of n ids, spread evenly about the cut; i of runs shifts them a little.
func lengthsAround(n, i, runs int) map[string]time.Duration {
	out := make(map[string]time.Duration, n)
	for j, id := range ids(n) {
		out[id] = -spread + 2*spread*time.Duration(j*runs+i)/time.Duration(n*runs)
	}
	return out
}

// inBatches prepares runs one after the other, lets a few at a time end together, and checks each: taking the stacks of what is
// abandoned stops the whole process for a moment, which the runs here share.
func inBatches(t *testing.T, runs, batch int, prepare func(t *testing.T, i int) (end, check func())) {
	for from := 0; from < runs && !t.Failed(); from += batch {
		var ends, checks []func()
		for i := from; i < from+batch; i++ {
			end, check := prepare(t, i)
			ends, checks = append(ends, end), append(checks, check)
		}
		var group sync.WaitGroup
		for _, end := range ends {
			group.Go(end)
		}
		group.Wait()
		for _, check := range checks {
			check()
		}
	}
}

// Handlers end within 5 ms of the cut, 300 times and more: whether it was in time is decided once, for report and broker alike.
func TestCase_F08_HandlerEndsAtTheCut(t *testing.T) {
	t.Run("rabbitmq", func(t *testing.T) {
		t.Parallel()
		runs, each := 60, 5
		if testing.Short() {
			runs = 12
		}
		b := rabbittest.New(t)
		var f fates
		inBatches(t, runs, 6, func(t *testing.T, i int) (end, check func()) {
			queue, c := b.Queue(rabbittest.Classic), newCut(lengthsAround(each, i, runs))
			b.Publish(queue, ids(each)...)
			s := newStand(t, b, c.config(queue))
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.await(each)
			return func() { c.end(s.Consumer) }, func() {
				d := reportOf(t, s.Consumer)
				var left []string
				for _, m := range s.left(queue, len(d.Unsettled)) {
					if left = append(left, m.ID); !m.Redelivered {
						t.Errorf("%s is there as if never delivered", m.ID)
					}
				}
				f.judge(t, d, each, left)
			}
		})
		f.bothSeen(t)
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		runs := 300
		if testing.Short() {
			runs = 60
		}
		var f fates
		inBatches(t, runs, 15, func(t *testing.T, i int) (end, check func()) {
			c := newCut(lengthsAround(1, i, runs))
			h := managedtest.New(t, c.config("q"))
			h.Publish("q", ids(1)...)
			h.Start()
			awaitStarted(t, h, 1)
			return func() { c.end(h.Consumer) }, func() { f.judge(t, reportOf(t, h.Consumer), 1, inQueue(t, h)) }
		})
		f.bothSeen(t)
	})
	// In fake time the cut is exact: before it acked, after it abandoned, at it one of the two.
	t.Run("to the instant", func(t *testing.T) {
		const steps = 50
		for step := -steps; step <= steps; step++ {
			synctest.Test(t, func(t *testing.T) {
				length := spread * time.Duration(step) / steps
				c := newCut(map[string]time.Duration{"m1": length})
				h := managedtest.New(t, c.config("q"))
				h.Publish("q", "m1")
				h.Start()
				synctest.Wait()
				c.end(h.Consumer)
				d := h.Report()
				var f fates
				f.judge(t, reportOf(t, h.Consumer), 1, inQueue(t, h))
				if step != 0 && (f.acked.Load() == 1) != (step < 0) {
					t.Errorf("%s from the cut: %+v", length, d.Deliveries.InShutdown)
				}
			})
		}
	})
	// The notice before it decides nothing about the delivery, only whether force was needed.
	t.Run("at the notice", func(t *testing.T) {
		for _, length := range []time.Duration{-spread, -1, 1, spread} {
			synctest.Test(t, func(t *testing.T) {
				h := managedtest.New(t, managed.Config{Lifecycle: budget(4 * time.Second), Subscriptions: []managed.Subscription{
					{Queue: "q", HandlerTimeout: time.Hour, Handler: sleepsThrough(3*time.Second + length)}}})
				h.Publish("q", "m1")
				h.Start()
				synctest.Wait()
				h.Stop()
				w := verdict{report.GracefulCompleted, 0, report.Sheet{Received: 1, Started: 1, Acked: 1}}
				if length > 0 {
					w.Completion, w.Code = report.ForcedCompleted, 3
				}
				got, d := verdictOf(t, h)
				want(t, got, w)
				if d.Force.Used != (length > 0) || len(inQueue(t, h)) != 0 {
					t.Errorf("%s from the notice: force %+v, left %v", length, d.Force, inQueue(t, h))
				}
			})
		}
	})
}

// An outcome that was in time is settled before anything closes, also if that takes a moment.
func TestCase_F08_InTimeIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &tap{Transport: memoryWith(t, "q", 1), submitting: 5 * time.Millisecond, delivered: make(map[string]int)}
		c := newConsumer(t, managed.Config{Transport: p, Lifecycle: budget(4 * time.Second), Subscriptions: []managed.Subscription{
			{Queue: "q", HandlerTimeout: time.Hour, Handler: sleepsThrough(3750*time.Millisecond - 1)}}}) // F is at 3.75 s
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := c.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		d := reportOf(t, c)
		want(t, verdict{d.Completion, d.ExitCode, d.Deliveries.InShutdown},
			verdict{report.ForcedCompleted, 3, report.Sheet{Received: 1, Started: 1, Acked: 1}})
	})
}

// inQueue are the ids of what q still has.
func inQueue(t *testing.T, h *managedtest.Harness) (out []string) {
	t.Helper()
	for _, m := range h.Broker.Ready("q") {
		out = append(out, m.MessageID)
	}
	if _, unacked := h.Broker.Depth("q"); unacked != 0 {
		t.Errorf("%d unacked after the end", unacked)
	}
	return out
}
