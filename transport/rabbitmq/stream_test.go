package rabbitmq_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/faultproxy"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/transporttest"
)

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
