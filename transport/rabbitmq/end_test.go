package rabbitmq_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/faultproxy"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
	"github.com/lastcall-go/lastcall/transport/transporttest"
)

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
	if kinds := r.kinds(); slices.Contains(kinds, transport.ObservedCancelWritten) || !slices.Contains(kinds, transport.ObservedBarrier) {
		t.Errorf("observed %v", kinds)
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
