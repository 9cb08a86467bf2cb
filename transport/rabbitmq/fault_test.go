package rabbitmq_test

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/faultproxy"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
	"github.com/lastcall-go/lastcall/transport/transporttest"
)

// method is how a request begins on the wire: class and number, behind the frame's size.
func method(class, number byte) []byte { return []byte{0, class, 0, number} }

// FACTS 6: none of amqp091's calls takes a deadline. Whichever request the peer leaves unanswered, the caller comes back when its
// context ends, nothing waits for it, and a cut frees every goroutine.
func TestBlackHoleInEachRequest(t *testing.T) {
	a := newAdmin(t)
	const n = 40 // more than 32, so that the close has something to ask
	sub := transport.Subscription{Prefetch: n}
	open := func(ctx context.Context, s transport.Session, r *tape) error {
		stream, err := s.Consume(ctx, sub, r)
		r.stream = stream
		return err
	}
	opened := func(t *testing.T, s transport.Session, r *tape) {
		consume(t, s, sub, r)
		r.awaitDeliveries(t, n)
		r.settle(transport.Ack, descending(n, 2)...)
		r.awaitWritten(t, n-1)
	}
	closeStream := func(ctx context.Context, _ transport.Session, r *tape) error { return r.stream.Close(ctx) }
	closeSession := func(ctx context.Context, s transport.Session, _ *tape) error { return s.Close(ctx) }
	for _, c := range []struct {
		name    string
		request []byte
		before  func(*testing.T, transport.Session, *tape)
		call    func(context.Context, transport.Session, *tape) error
		want    transport.ErrorKind // 0: the context's cause and no *transport.Error
	}{
		{"channel.open", method(20, 10), nil, open, transport.KindUnanswered},
		{"queue.declare", method(50, 10), nil, open, transport.KindUnanswered},
		{"basic.qos", method(60, 10), nil, open, transport.KindUnanswered},
		{"basic.consume", method(60, 20), nil, open, transport.KindUnanswered},
		{"basic.cancel", method(60, 30), opened, closeStream, 0},
		{"channel.close", method(20, 40), opened, closeStream, 0},
		{"connection.close", method(10, 50), opened, closeSession, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			noLeaks(t)
			rig := newRig(t)
			s := dial(t, rig)
			r := &tape{}
			sub.Queue = a.queue(t, transporttest.QueueOptions{Kind: transport.DeclareQuorum})
			a.publish(t, sub.Queue, numbered(n)...)
			if c.before != nil {
				c.before(t, s, r)
			}
			hole := make(chan struct{})
			rig.proxy.When(faultproxy.ToServer, c.request, func() {
				rig.proxy.Set(faultproxy.ToServer, faultproxy.Discard)
				rig.proxy.Set(faultproxy.ToClient, faultproxy.Discard)
				close(hole)
			})
			cause := errors.New("no answer")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 150*time.Millisecond, cause)
			defer cancel()
			began := time.Now()
			err := c.call(ctx, s, r)
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("came back after %s", took)
			}
			if !errors.Is(err, cause) || transport.KindOf(err) != c.want {
				t.Errorf("%v, want the context's cause, kind %s", err, c.want)
			}
			within(t, "the request at the proxy", hole)
			if r.stream != nil && c.want == 0 && bytes.Equal(c.request, method(60, 30)) {
				// One reply slot: nothing is sent behind it, and the caller is told at once, so that it can go on to the session.
				if err := r.stream.Close(t.Context()); transport.KindOf(err) != transport.KindUnanswered {
					t.Errorf("the next close: %v, want unanswered", err)
				}
			}
			if c.want != 0 && r.stream != nil {
				t.Error("a stream was returned")
			}
			end(t, s)
			if c.before != nil {
				if got := r.awaitEnd(t); got.Kind != transport.EndCut || !got.OfSession {
					t.Errorf("the stream ended as %+v", got)
				}
			}
		})
	}
}

// A pending cancel that uses up half of what the close may take is past help: the other half belongs to the connection.
func TestCloseLeavesTimeForTheSession(t *testing.T) {
	noLeaks(t)
	a := newAdmin(t)
	rig := newRig(t)
	s := dial(t, rig)
	r := consume(t, s, transport.Subscription{Queue: a.queue(t, transporttest.QueueOptions{}), Prefetch: 1}, &tape{})
	rig.proxy.When(faultproxy.ToServer, method(60, 30), func() { rig.proxy.Set(faultproxy.ToClient, faultproxy.Discard) })
	r.stream.Cancel()
	r.awaitObserved(t, transport.ObservedCancelWritten)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := r.stream.Close(ctx); transport.KindOf(err) != transport.KindUnanswered {
		t.Fatalf("%v, want unanswered", err)
	}
	if ctx.Err() != nil {
		t.Error("nothing is left for the session")
	}
	rig.proxy.Set(faultproxy.ToClient, faultproxy.Pass)
	if err := s.Close(ctx); err != nil {
		t.Errorf("Session.Close: %v", err)
	}
	if got := r.awaitEnd(t); got.Kind != transport.EndCloseOK || !got.OfSession {
		t.Errorf("the stream ended as %+v", got)
	}
}

// Each way a connection can end is told apart.
func TestEndsOfASession(t *testing.T) {
	a := newAdmin(t)
	for _, c := range []struct {
		name string
		do   func(*testing.T, rig, transport.Session)
		want transport.End
		seen transport.ObservationKind
	}{
		{"reset", func(_ *testing.T, r rig, _ transport.Session) { r.proxy.ResetAll() },
			transport.End{Kind: transport.EndPeerReset, By: transport.ByPeer}, transport.ObservedPeerReset},
		{"end of file", func(_ *testing.T, r rig, _ transport.Session) { r.proxy.FinishAll(faultproxy.ToClient) },
			transport.End{Kind: transport.EndPeerReset, By: transport.ByPeer}, transport.ObservedPeerReset},
		{"silence", func(_ *testing.T, r rig, _ transport.Session) { r.proxy.Set(faultproxy.ToClient, faultproxy.Discard) },
			transport.End{Kind: transport.EndSilent}, ""},
		{"kicked by an operator", kick,
			transport.End{Kind: transport.EndPeerClose, By: transport.ByPeer, Code: 320, Text: "CONNECTION_FORCED - lc.rmq kicks"}, transport.ObservedPeerClose},
		{"what is no AMQP", func(t *testing.T, r rig, s transport.Session) {
			r.proxy.Inject(s.Info().LocalAddr, faultproxy.ToClient, []byte("GET / HTTP/1.1\r\n"))
		}, transport.End{Kind: transport.EndProtocol}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			noLeaks(t)
			p, err := faultproxy.New(brokerAddr(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			tr := newTransport(t, rabbitmq.Config{URL: brokerAt(t, p.Addr()), Heartbeat: time.Second, ConnectionName: "lc.rmq." + t.Name()})
			s := dial(t, tr)
			q := a.queue(t, transporttest.QueueOptions{})
			a.publish(t, q, numbered(3)...)
			r := consume(t, s, transport.Subscription{Queue: q, Prefetch: 3}, &tape{})
			r.awaitDeliveries(t, 3)
			began := time.Now()
			c.do(t, rig{tr, p}, s)
			within(t, "Session.Done", s.Done())
			if took := time.Since(began); c.want.Kind == transport.EndSilent && (took < time.Second || took > 8*time.Second) {
				t.Errorf("a silence was noticed after %s, with a heartbeat of 1 s", took)
			}
			got := s.End()
			if got.At.IsZero() {
				t.Error("no instant")
			}
			stream := r.awaitEnd(t)
			if diff := cmp.Diff(got, transport.End{Kind: stream.Kind, By: stream.By, Code: stream.Code, Text: stream.Text, At: stream.At}); diff != "" || !stream.OfSession {
				t.Errorf("the stream ended differently, of session %t (-session +stream):\n%s", stream.OfSession, diff)
			}
			got.At = time.Time{}
			if c.want.Text == "" {
				got.Text = "" // the socket's own words
			}
			if c.want.Kind == transport.EndProtocol {
				got.Code = 0
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("end (-want +got):\n%s", diff)
			}
			if c.seen != "" && !slices.Contains(r.kinds(), c.seen) {
				t.Errorf("observed %v, want %s", r.kinds(), c.seen)
			}
			p.Set(faultproxy.ToClient, faultproxy.Pass)
		})
	}
}

// kick closes the session's connection, found by its name, as an operator would.
func kick(t *testing.T, _ rig, s transport.Session) {
	t.Helper()
	out, err := exec.Command("rabbitmqctl", "-q", "list_connections", "pid", "client_properties").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, `"`+s.Info().ConnectionName+`"`) {
			pid, _, _ := strings.Cut(line, "\t")
			if out, err := exec.Command("rabbitmqctl", "-q", "close_connection", pid, "lc.rmq kicks").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return
		}
	}
	t.Fatalf("the broker does not list a connection named %q", s.Info().ConnectionName)
}

// An answer that nobody asked for blocks amqp091's reader for good, and then closing the socket alone changes nothing.
func TestCutFreesABlockedReader(t *testing.T) {
	noLeaks(t)
	a := newAdmin(t)
	rig := newRig(t)
	s := dial(t, rig)
	r := consume(t, s, transport.Subscription{Queue: a.queue(t, transporttest.QueueOptions{}), Prefetch: 1}, &tape{})
	blocked := []byte{1, 0, 0, 0, 0, 0, 5, 0, 10, 0, 60, 0, 0xCE}
	qosOK := []byte{1, 0, 1, 0, 0, 0, 4, 0, 60, 0, 11, 0xCE}
	rig.proxy.Inject(s.Info().LocalAddr, faultproxy.ToClient, append(blocked, qosOK...))
	r.awaitObserved(t, transport.ObservedBlocked) // so the other is next
	began := time.Now()
	s.Cut()
	if got := r.awaitEnd(t); got.Kind != transport.EndCut {
		t.Errorf("the stream ended as %+v", got)
	}
	if took := time.Since(began); took > 3*time.Second { // half a heartbeat later amqp091 notices by itself
		t.Errorf("ended after %s", took)
	}
}

// FACTS 8, case A09: requests on one channel get each other's replies unless they take turns.
func TestRequestsTakeTurns(t *testing.T) {
	noLeaks(t)
	a := newAdmin(t)
	s := dial(t, newRig(t))
	q := a.queue(t, transporttest.QueueOptions{})
	for range 60 {
		r := consume(t, s, transport.Subscription{Queue: q, Prefetch: 5}, &tape{})
		var group sync.WaitGroup
		group.Go(r.stream.Cancel)
		group.Go(func() { _, _ = r.stream.QueueState() })
		group.Go(func() {
			if err := r.stream.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
		if got := r.awaitEnd(t); got.Kind != transport.EndCloseOK || got.OfSession {
			t.Fatalf("the stream ended as %+v", got)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// FACTS 7, case A08: through 300 ms each way, deliveries still arrive after the cancel has left. They are handed over, and what is
// handed back does not come again.
func TestDeliveriesBetweenCancelAndItsAnswer(t *testing.T) {
	noLeaks(t)
	const n, prefetch = 100, 50
	a := newAdmin(t)
	rig := newRig(t)
	q := a.queue(t, transporttest.QueueOptions{})
	a.publish(t, q, numbered(n)...)
	s := dial(t, rig)
	left := make(chan struct{})
	r := &tape{onObserve: func(o transport.Observation) {
		if o.Kind == transport.ObservedCancelWritten {
			close(left)
		}
	}}
	r.onDeliver = func(d *transport.Delivery) {
		select {
		case <-left:
			r.stream.Submit(&transport.Settlement{Tag: d.Tag, Verb: transport.Requeue})
		default:
		}
	}
	consume(t, s, transport.Subscription{Queue: q, Prefetch: prefetch}, r)
	r.awaitDeliveries(t, prefetch)
	rig.proxy.SetLatency(faultproxy.ToServer, 300*time.Millisecond)
	rig.proxy.SetLatency(faultproxy.ToClient, 300*time.Millisecond)
	r.settle(transport.Ack, descending(20, 1)...) // frees the broker to send 20 more, which meet the cancel on their way
	r.awaitWritten(t, 20)
	r.stream.Cancel()
	r.awaitObserved(t, transport.ObservedCancelWritten)
	r.settle(transport.Requeue, descending(prefetch, 21)...)
	r.awaitObserved(t, transport.ObservedCancelOK)
	if got := len(r.deliveries); got != prefetch+20 {
		t.Errorf("%d deliveries by cancel-ok, want %d", got, prefetch+20)
	}
	for _, d := range r.deliveries {
		if d.Redelivered {
			t.Errorf("%s came back", d.MessageID)
		}
	}
	r.awaitWritten(t, prefetch+20)
	if left := a.drain(t, q, n-20); len(left) != n-20 {
		t.Errorf("%d messages are at the broker before the channel is closed, want %d", len(left), n-20)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := r.stream.Close(ctx); err != nil {
		t.Error(err)
	}
	if r.proven != prefetch+20 {
		t.Errorf("%d settlements are proven", r.proven)
	}
}

// Where the quiet period does not fit, the close says so, and proves no more than it knows.
func TestCloseSaysWhatItCannotProve(t *testing.T) {
	noLeaks(t)
	const n, prefetch = 300, 200
	a := newAdmin(t)
	rig := newRig(t)
	q := a.queue(t, transporttest.QueueOptions{Kind: transport.DeclareQuorum})
	a.publish(t, q, numbered(n)...)
	s := dial(t, rig)
	r := consume(t, s, transport.Subscription{Queue: q, Prefetch: prefetch}, &tape{})
	r.awaitDeliveries(t, prefetch)
	r.settle(transport.Ack, descending(100, 1)...)
	r.awaitDeliveries(t, n)
	rig.proxy.SetLatency(faultproxy.ToServer, 150*time.Millisecond) // so that a cancel takes long, and with it the quiet period
	r.stream.Cancel()
	r.awaitObserved(t, transport.ObservedCancelOK)
	r.settle(transport.Ack, descending(n, 102)...)
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	if err := r.stream.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(r.kinds(), transport.ObservedUnproven) {
		t.Errorf("observed %v", r.kinds())
	}
	if r.proven != 100 {
		t.Errorf("%d settlements are proven, want the 100 before the cancel", r.proven)
	}
}

// Case A11, and the reason for watching frames leave: the broker closes one channel while settlements stream out on it. The other
// channel and the connection live on.
func TestAChannelErrorEndsItsStreamAlone(t *testing.T) {
	noLeaks(t)
	const n = 1500
	a := newAdmin(t)
	for range 3 {
		rig := newRig(t)
		s := dial(t, rig)
		doomed, good := a.queue(t, transporttest.QueueOptions{}), a.queue(t, transporttest.QueueOptions{})
		a.publish(t, doomed, numbered(n)...)
		r := &tape{}
		ready := make(chan struct{})
		r.onDeliver = func(d *transport.Delivery) {
			<-ready
			r.stream.Submit(&transport.Settlement{Tag: d.Tag, Verb: transport.Ack})
			if d.Tag == 500 {
				unknownTag := []byte{1, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0xCE}
				rig.proxy.Inject(s.Info().LocalAddr, faultproxy.ToServer, unknownTag)
			}
		}
		consume(t, s, transport.Subscription{Queue: doomed, Prefetch: 200}, r)
		close(ready)
		got := r.awaitEnd(t)
		if got.Kind != transport.EndPeerClose || got.By != transport.ByPeer || got.Code != 406 || got.OfSession {
			t.Fatalf("the stream ended as %+v; session %+v", got, s.End())
		}
		if isDone(s) {
			t.Fatalf("the session ended as %+v", s.End())
		}
		other := consume(t, s, transport.Subscription{Queue: good, Prefetch: 1}, &tape{})
		a.publish(t, good, numbered(1)...)
		other.awaitDeliveries(t, 1)
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("the session suffered: %v", err)
		}
	}
}

func isDone(s transport.Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// A consumer that the broker has cancelled ends its stream also if the channel does not close.
func TestALostConsumerEndsItsStreamInAnyCase(t *testing.T) {
	noLeaks(t)
	a := newAdmin(t)
	rig := newRig(t)
	s := dial(t, rig)
	q := a.queue(t, transporttest.QueueOptions{})
	a.publish(t, q, numbered(2)...)
	r := consume(t, s, transport.Subscription{Queue: q, Prefetch: 2}, &tape{})
	r.awaitDeliveries(t, 2)
	rig.proxy.When(faultproxy.ToClient, method(60, 30), func() { rig.proxy.Set(faultproxy.ToServer, faultproxy.Discard) })
	a.delete(t, q)
	if got := r.awaitEnd(t); got.Kind != transport.EndCancelled || got.By != transport.ByPeer || got.OfSession {
		t.Errorf("the stream ended as %+v", got)
	}
	if isDone(s) {
		t.Error("the session ended too")
	}
	r.settle(transport.Ack, 1)
	r.await(t, "the failure of a late settlement", func() bool { return len(r.failed) == 1 })
}

// A cancel of a consumer that the broker has cancelled is answered without going through the queue's log, and so proves nothing.
func TestALostConsumerIsNotCancelledAgain(t *testing.T) {
	noLeaks(t)
	const n = 60
	a := newAdmin(t)
	s := dial(t, newRig(t))
	q := a.queue(t, transporttest.QueueOptions{Kind: transport.DeclareQuorum})
	a.publish(t, q, numbered(n)...)
	r := consume(t, s, transport.Subscription{Queue: q, Prefetch: n}, &tape{})
	r.awaitDeliveries(t, n)
	r.settle(transport.Ack, descending(n, 2)...)
	r.awaitWritten(t, n-1)
	a.delete(t, q)
	r.awaitEnd(t)
	if kinds := r.kinds(); slices.Contains(kinds, transport.ObservedCancelWritten) || !slices.Contains(kinds, transport.ObservedQuiet) {
		t.Errorf("observed %v", kinds)
	}
}

// FACTS 5: amqp091's Close of a channel that had been closed returns nil, and it may have been closed a moment before.
func TestACloseThatCameTooLateIsNoCloseOK(t *testing.T) {
	noLeaks(t)
	a := newAdmin(t)
	rig := newRig(t)
	s := dial(t, rig)
	hold := make(chan struct{})
	r := &tape{onObserve: func(o transport.Observation) {
		if o.Kind == transport.ObservedCancelWritten {
			<-hold // so that the stream learns of its end later than amqp091
		}
	}}
	consume(t, s, transport.Subscription{Queue: a.queue(t, transporttest.QueueOptions{}), Prefetch: 1}, r)
	other := consume(t, s, transport.Subscription{Queue: a.queue(t, transporttest.QueueOptions{}), Prefetch: 1}, &tape{})
	r.stream.Cancel()
	r.awaitObserved(t, transport.ObservedCancelWritten)
	s.Cut()
	other.awaitEnd(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := r.stream.Close(ctx); err == nil {
		t.Error("a close that nobody answered returned nil")
	}
	close(hold)
	if got := r.awaitEnd(t); got.Kind != transport.EndCut || slices.Contains(r.kinds(), transport.ObservedCloseOK) {
		t.Errorf("the stream ended as %+v, observed %v", got, r.kinds())
	}
}

func TestBlockedIsObservedByEveryStream(t *testing.T) {
	noLeaks(t)
	a := newAdmin(t)
	rig := newRig(t)
	s := dial(t, rig)
	var tapes []*tape
	for range 2 {
		tapes = append(tapes, consume(t, s, transport.Subscription{Queue: a.queue(t, transporttest.QueueOptions{}), Prefetch: 1}, &tape{}))
	}
	reason := "low on memory"
	blocked := append([]byte{1, 0, 0, 0, 0, 0, byte(5 + len(reason)), 0, 10, 0, 60, byte(len(reason))}, reason...)
	rig.proxy.Inject(s.Info().LocalAddr, faultproxy.ToClient, append(blocked, 0xCE))
	rig.proxy.Inject(s.Info().LocalAddr, faultproxy.ToClient, []byte{1, 0, 0, 0, 0, 0, 4, 0, 10, 0, 61, 0xCE})
	for _, r := range tapes {
		r.awaitObserved(t, transport.ObservedUnblocked)
		if diff := cmp.Diff([]transport.ObservationKind{transport.ObservedBlocked, transport.ObservedUnblocked}, r.kinds()); diff != "" || r.observed[0].Detail != reason {
			t.Errorf("%v (-want +got):\n%s", r.observed, diff)
		}
	}
}

func TestQueueState(t *testing.T) {
	noLeaks(t)
	a := newAdmin(t)
	rig := newRig(t)
	s := dial(t, rig)
	q := a.queue(t, transporttest.QueueOptions{})
	r := consume(t, s, transport.Subscription{Queue: q, Prefetch: 2}, &tape{})
	a.publish(t, q, numbered(5)...)
	r.awaitDeliveries(t, 2)
	got, ok := r.stream.QueueState()
	if !ok || got.Ready != 3 || got.Consumers != 1 || got.At.IsZero() {
		t.Errorf("%+v, %t; want 3 ready and 1 consumer", got, ok)
	}
	rig.proxy.Set(faultproxy.ToClient, faultproxy.Discard)
	began := time.Now()
	if _, ok := r.stream.QueueState(); ok || time.Since(began) > 5*time.Second {
		t.Errorf("of a silent peer: %t after %s", ok, time.Since(began))
	}
	rig.proxy.Set(faultproxy.ToClient, faultproxy.Pass)
	end(t, s)
	if _, ok := r.stream.QueueState(); ok {
		t.Error("known after the session's end")
	}
}

// A queue that was declared passively is seen to be a quorum queue at its first message that comes again.
func TestCountsReturns(t *testing.T) {
	noLeaks(t)
	a := newAdmin(t)
	s := dial(t, newRig(t))
	old := !strings.HasPrefix(s.Info().Version, "4.") || strings.HasPrefix(s.Info().Version, "4.0") || strings.HasPrefix(s.Info().Version, "4.1") || strings.HasPrefix(s.Info().Version, "4.2")
	for _, kind := range []transport.Declare{transport.DeclareClassic, transport.DeclareQuorum} {
		q := a.queue(t, transporttest.QueueOptions{Kind: kind})
		a.publish(t, q, numbered(1)...)
		declared := consume(t, s, transport.Subscription{Queue: q, Prefetch: 1, Declare: kind}, &tape{})
		if got, want := declared.stream.CountsReturns(), old && kind == transport.DeclareQuorum; got != want {
			t.Errorf("declared %s: %t, want %t", kind, got, want)
		}
		declared.awaitDeliveries(t, 1)
		if err := declared.stream.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		passive := consume(t, s, transport.Subscription{Queue: q, Prefetch: 1}, &tape{})
		passive.awaitDeliveries(t, 1)
		if got, want := passive.stream.CountsReturns(), old && kind == transport.DeclareQuorum; got != want {
			t.Errorf("passive %s, after a message that came again: %t, want %t", kind, got, want)
		}
		if err := passive.stream.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// What was submitted before the end has been reported when Ended comes.
func TestEndedIsLast(t *testing.T) {
	noLeaks(t)
	const n = 200
	a := newAdmin(t)
	tr := newRig(t)
	q := a.queue(t, transporttest.QueueOptions{})
	a.publish(t, q, numbered(n)...)
	for range 10 {
		s := dial(t, tr)
		r := consume(t, s, transport.Subscription{Queue: q, Prefetch: n}, &tape{})
		r.awaitDeliveries(t, n)
		r.settle(transport.Requeue, descending(n, 1)...)
		s.Cut()
		r.awaitEnd(t)
		if r.reportedByEnd != n {
			t.Errorf("%d of %d settlements were reported before the end", r.reportedByEnd, n)
		}
		end(t, s)
	}
}

// What is submitted while the close is under way is written and proven, or fails: nothing slips in behind the proof.
func TestCloseProvesAllThatWasWritten(t *testing.T) {
	noLeaks(t)
	const n = 300
	a := newAdmin(t)
	s := dial(t, newRig(t))
	for range 4 {
		q := a.queue(t, transporttest.QueueOptions{Kind: transport.DeclareQuorum})
		a.publish(t, q, numbered(n)...)
		r := consume(t, s, transport.Subscription{Queue: q, Prefetch: n}, &tape{})
		r.awaitDeliveries(t, n)
		var group sync.WaitGroup
		group.Go(func() {
			for _, tag := range descending(n, 1) {
				r.settle(transport.Ack, tag)
				r.await(t, "a report", func() bool { return len(r.written)+len(r.failed) >= int(n-tag+1) })
			}
		})
		r.awaitWritten(t, 100)
		if err := r.stream.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		group.Wait()
		if int(r.proven) != len(r.written) {
			t.Errorf("%d settlements are proven of %d that were written", r.proven, len(r.written))
		}
		if left := a.drain(t, q, n-len(r.written)); len(left) != n-len(r.written) {
			t.Errorf("%d messages are left of %d, %d were settled", len(left), n, len(r.written))
		}
	}
}
