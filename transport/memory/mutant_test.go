package memory_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
	"github.com/lastcall-go/lastcall/transport/transporttest"
)

// mutant is a way to break the contract; the zero mutant breaks nothing.
type mutant struct {
	// fails names the test of the conformance suite that must notice.
	fails string
	// sink, stream and session replace methods of what they are given, and dial the whole Dial.
	sink    func(*mutated) transport.Sink
	stream  func(*mutated) transport.Stream
	session func(transport.Session) transport.Session
	dial    func(context.Context, *memory.Broker) (transport.Session, error)
	// sub changes what is consumed.
	sub func(*transport.Subscription)
}

// mutated is one stream of a mutant, with its Sink.
type mutated struct {
	transport.Sink
	transport.Stream
	session transport.Session

	mu      sync.Mutex
	written uint64
	ended   bool
}

const (
	mutantVariable = "LASTCALL_TEST_MUTANT"
	mutantTries    = 10
)

// TestMutant runs the suite against the mutant that the environment names, or, without a name, against none: then it passes.
func TestMutant(t *testing.T) {
	m := mutants[os.Getenv(mutantVariable)]
	b := memory.New(memory.Config{})
	h := harness(b)
	h.Kinds = nil
	if m.fails != "" {
		h.Patience = 300 * time.Millisecond
	}
	h.New = func(testing.TB) transport.Transport { return mutantTransport{b, m} }
	h.Faults.Drop = func(_ testing.TB, s transport.Session) { b.Drop(320, "CONNECTION_FORCED", unwrap(s)) }
	h.Faults.Reset = func(_ testing.TB, s transport.Session) { b.Reset(unwrap(s)) }
	h.Faults.Silence = func(_ testing.TB, s transport.Session) func() {
		b.Silence(unwrap(s))
		return func() { b.Resume(unwrap(s)) }
	}
	transporttest.Run(t, h)
}

// TestSuiteCanFail runs each mutant in a process of its own and wants the suite to fail where the mutant broke the contract.
func TestSuiteCanFail(t *testing.T) {
	var group sync.WaitGroup
	slots := make(chan struct{}, 16) // most of them wait for what does not come
	for name, m := range mutants {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			pattern := "^TestMutant$/^classic$/^" + regexp.QuoteMeta(strings.ReplaceAll(m.fails, " ", "_")) + "$"
			var out []byte
			var err error
			// Some mutants only let something happen too early. On a busy machine that may go unseen once, or twice.
			for try := 0; try < mutantTries && err == nil; try++ {
				run := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+pattern, "-test.v", "-test.timeout=30s")
				run.Env = append(os.Environ(), mutantVariable+"="+name, "GORACE=atexit_sleep_ms=0 history_size=0")
				out, err = run.CombinedOutput()
			}
			if err == nil {
				t.Errorf("%s: %q passed %d times:\n%s", name, m.fails, mutantTries, out)
			}
			if !strings.Contains(string(out), "=== RUN   TestMutant/classic/") {
				t.Errorf("%s: there is no test %q:\n%s", name, m.fails, out)
			}
		})
	}
	group.Wait()
}

type mutantTransport struct {
	*memory.Broker
	mutant
}

func (t mutantTransport) Dial(ctx context.Context) (transport.Session, error) {
	dial := func(ctx context.Context, b *memory.Broker) (transport.Session, error) { return b.Dial(ctx) }
	if t.dial != nil {
		dial = t.dial
	}
	s, err := dial(ctx, t.Broker)
	if err != nil {
		return nil, err
	}
	s = &mutantSession{s, t.mutant}
	if t.session != nil {
		return t.session(s), nil
	}
	return s, nil
}

type mutantSession struct {
	transport.Session
	mutant
}

// unwrap finds the session that the broker knows.
func unwrap(s transport.Session) transport.Session {
	for {
		switch w := s.(type) {
		case *mutantSession:
			s = w.Session
		case interface{ inner() transport.Session }:
			s = w.inner()
		default:
			return s
		}
	}
}

func (s *mutantSession) Consume(ctx context.Context, sub transport.Subscription, sink transport.Sink) (transport.Stream, error) {
	m := &mutated{Sink: sink, session: s.Session}
	if s.mutant.sink != nil {
		sink = s.mutant.sink(m)
	}
	if s.sub != nil {
		s.sub(&sub)
	}
	stream, err := s.Session.Consume(ctx, sub, sink)
	if err != nil {
		return nil, err
	}
	m.Stream = stream
	if s.mutant.stream != nil {
		return s.mutant.stream(m), nil
	}
	return stream, nil
}

// Mutants of a Sink replace one method each.
type (
	onDeliver struct {
		transport.Sink
		f func(*transport.Delivery)
	}
	onWritten struct {
		transport.Sink
		f func([]*transport.Settlement, time.Time)
	}
	onFailed struct {
		transport.Sink
		f func([]*transport.Settlement, error)
	}
	onProven struct {
		transport.Sink
		f func(uint64, transport.Proof)
	}
	onObserve struct {
		transport.Sink
		f func(transport.Observation)
	}
	onEnded struct {
		transport.Sink
		f func(transport.End)
	}
)

func (s onDeliver) Deliver(d *transport.Delivery)                   { s.f(d) }
func (s onWritten) Written(b []*transport.Settlement, at time.Time) { s.f(b, at) }
func (s onFailed) Failed(b []*transport.Settlement, err error)      { s.f(b, err) }
func (s onProven) Proven(n uint64, by transport.Proof)              { s.f(n, by) }
func (s onObserve) Observe(o transport.Observation)                 { s.f(o) }
func (s onEnded) Ended(e transport.End)                             { s.f(e) }

// Mutants of a Stream or Session replace one method each.
type (
	onSubmit struct {
		transport.Stream
		f func(*transport.Settlement)
	}
	onCancel struct {
		transport.Stream
		f func()
	}
	onClose struct {
		transport.Stream
		f func(context.Context) error
	}
	onTag struct {
		transport.Stream
		tag string
	}
	onState struct {
		transport.Stream
	}
	onSessionClose struct {
		transport.Session
		f func(context.Context) error
	}
	onCut struct {
		transport.Session
		f func()
	}
	onDone struct {
		transport.Session
		done chan struct{}
	}
	onConsume struct {
		transport.Session
		f func(context.Context, transport.Subscription, transport.Sink) (transport.Stream, error)
	}
	onInfo struct {
		transport.Session
		calls *int
	}
)

func (s onSubmit) Submit(x *transport.Settlement) { s.f(x) }
func (s onCancel) Cancel()                        { s.f() }
func (s onClose) Close(ctx context.Context) error { return s.f(ctx) }
func (s onState) QueueState() (transport.QueueState, bool) {
	return transport.QueueState{Ready: 50, Consumers: 1, At: time.Now()}, true
}
func (s onTag) ConsumerTag() string                      { return s.tag }
func (s onSessionClose) Close(ctx context.Context) error { return s.f(ctx) }
func (s onSessionClose) inner() transport.Session        { return s.Session }
func (s onCut) Cut()                                     { s.f() }
func (s onCut) inner() transport.Session                 { return s.Session }
func (s onDone) Done() <-chan struct{}                   { return s.done }
func (s onDone) inner() transport.Session                { return s.Session }
func (s onInfo) inner() transport.Session                { return s.Session }
func (s onInfo) Info() transport.Info {
	*s.calls++
	return transport.Info{Product: strings.Repeat("x", *s.calls)}
}
func (s onConsume) inner() transport.Session { return s.Session }
func (s onConsume) Consume(ctx context.Context, sub transport.Subscription, sink transport.Sink) (transport.Stream, error) {
	return s.f(ctx, sub, sink)
}
