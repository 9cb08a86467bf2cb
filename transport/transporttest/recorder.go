package transporttest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lastcall-go/lastcall/transport"
)

// settlement is one Submit and what became of it.
type settlement struct {
	transport.Settlement
	message string // its id
	write   int    // the number of the write it left in, 0 if it did not
	err     error  // of Failed
	reports int
}

// recorder is the Sink of every test. It records every call and fails the test at once for one that the contract forbids.
type recorder struct {
	t        *env
	prefetch int
	// auto settles each delivery with this verb as it comes. Zero leaves them to the test.
	auto transport.Verb
	// parallel: the test submits from several goroutines, so the order of Submit is not known.
	parallel bool
	// react is called at each observation, on the transport's goroutine. Nil means nothing.
	react func(transport.Observation)

	delivering, reporting atomic.Int32

	order sync.Mutex // held around Submit, so that submitted is in its order

	mu         sync.Mutex
	stream     transport.Stream
	early      []*settlement // submitted before Consume returned
	deliveries []*transport.Delivery
	submitted  []*settlement
	written    []*settlement
	writes     int
	failures   int
	proven     uint64
	observed   []transport.Observation
	ends       []transport.End
}

// hold makes the stream known to the recorder.
func (r *recorder) hold(s transport.Stream) {
	r.order.Lock()
	defer r.order.Unlock()
	r.mu.Lock()
	early := r.early
	r.early, r.stream = nil, s
	r.mu.Unlock()
	for _, x := range early {
		s.Submit(&x.Settlement)
	}
}

// settle submits a verb for a tag, and returns what will become of it.
func (r *recorder) settle(tag uint64, v transport.Verb) *settlement {
	if !r.parallel {
		r.order.Lock()
		defer r.order.Unlock()
	}
	x := &settlement{}
	x.Tag, x.Verb, x.Owner = tag, v, x
	r.mu.Lock()
	if tag >= 1 && tag <= uint64(len(r.deliveries)) {
		x.message = r.deliveries[tag-1].MessageID
	}
	r.submitted = append(r.submitted, x)
	stream := r.stream
	if stream == nil {
		r.early = append(r.early, x)
	}
	r.mu.Unlock()
	if stream != nil {
		stream.Submit(&x.Settlement)
	}
	return x
}

// event records one call by f, which runs under the lock, after checking that the stream has not ended.
func (r *recorder) event(name string, f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ends) > 0 {
		r.t.Errorf("%s after Ended", name)
	}
	f()
	r.t.bell.ring()
}

func (r *recorder) Deliver(d *transport.Delivery) {
	if r.delivering.Add(1) != 1 {
		r.t.Error("two Deliver calls at once")
	}
	defer r.delivering.Add(-1)
	r.event("Deliver", func() {
		r.deliveries = append(r.deliveries, d)
		n := len(r.deliveries)
		if d.Tag != uint64(n) {
			r.t.Errorf("delivery %d has tag %d: tags are 1, 2, 3, …", n, d.Tag)
		}
		if out := n - len(r.submitted); out > r.prefetch {
			r.t.Errorf("%d deliveries are unsettled, the prefetch is %d", out, r.prefetch)
		}
		if n > r.prefetch && r.proven < uint64(n-r.prefetch) {
			r.t.Errorf("delivery %d with prefetch %d proves %d settlements, but only %d had been reported before it", n, r.prefetch, n-r.prefetch, r.proven)
		}
	})
	if r.auto != 0 {
		r.settle(d.Tag, r.auto)
	}
}

func (r *recorder) Written(batch []*transport.Settlement, at time.Time) {
	r.report("Written", batch, func(x *settlement) {
		x.write = r.writes
		r.written = append(r.written, x)
	})
	if at.IsZero() {
		r.t.Error("Written without an instant")
	}
}

func (r *recorder) Failed(batch []*transport.Settlement, err error) {
	if transport.KindOf(err) == 0 {
		r.t.Errorf("Failed with %v, which is no *transport.Error", err)
	}
	r.report("Failed", batch, func(x *settlement) {
		x.err = err
		r.failures++
	})
}

func (r *recorder) report(name string, batch []*transport.Settlement, each func(*settlement)) {
	if r.reporting.Add(1) != 1 {
		r.t.Error("two calls of Written and Failed at once")
	}
	defer r.reporting.Add(-1)
	if len(batch) == 0 {
		r.t.Errorf("%s of nothing", name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ends) > 0 && name == "Written" {
		r.t.Error("Written after Ended")
	}
	r.writes++
	for _, s := range batch {
		x, ok := s.Owner.(*settlement)
		if !ok || &x.Settlement != s {
			r.t.Errorf("%s of a settlement that is not the submitted one", name)
			continue
		}
		if x.reports++; x.reports > 1 {
			r.t.Errorf("the settlement of tag %d was reported %d times", x.Tag, x.reports)
		}
		each(x)
	}
	r.t.bell.ring()
}

func (r *recorder) Proven(n uint64, by transport.Proof) {
	r.event("Proven", func() {
		if n < r.proven {
			r.t.Errorf("Proven fell from %d to %d", r.proven, n)
		}
		if n > uint64(len(r.submitted)) {
			r.t.Errorf("Proven says %d of %d submitted settlements", n, len(r.submitted))
		}
		if by < transport.ProvenWindow || by > transport.ProvenReceipt {
			r.t.Errorf("Proven by %s", by)
		}
		r.proven = n
	})
}

func (r *recorder) Observe(o transport.Observation) {
	r.event("Observe", func() {
		r.observed = append(r.observed, o)
		if o.At.IsZero() {
			r.t.Errorf("%s was observed without an instant", o.Kind)
		}
	})
	if r.react != nil {
		r.react(o)
	}
}

func (r *recorder) Ended(e transport.End) {
	r.event("Ended", func() {
		r.ends = append(r.ends, e)
		if e.At.IsZero() {
			r.t.Errorf("ended as %s without an instant", e.Kind)
		}
		if r.proven > uint64(len(r.written)) {
			r.t.Errorf("ended with %d settlements proven and %d reported as written", r.proven, len(r.written))
		}
	})
}

// await waits until ok, which runs under the lock, and fails the test if that takes too long.
func (r *recorder) await(what string, ok func() bool) {
	r.t.Helper()
	r.t.await(what, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return ok()
	}, r)
}

func (r *recorder) awaitDeliveries(n int) {
	r.t.Helper()
	r.await(fmt.Sprintf("%d deliveries", n), func() bool { return len(r.deliveries) >= n })
}

func (r *recorder) awaitWritten(n int) {
	r.t.Helper()
	r.await(fmt.Sprintf("%d settlements written", n), func() bool { return len(r.written) >= n })
}

func (r *recorder) awaitObserved(k transport.ObservationKind) {
	r.t.Helper()
	r.await(string(k), func() bool { return r.times(k) > 0 })
}

// awaitEnd waits for Ended and compares its kind, party and origin.
func (r *recorder) awaitEnd(kind transport.EndKind, by transport.Party, ofSession bool) {
	r.t.Helper()
	r.await("the end", func() bool { return len(r.ends) > 0 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.ends[0]; e.Kind != kind || e.By != by || e.OfSession != ofSession {
		r.t.Errorf("the stream ended as %s by %q, of its session %t; want %s by %q, %t", e.Kind, e.By, e.OfSession, kind, by, ofSession)
	}
}

// times counts observations of a kind; the lock is held.
func (r *recorder) times(k transport.ObservationKind) (n int) {
	for _, o := range r.observed {
		if o.Kind == k {
			n++
		}
	}
	return n
}

// wantObserved fails the test unless the kinds were observed once each, in this order.
func (r *recorder) wantObserved(kinds ...transport.ObservationKind) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	last := -1
	for _, k := range kinds {
		at := slices.IndexFunc(r.observed, func(o transport.Observation) bool { return o.Kind == k })
		if r.times(k) != 1 || at < last {
			r.t.Errorf("%s was not observed once and in its place: %v", k, r.observed)
		}
		last = at
	}
}

// got returns the deliveries.
func (r *recorder) got() []*transport.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.deliveries)
}

// ids returns the message ids of the deliveries.
func (r *recorder) ids() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.deliveries {
		ids = append(ids, d.MessageID)
	}
	return ids
}

// provenIDs returns the messages whose settlement with v is proven.
func (r *recorder) provenIDs(v transport.Verb) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.written[:r.proven] {
		if x.Verb == v {
			ids = append(ids, x.message)
		}
	}
	return ids
}

// verify holds the whole record of an ended stream against the contract.
func (r *recorder) verify() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ends) != 1 {
		r.t.Errorf("Ended was called %d times", len(r.ends))
	}
	write := 0
	for _, x := range r.submitted {
		if x.reports != 1 {
			r.t.Errorf("the settlement of tag %d was reported %d times", x.Tag, x.reports)
		}
		if x.write == 0 || r.parallel {
			continue
		}
		if x.write < write {
			r.t.Errorf("tag %d left in write %d, submitted after one that left in write %d", x.Tag, x.write, write)
		}
		write = x.write
	}
}

// String sums the record up for a failure.
func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d delivered, %d submitted, %d written, %d failed, %d proven, observed %v, ended %v",
		len(r.deliveries), len(r.submitted), len(r.written), r.failures, r.proven, r.observed, r.ends)
}
