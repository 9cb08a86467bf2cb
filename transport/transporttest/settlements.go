package transporttest

import (
	"sync"

	"github.com/lastcall-go/lastcall/transport"
)

var settlementCases = []testCase{
	{name: "an acked message is gone", test: func(e *env) {
		s, q := e.dial(), e.queue(30)
		r := e.openAuto(s, q, 10, transport.Ack)
		r.awaitWritten(30)
		e.closeStream(r)
		e.end(s)
		e.wantLeft(q)
	}},

	{name: "a requeued message comes again, marked as redelivered", test: func(e *env) {
		s, q := e.dial(), e.queue(1)
		r := e.open(s, q, 1)
		r.awaitDeliveries(1)
		r.settle(1, transport.Requeue)
		r.awaitDeliveries(2)
		again := r.got()[1]
		if again.MessageID != messageID(0) || !again.Redelivered {
			e.Errorf("the second delivery is %s, redelivered %t", again.MessageID, again.Redelivered)
		}
		if r.stream.CountsReturns() && again.DeliveryCount != 1 {
			e.Errorf("the broker counts returns, and the count after one is %d", again.DeliveryCount)
		}
		r.settle(2, transport.Ack)
		e.closeStream(r)
		e.end(s)
		e.wantLeft(q)
	}},

	{name: "a rejected message is gone", test: func(e *env) {
		s, q := e.dial(), e.queue(5)
		r := e.openAuto(s, q, 5, transport.Reject)
		r.awaitWritten(5)
		e.closeStream(r)
		e.end(s)
		e.wantLeft(q)
	}},

	{name: "a rejected message is dead-lettered where the queue says so", test: func(e *env) {
		dead := e.queue(0)
		q := e.NewQueue(e, QueueOptions{Kind: e.kind, DeadLetter: dead})
		e.Publish(e, q, messages(0, 6)...)
		s := e.dial()
		r := e.open(s, q, 6)
		r.awaitDeliveries(6)
		for tag := uint64(1); tag <= 6; tag++ {
			r.settle(tag, []transport.Verb{transport.Ack, transport.Reject}[tag%2])
		}
		e.closeStream(r)
		e.end(s)
		e.wantLeft(q)
		e.wantLeft(dead, messageID(0), messageID(2), messageID(4))
	}},

	{name: "verbs out of order reach the right messages", test: func(e *env) {
		s, q := e.dial(), e.queue(12)
		r := e.open(s, q, 12)
		r.awaitDeliveries(12)
		r.stream.Cancel() // so that what is requeued stays
		r.awaitObserved(transport.ObservedCancelWritten)
		var kept []string
		for _, tag := range []uint64{12, 3, 4, 1, 7, 2, 11, 5, 9, 8} { // 6 and 10 stay unsettled
			if tag%3 == 0 {
				r.settle(tag, transport.Requeue)
			} else {
				r.settle(tag, transport.Ack)
			}
		}
		for _, tag := range []int{3, 6, 9, 10, 12} {
			kept = append(kept, messageID(tag-1))
		}
		e.closeStream(r)
		e.end(s)
		e.wantLeft(q, kept...)
	}},

	{name: "each settlement is reported once, in the order of Submit", test: func(e *env) {
		s, q := e.dial(), e.queue(500)
		r := e.open(s, q, 500)
		r.awaitDeliveries(500)
		for tag := uint64(1); tag <= 500; tag++ {
			r.settle(tag, transport.Ack)
		}
		r.awaitWritten(500) // the order and the number of reports are verified at the end
		e.closeStream(r)
	}},

	{name: "settlements may come from many goroutines", test: func(e *env) {
		const submitters, each = 16, 50
		s, q := e.dial(), e.queue(submitters*each)
		r := e.recorder(submitters * each)
		r.parallel = true
		e.consume(s, transport.Subscription{Queue: q}, r)
		r.awaitDeliveries(submitters * each)
		var group sync.WaitGroup
		for i := range submitters {
			group.Go(func() {
				for j := range each {
					r.settle(uint64(1+i+j*submitters), transport.Ack)
				}
			})
		}
		group.Wait()
		r.awaitWritten(submitters * each)
		e.closeStream(r)
		e.end(s)
		e.wantLeft(q)
	}},

	{name: "what makes no sense is refused before the wire", test: func(e *env) {
		s, q := e.dial(), e.queue(3)
		r := e.open(s, q, 2)
		r.awaitDeliveries(2)
		refused := []*settlement{r.settle(0, transport.Ack), r.settle(99, transport.Ack), r.settle(1, 0), r.settle(1, transport.Reject+1)}
		good := r.settle(2, transport.Ack)
		refused = append(refused, r.settle(2, transport.Ack), r.settle(2, transport.Requeue))
		r.await("six refusals", func() bool { return r.failures == len(refused) })
		refused = append(refused, r.settle(2, transport.Ack)) // long after
		r.await("the last refusal", func() bool { return r.failures == len(refused) })
		for _, x := range refused {
			e.wantKind("Submit of nonsense", x.err, transport.KindInvalid)
		}
		if good.err != nil {
			e.Errorf("a good settlement among them failed: %v", good.err)
		}
		r.awaitDeliveries(3) // the channel has taken no harm
		r.settle(1, transport.Ack)
		r.settle(3, transport.Ack)
		e.closeStream(r)
		e.end(s)
		e.wantLeft(q)
	}},

	{name: "what is submitted after the end fails, once", test: func(e *env) {
		for name, finish := range map[string]func(transport.Session, *recorder){
			"stream closed":  func(_ transport.Session, r *recorder) { e.closeStream(r) },
			"session closed": func(s transport.Session, _ *recorder) { e.closeSession(s) },
			"session cut":    func(s transport.Session, _ *recorder) { e.end(s) },
		} {
			s, q := e.dial(), e.queue(2)
			r := e.recorder(2)
			r.parallel = true
			e.consume(s, transport.Subscription{Queue: q}, r)
			r.awaitDeliveries(2)
			finish(s, r)
			var late [2]*settlement
			var group sync.WaitGroup
			for i := range late {
				group.Go(func() { late[i] = r.settle(uint64(i+1), transport.Ack) })
			}
			group.Wait()
			r.await(name+": two failures", func() bool { return r.failures == 2 })
			for _, x := range late {
				e.wantKind(name+": Submit", x.err, transport.KindClosed)
			}
			e.end(s)
			e.wantLeft(q, messageIDs(0, 2)...)
		}
	}},

	{name: "settlements in the very moment of the end are all reported", test: func(e *env) {
		const n = 200
		for range 5 {
			s, q := e.dial(), e.queue(n)
			r := e.recorder(n)
			r.parallel = true
			e.consume(s, transport.Subscription{Queue: q}, r)
			r.awaitDeliveries(n)
			var group sync.WaitGroup
			for i := range 4 {
				group.Go(func() {
					for tag := i + 1; tag <= n; tag += 4 {
						r.settle(uint64(tag), transport.Ack)
					}
				})
			}
			s.Cut()
			group.Wait()
			r.await("a report for each", func() bool { return len(r.written)+r.failures == n })
			e.end(s)
		}
	}},
}
