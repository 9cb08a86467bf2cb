package managed_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/faultproxy"
	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
)

// dials counts the dials of a transport.
type dials struct {
	transport.Transport
	n atomic.Int64
}

func (d *dials) Dial(ctx context.Context) (transport.Session, error) {
	d.n.Add(1)
	return d.Transport.Dial(ctx)
}

// throughProxy is the transport to the real broker by way of a fault proxy.
func throughProxy(t *testing.T) (transport.Transport, *faultproxy.Proxy) {
	t.Helper()
	u, err := url.Parse(rabbittest.URL())
	if err != nil {
		t.Fatal(err)
	}
	p, err := faultproxy.New(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	u.Host = p.Addr()
	tr, err := rabbitmq.New(rabbitmq.Config{URL: u.String(), ConnectionName: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	return tr, p
}

// states are the states of the subscriptions when the shutdown began.
func states(d report.ShutdownReport) (out []string) {
	for _, s := range d.Subscriptions {
		out = append(out, s.State)
	}
	return out
}

// Three components, the second of which does not come up: the first is drained and closed in order, the second's start is called
// off, the third is never begun.
func TestCase_E09_StopInTheMiddleOfTheStart(t *testing.T) {
	t.Run("the second dial hangs", func(t *testing.T) {
		t.Parallel()
		b := rabbittest.New(t)
		silent, proxy := throughProxy(t)
		proxy.Silent(true)
		first, second, third := &dials{Transport: onBroker(t)}, &dials{Transport: silent}, &dials{Transport: onBroker(t)}
		queue := b.Queue(rabbittest.Classic)
		published := ids(4)
		b.Publish(queue, published...)
		s := newStand(t, b, managed.Config{Subscriptions: []managed.Subscription{
			{Queue: queue, Transport: first, Prefetch: 4, Handler: takesFromStop(func() time.Duration { return 200 * time.Millisecond })},
			{Queue: queue, Transport: second, Handler: returns(managed.Ack)},
			{Queue: queue, Transport: third, Handler: returns(managed.Ack)},
		}})
		s.run(context.Background(), nil)
		s.await(1) // the first one consumes already
		eventually(t, "the second dial hangs", func() bool { return proxy.Open() == 1 })
		eventually(t, "3 buffered", func() bool { return s.Snapshot().Subscriptions[0].Buffered == 3 })
		d := s.stop()
		s.verdict(d, report.GracefulCompleted, 0, report.Sheet{Received: 4, Started: 1, Acked: 1, HandedBack: 3})
		s.within(time.Second)
		s.agrees(d, queue, published, acked)
		if diff := cmp.Diff([]string{"ready", "starting", "starting"}, states(d)); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		if first.n.Load() != 1 || second.n.Load() != 1 || third.n.Load() != 0 {
			t.Errorf("dials: %d, %d, %d", first.n.Load(), second.n.Load(), third.n.Load())
		}
		var names []string
		for _, r := range d.Resources {
			if r.Kind == string(resources.Channel) || r.Kind == string(resources.Connection) {
				names = append(names, r.Name)
				if !r.Succeeded {
					t.Errorf("%+v", r)
				}
			}
		}
		if len(names) != 2 || len(d.Sessions) != 1 {
			t.Errorf("broker resources %q, sessions %+v; want those of the first component", names, d.Sessions)
		}
		if start := actionOf(d, "drain", "start"); start.Graceful != report.GracefulDone {
			t.Errorf("the start: %+v", start)
		}
	})
	t.Run("the second queue is not answered", func(t *testing.T) {
		t.Parallel()
		b := rabbittest.New(t)
		tr, proxy := throughProxy(t)
		queues := []string{b.Queue(rabbittest.Classic), b.Queue(rabbittest.Classic), b.Queue(rabbittest.Classic)}
		reached := make(chan struct{})
		proxy.When(faultproxy.ToServer, []byte(queues[1]), func() {
			proxy.Set(faultproxy.ToClient, faultproxy.Discard)
			close(reached)
		})
		var subs []managed.Subscription
		for _, q := range queues {
			subs = append(subs, managed.Subscription{Queue: q, Handler: returns(managed.Ack)})
		}
		s := newStand(t, b, managed.Config{Transport: tr, Lifecycle: budget(2 * time.Second), Subscriptions: subs})
		s.run(context.Background(), nil)
		<-reached
		d := s.stop()
		// The connection does not answer its close either, and the report does not say that it did.
		s.verdict(d, report.Incomplete, 1, report.Sheet{})
		s.within(1500 * time.Millisecond) // the reserve of 500 ms, not the budget
		if diff := cmp.Diff([]string{"ready", "starting", "starting"}, states(d)); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		if !hasFinding(d, report.CodeConnectionCloseUnanswered) {
			t.Errorf("findings %+v", d.Findings)
		}
		eventually(t, "no consumer is left at the broker", func() bool { _, n := b.State(queues[0]); return n == 0 })
	})
	t.Run("the second queue does not exist", func(t *testing.T) {
		t.Parallel()
		b := rabbittest.New(t)
		third := &dials{Transport: onBroker(t)}
		queue := b.Queue(rabbittest.Classic)
		published := ids(4)
		b.Publish(queue, published...)
		tr := &slowSecond{Transport: onBroker(t), ready: make(chan struct{})}
		s := newStand(t, b, managed.Config{Transport: tr, Subscriptions: []managed.Subscription{
			{Queue: queue, Prefetch: 4, Handler: takesFromStop(func() time.Duration { return 200 * time.Millisecond })},
			{Queue: queue + ".missing", Handler: returns(managed.Ack)},
			{Queue: queue, Transport: third, Handler: returns(managed.Ack)},
		}})
		s.run(context.Background(), nil)
		s.await(1)
		eventually(t, "3 buffered", func() bool { return s.Snapshot().Subscriptions[0].Buffered == 3 })
		s.began = time.Now()
		close(tr.ready)
		err := <-s.ended
		s.took = time.Since(s.began)
		if start, ok := errors.AsType[*managed.StartError](err); !ok || start.Detail != report.StartupConfiguration || transport.KindOf(err) != transport.KindNotFound {
			t.Errorf("Run returned %v", err)
		}
		d := reportOf(t, s.Consumer)
		s.verdict(d, report.Failed, 78, report.Sheet{Received: 4, Started: 1, Acked: 1, HandedBack: 3})
		s.within(time.Second)
		s.agrees(d, queue, published, acked)
		if d.Trigger.Kind != report.TriggerStartup || !d.QueueCloseReconciled || third.n.Load() != 0 {
			t.Errorf("trigger %+v, queue_close_reconciled %t, %d dials of the third", d.Trigger, d.QueueCloseReconciled, third.n.Load())
		}
	})
	for name, tc := range map[string]struct {
		setup  func(ctx context.Context, release <-chan struct{}) error
		want   report.Completion
		code   int
		start  report.GracefulOutcome
		joined bool
	}{
		"a setup that obeys": {want: report.GracefulCompleted, start: report.GracefulDone, joined: true,
			setup: func(ctx context.Context, _ <-chan struct{}) error { <-ctx.Done(); return context.Cause(ctx) }},
		"a setup that hangs": {want: report.Incomplete, code: 3, start: report.GracefulTimedOut,
			setup: func(_ context.Context, release <-chan struct{}) error { <-release; return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release, begun := make(chan struct{}), make(chan struct{})
			t.Cleanup(func() { close(release) })
			b := rabbittest.New(t)
			tr := &dials{Transport: onBroker(t)}
			s := newStand(t, b, managed.Config{Transport: tr, Lifecycle: budget(time.Second), Subscriptions: []managed.Subscription{
				{Queue: b.Queue(rabbittest.Classic), Handler: returns(managed.Ack)}}})
			closed := false
			s.run(context.Background(), func(ctx context.Context, c *managed.Consumer) error {
				if err := c.Own("first", resources.Pool, func() { closed = true }); err != nil {
					return err
				}
				close(begun)
				return tc.setup(ctx, release)
			})
			<-begun
			d := s.stop()
			s.verdict(d, tc.want, tc.code, report.Sheet{})
			s.within(1500 * time.Millisecond)
			if start := actionOf(d, "drain", "start"); start.Graceful != tc.start || d.RuntimeJoined != tc.joined {
				t.Errorf("the start: %+v, runtime_joined %t", start, d.RuntimeJoined)
			}
			if !closed || tr.n.Load() != 0 {
				t.Errorf("the first resource closed: %t; %d dials", closed, tr.n.Load())
			}
		})
	}
	t.Run("to the instant", func(t *testing.T) {
		for name, hangs := range map[string]memory.Reply{"dial": memory.ReplyDial, "consume": memory.ReplyConsume} {
			synctest.Test(t, func(t *testing.T) {
				first, second, third := memoryWith(t, "q", 2), memoryWith(t, "q", 2), &dials{Transport: memoryWith(t, "q", 2)}
				second.Withhold(hangs)
				c := newConsumer(t, managed.Config{Subscriptions: []managed.Subscription{
					{Queue: "q", Transport: first, Handler: sleepsThrough(1500 * time.Millisecond)},
					{Queue: "q", Transport: second, Handler: returns(managed.Ack)},
					{Queue: "q", Transport: third, Handler: returns(managed.Ack)}}})
				signals := make(chan osSignal, 1)
				time.AfterFunc(time.Second, func() { signals <- sigterm })
				begin := time.Now()
				if err := c.RunWith(t.Context(), managed.RunConfig{Signals: signals}); err != nil {
					t.Errorf("%s: Run returned %v", name, err)
				}
				if took := time.Since(begin); took != 1500*time.Millisecond {
					t.Errorf("%s: ended after %s, want with the first component's handler at 1.5s", name, took)
				}
				d := reportOf(t, c)
				want(t, verdict{d.Completion, d.ExitCode, d.Deliveries.InShutdown},
					verdict{report.GracefulCompleted, 0, report.Sheet{Received: 2, Started: 1, Acked: 1, HandedBack: 1}})
				if got := states(d); !slices.Equal(got, []string{"ready", "starting", "starting"}) || third.n.Load() != 0 {
					t.Errorf("%s: states %q, %d dials of the third", name, got, third.n.Load())
				}
			})
		}
	})
}

// slowSecond holds back the second Consume until ready.
type slowSecond struct {
	transport.Transport
	ready chan struct{}
	n     atomic.Int64
}

func (s *slowSecond) Dial(ctx context.Context) (transport.Session, error) {
	session, err := s.Transport.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return slowSession{session, s}, nil
}

type slowSession struct {
	transport.Session
	slow *slowSecond
}

func (s slowSession) Consume(ctx context.Context, sub transport.Subscription, sink transport.Sink) (transport.Stream, error) {
	if s.slow.n.Add(1) == 2 {
		<-s.slow.ready
	}
	return s.Session.Consume(ctx, sub, sink)
}
