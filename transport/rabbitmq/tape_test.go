package rabbitmq_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/transport"
)

// tape is a Sink that records what it hears.
type tape struct {
	onDeliver func(*transport.Delivery)   // called by the transport's goroutine; nil means nothing
	onObserve func(transport.Observation) // likewise
	stream    transport.Stream            // set once Consume has returned

	mu         sync.Mutex
	turned     chan struct{} // closed at the next call
	deliveries []*transport.Delivery
	written    []uint64 // tags, in write order
	writes     int
	failed     []uint64
	errs       []error // of failed
	proven     uint64
	observed   []transport.Observation
	end        *transport.End

	reportedByEnd int // settlements written or failed
}

// consume opens a stream that records.
func consume(t testing.TB, s transport.Session, sub transport.Subscription, r *tape) *tape {
	t.Helper()
	stream, err := s.Consume(t.Context(), sub, r)
	if err != nil {
		t.Fatalf("Consume: %v", err)
	}
	r.stream = stream
	return r
}

func (r *tape) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	if r.turned != nil {
		close(r.turned)
		r.turned = nil
	}
}

func (r *tape) Deliver(d *transport.Delivery) {
	r.note(func() { r.deliveries = append(r.deliveries, d) })
	if r.onDeliver != nil {
		r.onDeliver(d)
	}
}

func (r *tape) Written(batch []*transport.Settlement, _ time.Time) {
	r.note(func() {
		r.writes++
		for _, x := range batch {
			r.written = append(r.written, x.Tag)
		}
	})
}

func (r *tape) Failed(batch []*transport.Settlement, err error) {
	r.note(func() {
		for _, x := range batch {
			r.failed = append(r.failed, x.Tag)
			r.errs = append(r.errs, err)
		}
	})
}

func (r *tape) Proven(n uint64, _ transport.Proof) { r.note(func() { r.proven = max(r.proven, n) }) }

func (r *tape) Observe(o transport.Observation) {
	r.note(func() { r.observed = append(r.observed, o) })
	if r.onObserve != nil {
		r.onObserve(o)
	}
}

func (r *tape) Ended(e transport.End) {
	r.note(func() { r.end, r.reportedByEnd = &e, len(r.written)+len(r.failed) })
}

// await waits until ok, which is called under the lock after each call of the Sink.
func (r *tape) await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	over := time.After(patience)
	for {
		r.mu.Lock()
		good := ok()
		if r.turned == nil {
			r.turned = make(chan struct{})
		}
		turned := r.turned
		r.mu.Unlock()
		if good {
			return
		}
		select {
		case <-turned:
		case <-over:
			t.Fatalf("%s: not within %s; %s", what, patience, r)
		}
	}
}

// awaitDeliveries returns the last of the n.
func (r *tape) awaitDeliveries(t testing.TB, n int) (last *transport.Delivery) {
	t.Helper()
	r.await(t, fmt.Sprintf("%d deliveries", n), func() bool {
		if len(r.deliveries) < n {
			return false
		}
		last = r.deliveries[n-1]
		return true
	})
	return last
}

func (r *tape) awaitWritten(t testing.TB, n int) {
	t.Helper()
	r.await(t, fmt.Sprintf("%d settlements written", n), func() bool { return len(r.written) >= n })
}

func (r *tape) awaitObserved(t testing.TB, k transport.ObservationKind) {
	t.Helper()
	r.await(t, string(k), func() bool { return r.saw(k) })
}

func (r *tape) awaitEnd(t testing.TB) transport.End {
	t.Helper()
	r.await(t, "the end", func() bool { return r.end != nil })
	return *r.end
}

// saw is for await's conditions.
func (r *tape) saw(k transport.ObservationKind) bool {
	for _, o := range r.observed {
		if o.Kind == k {
			return true
		}
	}
	return false
}

// kinds returns what was observed, in order.
func (r *tape) kinds() (kinds []transport.ObservationKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.observed {
		kinds = append(kinds, o.Kind)
	}
	return kinds
}

func (r *tape) settle(verb transport.Verb, tags ...uint64) {
	for _, tag := range tags {
		r.stream.Submit(&transport.Settlement{Tag: tag, Verb: verb})
	}
}

func (r *tape) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d delivered, %d written in %d writes, %d failed %v, %d proven, observed %v, end %v",
		len(r.deliveries), len(r.written), r.writes, len(r.failed), r.errs, r.proven, r.observed, r.end)
}

// descending returns the tags from high to low.
func descending(high, low uint64) (tags []uint64) {
	for tag := high; tag >= low; tag-- {
		tags = append(tags, tag)
	}
	return tags
}
