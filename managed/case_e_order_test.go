package managed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
)

// takesFromStop comes back so long after the shutdown began, whatever its context says.
func takesFromStop(length func() time.Duration) managed.Handler {
	return func(ctx context.Context, _ *managed.Delivery) managed.Outcome {
		<-managed.Stopping(ctx)
		time.Sleep(length())
		return managed.Ack
	}
}

// 20 handlers of random length are in flight at the signal: intake stops, what was not started is with somebody else while they
// go on, each is settled, and only then does anything close.
func TestCase_E01_CloseWaitsForHandlers(t *testing.T) {
	t.Run("rabbitmq", func(t *testing.T) {
		t.Parallel()
		const total = 4 * time.Second
		rng := rand.New(rand.NewPCG(1, 1))
		var mu sync.Mutex
		length := func() time.Duration { // up to what leaves 3 of the 4 seconds
			mu.Lock()
			defer mu.Unlock()
			return 50*time.Millisecond + time.Duration(rng.Int64N(int64(950*time.Millisecond)))
		}
		b := rabbittest.New(t)
		queue := b.Queue(rabbittest.Classic)
		published := ids(60)
		b.Publish(queue, published...)
		s := newStand(t, b, managed.Config{Lifecycle: budget(total), Subscriptions: []managed.Subscription{
			{Queue: queue, Declare: transport.DeclareClassic, Prefetch: 40, Concurrency: 20, Handler: takesFromStop(length)}}})
		s.start()
		s.await(20)
		eventually(t, "20 buffered", func() bool { return s.Snapshot().Subscriptions[0].Buffered == 20 })
		d := s.stop()
		s.verdict(d, report.GracefulCompleted, 0, report.Sheet{Received: 40, Started: 20, Acked: 20, HandedBack: 20})
		s.within(1900 * time.Millisecond)
		s.agrees(d, queue, published, acked)

		last := at(d, s.calls.last())
		phases := phaseTimes(t, d)
		channel, connection := evidenceOf(d, "channel")["rabbitmq-channel:"+queue], evidenceOf(d, "connection")["rabbitmq-connection"]
		for _, order := range []struct {
			first, then string
			a, b        int64
		}{
			{"admission closed", "the last handler's end", phases["close_admission"][1], last},
			{"the cancel frame", "the last handler's end", channel["cancel_written"], last},
			{"cancel-ok", "the last handler's end", channel["cancel_ok"], last},
			{"the last handler's end", "the end of the drain", last - 1, phases["drain"][1]},
			{"the end of the drain", "the channel's close-ok", phases["drain"][1], channel["close_ok"]},
			{"the channel's close-ok", "the connection's close-ok", channel["close_ok"], connection["close_ok"]},
		} {
			if order.a > order.b || order.b == 0 {
				t.Errorf("%s at %d us, %s at %d us", order.first, order.a, order.then, order.b)
			}
		}
		if !d.QueueCloseReconciled || d.Messages.Verdict != report.VerdictClean {
			t.Errorf("queue_close_reconciled %t, messages %s", d.QueueCloseReconciled, d.Messages.Verdict)
		}
	})
	t.Run("to the instant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			n := time.Duration(0)
			h := managedtest.New(t, managed.Config{Lifecycle: budget(4 * time.Second), Subscriptions: []managed.Subscription{
				{Queue: "q", Prefetch: 40, Concurrency: 20, Handler: takesFromStop(func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					n++
					return n * 140 * time.Millisecond
				})}}})
			h.Publish("q", ids(60)...)
			h.Start()
			synctest.Wait()
			go func() {
				time.Sleep(time.Millisecond)
				if ready, unacked := h.Broker.Depth("q"); ready != 40 || unacked != 20 {
					t.Errorf("1ms after the trigger: %d ready, %d unacked; want what was not started back", ready, unacked)
				}
			}()
			h.Stop()
			got, d := verdictOf(t, h)
			want(t, got, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 40, Started: 20, Acked: 20, HandedBack: 20}})
			const drained = 20 * 140_000
			if diff := cmp.Diff(map[string][2]int64{"close_admission": {0, 0}, "drain": {0, drained}, "force": {drained, drained},
				"close_evidence": {drained, drained}, "dispose": {drained, drained}, "publish": {drained, drained}}, phaseTimes(t, d)); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
			if ready, unacked := h.Broker.Depth("q"); ready != 40 || unacked != 0 {
				t.Errorf("%d ready, %d unacked; want 40, 0", ready, unacked)
			}
		})
	})
}

// 10,000 messages wait; after the signal not one of them is started.
func TestCase_E02_NothingStartsAfterTheTrigger(t *testing.T) {
	t.Run("rabbitmq", func(t *testing.T) {
		t.Parallel()
		n := 10_000
		if testing.Short() {
			n = 1000
		}
		b := rabbittest.New(t)
		queue := b.Queue(rabbittest.Classic)
		published := ids(n)
		b.Publish(queue, published...)
		s := newStand(t, b, managed.Config{Subscriptions: []managed.Subscription{
			{Queue: queue, Declare: transport.DeclareClassic, Prefetch: 50, Concurrency: 10, Handler: sleepsThrough(100 * time.Millisecond)}}})
		s.start()
		eventually(t, "the third round", func() bool { return s.calls.count(over) >= 20 })
		d := s.stop()
		sub := sheetOf(d, queue)
		if late := sub.InShutdown.Started - sub.AtTrigger.Started - sub.AtTrigger.Settling; late != 0 {
			t.Errorf("%d started after the trigger: %+v at the trigger, %+v in the shutdown", late, sub.AtTrigger, sub.InShutdown)
		}
		if calls := uint64(len(s.calls.all())); calls != sub.SinceStart.Started || sub.SinceStart.Acked != calls {
			t.Errorf("%d calls, but the report says %+v", calls, sub.SinceStart)
		}
		for _, c := range s.calls.all() {
			// An admitted handler of a busy machine is called a little later; a second round would be 100 ms.
			if after := at(d, c.Began); after > 90_000 {
				t.Errorf("%s started %d us after the trigger", c.ID, after)
			}
		}
		if d.Completion != report.GracefulCompleted || d.ExitCode != 0 {
			t.Errorf("completion %s, exit code %d: %+v", d.Completion, d.ExitCode, d.Findings)
		}
		s.within(time.Second)

		gone := int(sub.SinceStart.Acked)
		if ready, consumers := b.State(queue); ready != n-gone || consumers != 0 {
			t.Errorf("%d ready with %d consumers, want %d with none", ready, consumers, n-gone)
		}
		acked := make(map[string]bool)
		for _, c := range s.calls.all() {
			acked[c.ID] = true
		}
		rest := make(chan string, n)
		b.Consume(queue, func(id string, _ bool) { rest <- id })
		for range n - gone {
			if id := <-rest; acked[id] {
				t.Errorf("%s was acked and is there again", id)
			}
		}
	})
	t.Run("to the instant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			// A link so slow that the round under way ends, and lets ten more come, before the cancel has left.
			broker := memoryWith(t, "q", 10_000)
			p := &tap{Transport: broker, hold: 120 * time.Millisecond, delivered: make(map[string]int)}
			var s seen
			c := newConsumer(t, managed.Config{Transport: p, Subscriptions: []managed.Subscription{
				{Queue: "q", Prefetch: 50, Concurrency: 10, Handler: s.handler(100 * time.Millisecond)}}})
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(250 * time.Millisecond)
			begin := time.Now()
			if err := c.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took != 120*time.Millisecond {
				t.Errorf("took %s, want what the cancel needed", took)
			}
			d := reportOf(t, c)
			want(t, verdict{d.Completion, d.ExitCode, d.Deliveries.InShutdown},
				verdict{report.GracefulCompleted, 0, report.Sheet{Received: 60, Started: 10, Acked: 10, HandedBack: 50}})
			if len(s.ids) != 30 {
				t.Errorf("%d calls, want the three rounds before the trigger", len(s.ids))
			}
			if ready, unacked := broker.Depth("q"); ready != 9970 || unacked != 0 {
				t.Errorf("%d ready, %d unacked", ready, unacked)
			}
		})
	})
}

// tap stands between a transport and the consumer, and notes what passes.
type tap struct {
	transport.Transport
	mu         sync.Mutex
	hold       time.Duration  // how much later a cancel is sent
	submitting time.Duration  // how long it takes to submit a settlement, as on a busy machine
	delivered  map[string]int // hand-overs by message id
	course     []string       // cancel_written, cancel_ok and hand-backs, runs of the same as one
}

func (p *tap) Dial(ctx context.Context) (transport.Session, error) {
	s, err := p.Transport.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return tapSession{s, p}, nil
}

func (p *tap) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.course) == 0 || p.course[len(p.course)-1] != what {
		p.course = append(p.course, what)
	}
}

type tapSession struct {
	transport.Session
	tap *tap
}

func (s tapSession) Consume(ctx context.Context, sub transport.Subscription, sink transport.Sink) (transport.Stream, error) {
	st, err := s.Session.Consume(ctx, sub, tapSink{sink, s.tap})
	if err != nil {
		return nil, err
	}
	return tapStream{st, s.tap}, nil
}

type tapSink struct {
	transport.Sink
	tap *tap
}

func (s tapSink) Deliver(d *transport.Delivery) {
	s.tap.mu.Lock()
	s.tap.delivered[d.MessageID]++
	s.tap.mu.Unlock()
	s.Sink.Deliver(d)
}

func (s tapSink) Observe(o transport.Observation) {
	if o.Kind == transport.ObservedCancelWritten || o.Kind == transport.ObservedCancelOK {
		s.tap.note(string(o.Kind))
	}
	if o.Kind == transport.ObservedCancelWritten && s.tap.submitting > 0 {
		go s.Sink.Observe(o) // in rabbitmq it is not the writer that says so
		return
	}
	s.Sink.Observe(o)
}

type tapStream struct {
	transport.Stream
	tap *tap
}

func (s tapStream) Cancel() { time.AfterFunc(s.tap.hold, s.Stream.Cancel) }

func (s tapStream) Submit(x *transport.Settlement) {
	if x.Verb == transport.Requeue {
		s.tap.note("hand back")
	}
	time.Sleep(s.tap.submitting)
	s.Stream.Submit(x)
}

// What is handed back goes to somebody else: it is given back only once the cancel is on its way, so that the broker hands each
// message to this process once. The broker's own count of a quorum queue says the same.
func TestCase_E03_HandBackFollowsTheCancel(t *testing.T) {
	for _, kind := range []rabbittest.Kind{rabbittest.Classic, rabbittest.Quorum} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := rabbittest.New(t)
			queue := b.Queue(kind)
			published := ids(20)
			b.Publish(queue, published...)
			release := make(chan struct{})
			p := &tap{Transport: onBroker(t), delivered: make(map[string]int)}
			s := newStand(t, b, managed.Config{Transport: p, Subscriptions: []managed.Subscription{{Queue: queue, Prefetch: 20,
				Handler: func(context.Context, *managed.Delivery) managed.Outcome { <-release; return managed.Ack }}}})
			s.start()
			s.await(1)
			eventually(t, "19 buffered", func() bool { return s.Snapshot().Subscriptions[0].Buffered == 19 })
			s.term()

			// The handler goes on until somebody else has had the others.
			counts := make(chan uint64, 20)
			second := newStand(t, b, managed.Config{Subscriptions: []managed.Subscription{{Queue: queue, Prefetch: 20,
				Handler: func(_ context.Context, d *managed.Delivery) managed.Outcome {
					counts <- d.DeliveryCount
					return managed.Ack
				}}}})
			second.start()
			eventually(t, "19 with the second consumer", func() bool { return len(counts) == 19 })
			close(release)
			d := s.end()
			s.verdict(d, report.GracefulCompleted, 0, report.Sheet{Received: 20, Started: 1, Acked: 1, HandedBack: 19})
			second.stop()

			once := make(map[string]int)
			for _, id := range published {
				once[id] = 1
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if diff := cmp.Diff(once, p.delivered); diff != "" {
				t.Errorf("hand-overs to the stopping process (-want +got):\n%s", diff)
			}
			if len(p.course) == 0 || p.course[0] != "cancel_written" {
				t.Errorf("course %q, want the cancel before the first hand-back", p.course)
			}
			if kind == rabbittest.Quorum {
				for range 19 {
					if n := <-counts; n != 1 {
						t.Errorf("the broker says that a message was handed over %d times before, want once", n)
					}
				}
			}
			for _, c := range second.calls.all() {
				if !c.Redelivered {
					t.Errorf("%s came to the second consumer as if never delivered", c.ID)
				}
			}
			if left := b.Drain(queue); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	// Nor does it wait for the answer to the cancel.
	t.Run("to the instant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			// The first handler comes back before the cancel frame has left, the second after it, and the answer last.
			broker := memoryWith(t, "q", 20)
			broker.Delay(memory.ReplyCancel, 500*time.Millisecond)
			p := &tap{Transport: broker, hold: 100 * time.Millisecond, delivered: make(map[string]int)}
			c := newConsumer(t, managed.Config{Transport: p, Subscriptions: []managed.Subscription{{Queue: "q", Prefetch: 20, Concurrency: 2,
				Handler: func(_ context.Context, d *managed.Delivery) managed.Outcome {
					time.Sleep(time.Duration(d.Tag*d.Tag*d.Tag) * 50 * time.Millisecond)
					return managed.Ack
				}}}})
			if err := c.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := c.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			d := reportOf(t, c)
			want(t, verdict{d.Completion, d.ExitCode, d.Deliveries.InShutdown},
				verdict{report.GracefulCompleted, 0, report.Sheet{Received: 20, Started: 2, Acked: 2, HandedBack: 18}})
			if diff := cmp.Diff([]string{"cancel_written", "hand back", "cancel_ok"}, p.course); diff != "" {
				t.Errorf("course (-want +got):\n%s", diff)
			}
			for id, n := range p.delivered {
				if n != 1 {
					t.Errorf("%s was handed over %d times", id, n)
				}
			}
		})
	})
}

// Nor is a hand-back overtaken by the close, if the last handler ends while it is being made.
func TestCase_E03_TheCloseFollowsTheHandBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &tap{Transport: memoryWith(t, "q", 4), submitting: 5 * time.Millisecond, delivered: make(map[string]int)}
		c := newConsumer(t, managed.Config{Transport: p, Subscriptions: []managed.Subscription{
			{Queue: "q", Prefetch: 4, Handler: takesFromStop(func() time.Duration { return 0 })}}})
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := c.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		d := reportOf(t, c)
		want(t, verdict{d.Completion, d.ExitCode, d.Deliveries.InShutdown},
			verdict{report.GracefulCompleted, 0, report.Sheet{Received: 4, Started: 1, Acked: 1, HandedBack: 3}})
	})
}

// The report and the return of Run come after the last line of a handler that takes its time.
func TestCase_E05_TheReportComesAfterTheLastLine(t *testing.T) {
	// lines says ten lines, one every so often, and how many files the report directory held at each.
	type lines struct {
		mu    sync.Mutex
		at    []time.Time
		files []int
	}
	handler := func(l *lines, every time.Duration, dir string) managed.Handler {
		return func(context.Context, *managed.Delivery) managed.Outcome {
			for range 10 {
				time.Sleep(every)
				files, err := os.ReadDir(dir)
				if err != nil {
					return managed.Fail(fmt.Errorf("no report directory: %w", err))
				}
				l.mu.Lock()
				l.at, l.files = append(l.at, time.Now()), append(l.files, len(files))
				l.mu.Unlock()
			}
			return managed.Ack
		}
	}
	count := func(l *lines) int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.at)
	}
	check := func(t *testing.T, l *lines, d report.ShutdownReport, dir string) {
		t.Helper()
		if len(l.at) != 10 {
			t.Fatalf("%d lines, want all 10", len(l.at))
		}
		if diff := cmp.Diff(make([]int, 10), l.files); diff != "" {
			t.Errorf("report files at each line (-want +got):\n%s", diff)
		}
		if sealed := d.Budget.ElapsedUS; sealed < at(d, l.at[9]) {
			t.Errorf("sealed at %d us, the last line came at %d us", sealed, at(d, l.at[9]))
		}
		if files, err := filepath.Glob(filepath.Join(dir, "*.json")); err != nil || len(files) == 0 {
			t.Errorf("no report in %s: %v", dir, err)
		}
	}
	t.Run("rabbitmq", func(t *testing.T) {
		t.Parallel()
		b := rabbittest.New(t)
		queue, dir := b.Queue(rabbittest.Classic), t.TempDir()
		b.Publish(queue, "m1")
		var l lines
		s := newStand(t, b, managed.Config{Report: managed.Report{Dir: dir}, Subscriptions: []managed.Subscription{
			{Queue: queue, Handler: handler(&l, 100*time.Millisecond, dir)}}})
		s.start()
		eventually(t, "two lines", func() bool { return count(&l) == 2 })
		d := s.stop()
		s.verdict(d, report.GracefulCompleted, 0, report.Sheet{Received: 1, Started: 1, Acked: 1})
		s.within(2 * time.Second)
		s.agrees(d, queue, []string{"m1"}, acked)
		check(t, &l, d, dir)
	})
	t.Run("to the instant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var l lines
			dir := t.TempDir()
			h := managedtest.New(t, managed.Config{Report: managed.Report{Dir: dir}, Subscriptions: []managed.Subscription{
				{Queue: "q", Handler: handler(&l, time.Second, dir)}}})
			h.Publish("q", "m1")
			h.Start()
			time.Sleep(2500 * time.Millisecond)
			begin := time.Now()
			h.Stop()
			if took := time.Since(begin); took != 7500*time.Millisecond {
				t.Errorf("took %s, want what the handler needed: 7.5s", took)
			}
			got, d := verdictOf(t, h)
			want(t, got, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 1, Started: 1, Acked: 1}})
			check(t, &l, d, dir)
		})
	})
}
