package transporttest

import (
	"slices"

	"github.com/lastcall-go/lastcall/transport"
)

var proofCases = []testCase{
	{name: "the window proves all but the last prefetch", test: func(e *env) {
		const n, prefetch = 100, 5
		r := e.openAuto(e.dial(), e.queue(n), prefetch, transport.Ack)
		r.awaitWritten(n) // that each Deliver finds its proof reported is checked as it comes
		r.await("the window's proof", func() bool { return r.proven >= n-prefetch })
	}},

	{name: "nothing is proven without an observation", needs: []Fault{FaultSilence}, test: func(e *env) {
		const n = 10
		s := e.dial()
		r := e.open(s, e.queue(n), n)
		r.awaitDeliveries(n)
		resume := e.Faults.Silence(e, s)
		defer resume()
		for tag := uint64(1); tag <= n; tag++ {
			r.settle(tag, transport.Ack)
		}
		r.awaitWritten(n)
		s.Cut()
		r.awaitEnd(transport.EndCut, transport.ByUs, true)
		if ids := r.provenIDs(transport.Ack); len(ids) > 0 {
			e.Errorf("the settlements of %v are proven although the peer was silent from before the first", ids)
		}
	}},

	{name: "what is proven before a loss has been taken", needs: []Fault{FaultDrop, FaultReset}, test: func(e *env) {
		const n, prefetch = 300, 20
		for round := range 6 {
			s, q := e.dial(), e.queue(n)
			r := e.openAuto(s, q, prefetch, transport.Ack)
			r.awaitDeliveries(n / 3)
			switch round % 3 {
			case 0:
				e.Faults.Drop(e, s)
			case 1:
				e.Faults.Reset(e, s)
			case 2:
				s.Cut()
			}
			e.awaitClosed("Session.Done", s.Done())
			e.end(s)
			e.wantTruth(q, messageIDs(0, n), r)
		}
	}},
}

// wantTruth holds what streams that have ended claimed against what the broker still has of the published messages: one whose
// ack or reject is proven is gone; one for which none was submitted is there; any other may be either way; none is there twice.
func (e *env) wantTruth(queue string, published []string, records ...*recorder) {
	e.Helper()
	gone, perhaps := make(map[string]bool), make(map[string]bool)
	for _, r := range records {
		for _, id := range slices.Concat(r.provenIDs(transport.Ack), r.provenIDs(transport.Reject)) {
			gone[id] = true
		}
		for _, x := range r.submitted {
			if x.Verb != transport.Requeue && transport.KindOf(x.err) != transport.KindInvalid {
				perhaps[x.message] = true
			}
		}
	}
	var stay []string
	for _, id := range published {
		if !perhaps[id] {
			stay = append(stay, id)
		}
	}
	there := make(map[string]int)
	for _, id := range e.drain(queue, len(stay)) {
		if there[id]++; there[id] == 2 {
			e.Errorf("%s is there twice", id)
		}
		if gone[id] {
			e.Errorf("%s was proven to be taken and is still there", id)
		}
	}
	for _, id := range stay {
		if there[id] == 0 {
			e.Errorf("%s was never settled for good and is gone", id)
		}
	}
}
