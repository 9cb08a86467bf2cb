package rabbitmq_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/transporttest"
)

// FACTS 2: a quorum queue drops what exceeds 32 un-applied settlement frames when the channel closes. 200 deliveries, all but the
// first settled singly, because the first is never: nothing that was said to be proven may come again.
func TestQuorumCloseLosesNothing(t *testing.T) {
	const n, trials = 200, 20
	a := newAdmin(t)
	for name, c := range map[string]struct {
		sub    transport.Subscription
		before func(*tape) // the settlements
		want   transport.ObservationKind
	}{
		"cancel after the last": {sub: transport.Subscription{Declare: transport.DeclareQuorum}, want: transport.ObservedCancelOK},
		"passive, so unknown":   {want: transport.ObservedCancelOK},
		"early cancel": {sub: transport.Subscription{Declare: transport.DeclareQuorum}, want: transport.ObservedQuiet, before: func(r *tape) {
			r.stream.Cancel()
			r.awaitObserved(t, transport.ObservedCancelOK)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			s := dial(t, newRig(t))
			lost := 0
			for range trials {
				q := a.queue(t, transporttest.QueueOptions{Kind: transport.DeclareQuorum})
				a.publish(t, q, numbered(n)...)
				sub := c.sub
				sub.Queue, sub.Prefetch = q, n
				r := consume(t, s, sub, &tape{})
				r.awaitDeliveries(t, n)
				if c.before != nil {
					c.before(r)
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
				left := a.drain(t, q, 1)
				lost += len(left) - 1
			}
			if diff := cmp.Diff(0, lost); diff != "" {
				t.Errorf("settled, proven and delivered again, of %d (-want +got):\n%s", trials*(n-1), diff)
			}
		})
	}
}
