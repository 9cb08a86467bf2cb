package transporttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

// env is what one test of the suite works with.
type env struct {
	*testing.T
	Harness
	kind      transport.Declare
	transport transport.Transport
	bell      bell
}

// bell wakes whoever waits for a call of any Sink of the test.
type bell struct {
	mu   sync.Mutex
	rung chan struct{} // closed by ring; nil if nobody waits
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

// next returns what the next ring closes.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

// await waits until ok and fails the test if that takes too long. ok is asked again after each call of a Sink.
func (e *env) await(what string, ok func() bool, records ...*recorder) {
	e.Helper()
	timer := deadline.NewTimer(e.Patience)
	defer timer.Stop()
	for {
		rung := e.bell.next()
		if ok() {
			return
		}
		select {
		case <-rung:
		case <-timer.C:
			e.Fatalf("%s: not within %s; %v", what, e.Patience, records)
		}
	}
}

// Run runs the suite. Its tests run one after another.
func Run(t *testing.T, h Harness) {
	h = h.complete(t)
	for _, kind := range h.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			for _, c := range slices.Concat(deliveryCases, settlementCases, proofCases, cancelCases, closeCases, endCases, consumeCases, randomCases) {
				if c.kind != 0 && c.kind != kind || slices.ContainsFunc(c.needs, func(f Fault) bool { return slices.Contains(h.Without, f) }) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					old := goleak.IgnoreCurrent()
					t.Cleanup(func() { goleak.VerifyNone(t, old) }) // the first clean-up runs last
					c.test(&env{T: t, Harness: h, kind: kind, transport: h.New(t)})
				})
			}
		})
	}
}

// testCase is one test of the suite: a sentence of the contract.
type testCase struct {
	name  string
	needs []Fault
	kind  transport.Declare // the one kind of queue that it is about; zero means all
	test  func(*env)
}

// dial opens a session that the test's end cuts and joins.
func (e *env) dial() transport.Session {
	e.Helper()
	ctx, cancel := e.ctx(e.Patience)
	defer cancel()
	s, err := e.transport.Dial(ctx)
	if err != nil {
		e.Fatalf("Dial: %v", err)
	}
	e.Cleanup(func() { e.end(s) })
	return s
}

// end cuts a session, if it still lives, and waits until nothing of it runs.
func (e *env) end(s transport.Session) {
	e.Helper()
	s.Cut()
	e.awaitClosed("Session.Done", s.Done())
	e.awaitClosed("Session.Joined", s.Joined())
}

// queue makes a queue with n messages, m0, m1, ….
func (e *env) queue(n int) string {
	e.Helper()
	q := e.NewQueue(e, QueueOptions{Kind: e.kind})
	if n > 0 {
		e.Publish(e, q, messages(0, n)...)
	}
	return q
}

// messages makes the messages numbered from first on.
func messages(first, n int) []Message {
	out := make([]Message, n)
	for i := range out {
		id := messageID(first + i)
		out[i] = Message{ID: id, Body: []byte("body of " + id)}
	}
	return out
}

func messageID(i int) string { return fmt.Sprintf("m%d", i) }

func messageIDs(first, n int) (ids []string) {
	for i := range n {
		ids = append(ids, messageID(first+i))
	}
	return ids
}

// recorder makes the sink of one stream.
func (e *env) recorder(prefetch int) *recorder {
	return &recorder{t: e, prefetch: prefetch}
}

// consume opens a stream that records to r, whose record is verified when the test ends.
func (e *env) consume(s transport.Session, sub transport.Subscription, r *recorder) *recorder {
	e.Helper()
	sub.Prefetch = r.prefetch
	ctx, cancel := e.ctx(e.Patience)
	defer cancel()
	stream, err := s.Consume(ctx, sub, r)
	if err != nil {
		e.Fatalf("Consume %q: %v", sub.Queue, err)
	}
	r.hold(stream)
	e.Cleanup(func() {
		e.end(s)
		r.verify()
	})
	return r
}

// open is consume with nothing special, on a queue.
func (e *env) open(s transport.Session, queue string, prefetch int) *recorder {
	e.Helper()
	return e.consume(s, transport.Subscription{Queue: queue}, e.recorder(prefetch))
}

// openAuto settles everything with v as it comes.
func (e *env) openAuto(s transport.Session, queue string, prefetch int, v transport.Verb) *recorder {
	e.Helper()
	r := e.recorder(prefetch)
	r.auto = v
	return e.consume(s, transport.Subscription{Queue: queue}, r)
}

// ctx returns a context that ends after d with errOver as its cause.
func (e *env) ctx(d time.Duration) (context.Context, context.CancelFunc) {
	return deadline.Timeout(context.Background(), d, errOver)
}

// errOver is the cause of every context of the suite that ends.
var errOver = errors.New("transporttest: the context of this call is over")

// closeStream closes a recorder's stream and fails the test if that is not answered.
func (e *env) closeStream(r *recorder) {
	e.Helper()
	ctx, cancel := e.ctx(e.Patience)
	defer cancel()
	if err := r.stream.Close(ctx); err != nil {
		e.Fatalf("Stream.Close: %v; %s", err, r)
	}
}

func (e *env) closeSession(s transport.Session) {
	e.Helper()
	ctx, cancel := e.ctx(e.Patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		e.Fatalf("Session.Close: %v", err)
	}
	e.awaitClosed("Session.Done", s.Done())
}

func (e *env) awaitClosed(what string, c <-chan struct{}) {
	e.Helper()
	timer := deadline.NewTimer(e.Patience)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
		e.Fatalf("%s did not close within %s", what, e.Patience)
	}
}

// shortly bounds calls to a peer that does not answer; prompt is how long after that they may take to return.
const (
	shortly = 50 * time.Millisecond
	prompt  = time.Second
)

// promptly runs call with a context that ends shortly, fails the test unless it returns promptly then, and returns its error.
func (e *env) promptly(what string, call func(context.Context) error) error {
	e.Helper()
	ctx, cancel := e.ctx(shortly)
	defer cancel()
	result := make(chan error, 1)
	began := deadline.Now()
	go func() { result <- call(ctx) }()
	err := e.returns(what, result)
	if err == nil {
		e.Fatalf("%s returned nil after %s although nobody answered", what, deadline.Since(began))
	}
	return err
}

// returns waits for the result of a call that must be over shortly, and promptly then.
func (e *env) returns(what string, result <-chan error) error {
	e.Helper()
	timer := deadline.NewTimer(shortly + prompt)
	defer timer.Stop()
	select {
	case err := <-result:
		return err
	case <-timer.C:
		e.Fatalf("%s did not return within %s", what, shortly+prompt)
		return nil
	}
}

// wantCause fails the test unless err is the cause of the call's context.
func (e *env) wantCause(what string, err error) {
	e.Helper()
	if !errors.Is(err, errOver) {
		e.Errorf("%s returned %v, want the cause of its context", what, err)
	}
}

// wantUnanswered fails the test unless err says that an answer did not come: ctx's cause or KindUnanswered.
func (e *env) wantUnanswered(what string, err error) {
	e.Helper()
	if !errors.Is(err, errOver) && transport.KindOf(err) != transport.KindUnanswered {
		e.Errorf("%s returned %v, want the cause of its context or an error of kind %s", what, err, transport.KindUnanswered)
	}
}

func (e *env) wantKind(what string, err error, want transport.ErrorKind) {
	e.Helper()
	if got := transport.KindOf(err); got != want {
		e.Errorf("%s returned %v, of kind %s, want %s", what, err, got, want)
	}
}

// wantLeft fails the test unless the broker still has exactly these messages in the queue, in any order.
func (e *env) wantLeft(queue string, ids ...string) {
	e.Helper()
	e.wantSame("left in the queue", ids, e.drain(queue, len(ids)))
}

// drain takes out what the broker still has.
func (e *env) drain(queue string, atLeast int) (ids []string) {
	e.Helper()
	for _, m := range e.Drain(e, queue, atLeast) {
		ids = append(ids, m.ID)
	}
	return ids
}

// wantSame compares two sets of message ids, each with its multiplicity.
func (e *env) wantSame(what string, want, got []string) {
	e.Helper()
	want, got = slices.SortedFunc(slices.Values(want), compareIDs), slices.SortedFunc(slices.Values(got), compareIDs)
	if diff := gocmp.Diff(want, got); diff != "" {
		e.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func compareIDs(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }
