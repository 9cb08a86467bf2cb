package transporttest

import (
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/transport"
)

var deliveryCases = []testCase{
	{name: "deliveries come in order with tags from one", test: func(e *env) {
		r := e.open(e.dial(), e.queue(20), 50)
		r.awaitDeliveries(20)
		if diff := gocmp.Diff(messageIDs(0, 20), r.ids()); diff != "" {
			e.Errorf("order (-want +got):\n%s", diff)
		}
		for _, d := range r.got() {
			if d.Redelivered || d.DeliveryCount != 0 {
				e.Errorf("%s is marked as redelivered at its first delivery", d.MessageID)
			}
		}
	}},

	{name: "a delivery carries what was published", test: func(e *env) {
		q := e.queue(0)
		e.Publish(e, q, Message{ID: "full", Body: []byte{0, 1, 254, 255}, ContentType: "application/json",
			Headers: map[string]any{"trace": "abc", "n": int32(7)}}, Message{ID: "empty"})
		r := e.open(e.dial(), q, 2)
		r.awaitDeliveries(2)
		var got []Message
		for _, d := range r.got() {
			m := Message{ID: d.MessageID, ContentType: d.ContentType}
			if len(d.Body) > 0 {
				m.Body = d.Body
			}
			if len(d.Headers) > 0 {
				m.Headers = d.Headers
			}
			got = append(got, m)
		}
		want := []Message{{ID: "full", Body: []byte{0, 1, 254, 255}, ContentType: "application/json",
			Headers: map[string]any{"trace": "abc", "n": int32(7)}}, {ID: "empty"}}
		if diff := gocmp.Diff(want, got); diff != "" {
			e.Errorf("deliveries (-want +got):\n%s", diff)
		}
	}},

	{name: "the prefetch is used and never exceeded", test: func(e *env) {
		s := e.dial()
		for _, prefetch := range []int{1, 2, 7} {
			r := e.open(s, e.queue(20), prefetch)
			for tag := uint64(1); tag <= 20; tag++ {
				r.awaitDeliveries(min(20, int(tag)-1+prefetch))
				r.settle(tag, transport.Ack)
			}
			r.awaitWritten(20)
		}
	}},

	{name: "the prefetch is freed by any delivery, not the oldest alone", test: func(e *env) {
		const prefetch = 4
		r := e.open(e.dial(), e.queue(200), prefetch)
		for n := prefetch; n < 200; n++ {
			r.awaitDeliveries(n)
			r.settle(uint64(n), transport.Ack) // the first three stay
		}
		r.awaitDeliveries(200)
	}},

	{name: "streams of one session do not mix", test: func(e *env) {
		s := e.dial()
		var streams []*recorder
		for i := range 8 {
			q := e.queue(0)
			e.Publish(e, q, messages(100*i, 30)...)
			streams = append(streams, e.openAuto(s, q, 3, transport.Ack))
		}
		for i, r := range streams {
			r.awaitWritten(30)
			if diff := gocmp.Diff(messageIDs(100*i, 30), r.ids()); diff != "" {
				e.Errorf("stream %d (-want +got):\n%s", i, diff)
			}
		}
	}},

	{name: "consumers of one queue share it", test: func(e *env) {
		q := e.queue(0)
		a, b := e.openAuto(e.dial(), q, 5, transport.Ack), e.openAuto(e.dial(), q, 5, transport.Ack)
		e.Publish(e, q, messages(0, 100)...)
		e.await("all messages between two consumers", func() bool { return len(a.ids())+len(b.ids()) >= 100 })
		e.wantSame("deliveries", messageIDs(0, 100), append(a.ids(), b.ids()...))
		if len(a.ids()) == 0 || len(b.ids()) == 0 {
			e.Errorf("one consumer got nothing: %d and %d", len(a.ids()), len(b.ids()))
		}
	}},
}
