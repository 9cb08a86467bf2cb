package rabbitmq_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/internal/faultproxy"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/transporttest"
)

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
	// What was handed back is more than the broker passes on at once, but the close gives back what is dropped.
	if r.proven != prefetch+20 || slices.Contains(r.kinds(), transport.ObservedBarrier) {
		t.Errorf("%d settlements are proven, observed %v", r.proven, r.kinds())
	}
}

// Where asking the log does not fit, the close says so, and proves no more than it knows.
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
	r.stream.Cancel()
	r.awaitObserved(t, transport.ObservedCancelOK)
	rig.proxy.SetLatency(faultproxy.ToServer, 200*time.Millisecond)
	r.settle(transport.Ack, descending(n, 102)...)
	ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
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

func TestNothingIsBegunOnABudgetThatIsUsedUp(t *testing.T) {
	noLeaks(t)
	a := newAdmin(t)
	s := dial(t, newRig(t))
	q := a.queue(t, transporttest.QueueOptions{})
	r := consume(t, s, transport.Subscription{Queue: q, Prefetch: 1}, &tape{})
	cause := errors.New("used up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for range 20 { // a choice between what is ready would be made at random
		if err := r.stream.Close(ctx); !errors.Is(err, cause) {
			t.Fatalf("Stream.Close: %v", err)
		}
		if err := s.Close(ctx); !errors.Is(err, cause) {
			t.Fatalf("Session.Close: %v", err)
		}
	}
	a.publish(t, q, numbered(1)...)
	r.awaitDeliveries(t, 1)
	r.settle(transport.Ack, 1)
	r.awaitWritten(t, 1)
	if err := r.stream.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
