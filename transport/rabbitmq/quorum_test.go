package rabbitmq_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/transporttest"
)

// FACTS 2: a quorum queue drops what exceeds 32 un-applied settlement frames when the channel closes. 200 deliveries, all but the
// first settled singly, because the first is never: nothing that was said to be proven may come again, and nobody else's
// message be touched.
func TestQuorumCloseLosesNothing(t *testing.T) {
	const n, others = 200, 5
	a := newAdmin(t)
	for name, c := range map[string]struct {
		sub    transport.Subscription
		early  bool // cancel
		trials int
		want   transport.ObservationKind
	}{
		"cancel after the last": {trials: 20, sub: transport.Subscription{Declare: transport.DeclareQuorum}, want: transport.ObservedCancelOK},
		"passive, so unknown":   {trials: 5, want: transport.ObservedCancelOK},
		"early cancel":          {trials: 20, sub: transport.Subscription{Declare: transport.DeclareQuorum}, want: transport.ObservedBarrier, early: true},
		"early cancel, unknown": {trials: 5, want: transport.ObservedBarrier, early: true},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			s := dial(t, newRig(t))
			lost := 0
			for range c.trials {
				q := a.queue(t, transporttest.QueueOptions{Kind: transport.DeclareQuorum})
				a.publish(t, q, numbered(n)...)
				sub := c.sub
				sub.Queue, sub.Prefetch = q, n
				r := consume(t, s, sub, &tape{})
				r.awaitDeliveries(t, n)
				want := 1
				if c.early {
					r.stream.Cancel()
					r.awaitObserved(t, transport.ObservedCancelOK)
					a.publish(t, q, numbered(others)...)
					want += others
				}
				r.settle(transport.Ack, descending(n, 2)...)
				if err := r.stream.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if r.proven != n-1 {
					t.Errorf("%d of %d settlements are proven; %s", r.proven, n-1, r)
				}
				if !r.saw(c.want) || r.saw(transport.ObservedUnproven) {
					t.Errorf("observed %v, want %s among it", r.kinds(), c.want)
				}
				lost--
				for _, m := range a.drain(t, q, want) {
					if count, ok := m.Headers["x-delivery-count"].(int64); ok && count > 0 {
						lost++
					}
				}
			}
			if diff := cmp.Diff(0, lost); diff != "" {
				t.Errorf("settled or never ours, and returned, of %d (-want +got):\n%s", c.trials*(n-1), diff)
			}
		})
	}
}

// FACTS 13: a cancel would break the order of a single-active-consumer queue. So an ordered stream keeps its prefetch within what
// the broker takes, and its close needs no cancel and no look at the log.
func TestOrderedNeedsNoCancel(t *testing.T) {
	noLeaks(t)
	const n = 100
	a := newAdmin(t)
	s := dial(t, newRig(t))
	q := a.queue(t, transporttest.QueueOptions{Kind: transport.DeclareQuorum}, "x-single-active-consumer", true)
	a.publish(t, q, numbered(n)...)
	r := consume(t, s, transport.Subscription{Queue: q, Prefetch: 64, Ordered: true}, &tape{})
	r.awaitDeliveries(t, 32)
	next := consume(t, s, transport.Subscription{Queue: q, Prefetch: 64, Ordered: true}, &tape{})
	r.settle(transport.Ack, descending(32, 2)...) // singly, for the first is not settled yet
	r.awaitDeliveries(t, 63)                      // 31 more
	r.settle(transport.Ack, descending(63, 33)...)
	if err := r.stream.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]transport.ObservationKind{transport.ObservedCloseWritten, transport.ObservedCloseOK}, r.kinds()); diff != "" || r.proven != 62 {
		t.Errorf("%d of 62 proven; observed (-want +got):\n%s", r.proven, diff)
	}
	var want, got []string
	for i, m := range numbered(n) {
		if i == 0 || i >= len(r.written)+1 {
			want = append(want, m.ID)
		}
	}
	for len(got) < len(want) {
		d := next.awaitDeliveries(t, len(got)+1)
		got = append(got, d.MessageID)
		next.settle(transport.Ack, d.Tag)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("at the next consumer (-want +got):\n%s", diff)
	}
}
