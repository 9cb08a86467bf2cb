package managed_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/report/reporttest"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
)

// call is one call of a handler as the test saw it, whatever the report says.
type call struct {
	Queue, ID    string
	Redelivered  bool
	Began, Ended time.Time       // Ended is zero while it runs
	Verdict      managed.Verdict // zero if it did not return
	Cause        error           // of its context, when it came back
}

// calls writes down every handler call.
type calls struct {
	done atomic.Int64 // how many are over
	mu   sync.Mutex
	list []*call
}

// record is the middleware that does it.
func (c *calls) record(next managed.Handler) managed.Handler {
	return func(ctx context.Context, d *managed.Delivery) (out managed.Outcome) {
		one := &call{Queue: d.Queue, ID: d.MessageID, Redelivered: d.Redelivered, Began: time.Now()}
		c.mu.Lock()
		c.list = append(c.list, one)
		c.mu.Unlock()
		defer func() { // also when the handler panics or leaves its goroutine
			c.mu.Lock()
			defer c.mu.Unlock()
			one.Ended, one.Verdict, one.Cause = time.Now(), out.Verdict(), context.Cause(ctx)
			c.done.Add(1)
		}()
		return next(ctx, d)
	}
}

func (c *calls) all() []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]call, len(c.list))
	for i, one := range c.list {
		out[i] = *one
	}
	return out
}

// count returns how many calls match.
func (c *calls) count(match func(call) bool) (n int) {
	for _, one := range c.all() {
		if match(one) {
			n++
		}
	}
	return n
}

func running(c call) bool { return c.Ended.IsZero() }
func over(c call) bool    { return !c.Ended.IsZero() }

// last returns when the last call ended.
func (c *calls) last() (at time.Time) {
	for _, one := range c.all() {
		if one.Ended.After(at) {
			at = one.Ended
		}
	}
	return at
}

// eventually waits for an event that the test can only look for.
func eventually(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("after 20s still not: %s", what)
		}
	}
}

// stand is a consumer on the real broker that ends by a signal, with what its report is held against: the calls of its
// handlers and what the broker has left.
type stand struct {
	*managed.Consumer
	calls calls

	t       *testing.T
	broker  *rabbittest.Broker
	signals chan osSignal
	ended   chan error // what Run returned
	began   time.Time  // of the end
	took    time.Duration
}

// onBroker is the transport to the real broker.
func onBroker(t *testing.T) transport.Transport {
	t.Helper()
	tr, err := rabbitmq.New(rabbitmq.Config{URL: rabbittest.URL(), ConnectionName: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// newStand makes a consumer of cfg, on the real broker unless it names another transport, and silent unless it has a logger.
func newStand(t *testing.T, b *rabbittest.Broker, cfg managed.Config) *stand {
	t.Helper()
	if cfg.Transport == nil {
		cfg.Transport = onBroker(t)
	}
	c := newConsumer(t, cfg)
	s := &stand{Consumer: c, t: t, broker: b, signals: make(chan osSignal, 4), ended: make(chan error, 1)}
	if err := c.Use(s.calls.record); err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs the consumer without waiting for anything.
func (s *stand) run(ctx context.Context, setup func(context.Context, *managed.Consumer) error) {
	go func() { s.ended <- s.RunWith(ctx, managed.RunConfig{Signals: s.signals, Setup: setup}) }()
}

// start runs the consumer and waits until it consumes.
func (s *stand) start() {
	s.t.Helper()
	s.run(context.Background(), nil)
	eventually(s.t, "ready", func() bool { return s.Snapshot().Ready })
}

// await waits until n handlers run.
func (s *stand) await(n int) {
	s.t.Helper()
	eventually(s.t, "handlers running", func() bool { return s.calls.count(running) == n })
}

// term sends SIGTERM.
func (s *stand) term() {
	s.began = time.Now()
	s.signals <- sigterm
}

// end waits for the end and returns the report, which holds against all that a report promises and agrees with what Run
// returned.
func (s *stand) end() report.ShutdownReport {
	s.t.Helper()
	err := <-s.ended
	s.took = time.Since(s.began)
	d := reportOf(s.t, s.Consumer)
	if d.Success != (err == nil) {
		s.t.Errorf("Run returned %v with completion %s", err, d.Completion)
	}
	if u, err := url.Parse(rabbittest.URL()); err != nil {
		s.t.Error(err)
	} else if u.User != nil && bytes.Contains(s.ReportJSON(), []byte(u.User.String())) {
		s.t.Error("the report shows user and password of the broker's URL")
	}
	return d
}

// stop is term and end.
func (s *stand) stop() report.ShutdownReport {
	s.t.Helper()
	s.term()
	return s.end()
}

func reportOf(t testing.TB, c *managed.Consumer) report.ShutdownReport {
	t.Helper()
	reporttest.Check(t, c.ReportJSON())
	d, ok := c.ShutdownReport()
	if !ok {
		t.Fatal("no report")
	}
	if c.ExitCode() != d.ExitCode {
		t.Errorf("ExitCode is %d, the report says %d", c.ExitCode(), d.ExitCode)
	}
	return d
}

// within fails if the end took longer than limit.
func (s *stand) within(limit time.Duration) {
	s.t.Helper()
	if s.took > limit {
		s.t.Errorf("the end took %s, want at most %s", s.took, limit)
	}
}

// verdict holds a report against what a case says of it.
func (s *stand) verdict(d report.ShutdownReport, completion report.Completion, code int, cohort report.Sheet) {
	s.t.Helper()
	want(s.t, verdict{d.Completion, d.ExitCode, d.Deliveries.InShutdown}, verdict{completion, code, cohort})
	if s.t.Failed() {
		s.t.Logf("findings: %+v", d.Findings)
	}
}

// left takes everything out of a queue once n messages are there, or if they do not come.
func (s *stand) left(queue string, n int) []rabbittest.Message {
	s.t.Helper()
	var left []rabbittest.Message
	for until := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		left = append(left, s.broker.Drain(queue)...)
		if len(left) >= n || time.Now().After(until) {
			return append(left, s.broker.Drain(queue)...)
		}
	}
}

// acked and settled: the handler said what ends a message.
func acked(c call) bool   { return c.Verdict == managed.VerdictAck }
func settled(c call) bool { return acked(c) || c.Verdict == managed.VerdictReject }

// agrees holds the broker against handlers and report: what handlers have done with is gone, everything else of published can
// be consumed again, once, and is marked as redelivered if the report says that we had it. It is for messages that were
// delivered to this consumer at most once.
func (s *stand) agrees(d report.ShutdownReport, queue string, published []string, done func(call) bool) {
	s.t.Helper()
	gone, n := make(map[string]int), uint64(0)
	for _, c := range s.calls.all() {
		if c.Queue == queue && done(c) {
			gone[c.ID]++
			n++
		}
	}
	sheet := sheetOf(d, queue).SinceStart
	if n != sheet.Acked+sheet.Rejected {
		s.t.Errorf("%s: handlers have done with %d, the report says %d acked, %d rejected", queue, n, sheet.Acked, sheet.Rejected)
	}
	wantLeft := slices.DeleteFunc(slices.Clone(published), func(id string) bool { gone[id]--; return gone[id] >= 0 })
	left := s.left(queue, len(wantLeft))
	redelivered := uint64(0)
	var got []string
	for _, m := range left {
		got = append(got, m.ID)
		if m.Redelivered {
			redelivered++
		}
	}
	if diff := cmp.Diff(sorted(wantLeft), sorted(got)); diff != "" {
		s.t.Errorf("%s: left at the broker (-want +got):\n%s", queue, diff)
	}
	if had := sheet.Received - sheet.Acked - sheet.Rejected; redelivered != had {
		s.t.Errorf("%s: %d of those left are marked as redelivered, the report says that we had %d of them", queue, redelivered, had)
	}
}

// startedOnly is s without what was never started: a settlement that leaves just before the cancel lets one more come.
func startedOnly(s report.Sheet) report.Sheet {
	s.Received -= s.HandedBack + s.Released
	s.HandedBack, s.Released = 0, 0
	return s
}

func sorted(ids []string) []string { return slices.Sorted(slices.Values(ids)) }

func sheetOf(d report.ShutdownReport, queue string) report.Subscription {
	for _, s := range d.Subscriptions {
		if s.Queue == queue {
			return s
		}
	}
	return report.Subscription{}
}

// at is an instant of the test's as the report counts.
func at(d report.ShutdownReport, t time.Time) int64 { return t.Sub(d.Trigger.At.Time).Microseconds() }

// phaseTimes returns begin and end of every phase, after checking that all ran, one after the other.
func phaseTimes(t testing.TB, d report.ShutdownReport) map[string][2]int64 {
	t.Helper()
	times := make(map[string][2]int64)
	var names []string
	before := int64(0)
	for _, p := range d.Phases {
		names = append(names, p.Phase)
		if p.BeganTUS < before {
			t.Errorf("phase %s began at %d, before the one before it had ended at %d", p.Phase, p.BeganTUS, before)
		}
		before = p.BeganTUS + p.ElapsedUS
		times[p.Phase] = [2]int64{p.BeganTUS, before}
	}
	if diff := cmp.Diff([]string{"close_admission", "drain", "force", "close_evidence", "dispose", "publish"}, names); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	return times
}

// evidenceOf returns when each kind of evidence of a kind of resource was observed last, by resource name.
func evidenceOf(d report.ShutdownReport, kind string) map[string]map[string]int64 {
	out := make(map[string]map[string]int64)
	for _, r := range d.Resources {
		if r.Kind != kind {
			continue
		}
		out[r.Name] = make(map[string]int64)
		for _, e := range r.Evidence {
			out[r.Name][e.Kind] = e.TUS
		}
	}
	return out
}

// actionOf returns an action's row.
func actionOf(d report.ShutdownReport, phase, name string) report.Action {
	for _, p := range d.Phases {
		for _, a := range p.Actions {
			if p.Phase == phase && a.Name == name {
				return a
			}
		}
	}
	return report.Action{}
}

// newConsumer makes a silent consumer that is shut down at the end of the test.
func newConsumer(t testing.TB, cfg managed.Config) *managed.Consumer {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := managed.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Shutdown(context.Background()) })
	return c
}

// memoryWith is an in-process broker with a queue that holds n messages.
func memoryWith(t testing.TB, queue string, n int) *memory.Broker {
	t.Helper()
	b := memory.New(memory.Config{})
	if err := b.Declare(queue, memory.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids(n) {
		if err := b.Publish(queue, memory.Message{MessageID: id, Body: []byte(id)}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}
