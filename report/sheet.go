package report

// The buckets that leave something open; the others are the fields of Sheet.
const (
	BucketInterrupted = "interrupted"
	BucketUnresolved  = "unresolved"
	BucketAbandoned   = "abandoned"
)

// bucket is one bucket of a sheet with its name in the document.
type bucket struct {
	name  string
	count uint64
}

// buckets lists the buckets of s in the order of the document.
func (s *Sheet) buckets() [8]bucket {
	return [...]bucket{
		{"acked", s.Acked}, {"requeued", s.Requeued}, {"rejected", s.Rejected}, {"handed_back", s.HandedBack},
		{"released", s.Released}, {BucketInterrupted, s.Interrupted}, {BucketUnresolved, s.Unresolved},
		{BucketAbandoned, s.Abandoned},
	}
}

// Placed is the number of deliveries that have a bucket.
func (s *Sheet) Placed() uint64 {
	var n uint64
	for _, b := range s.buckets() {
		n += b.count
	}
	return n
}

// Conserves reports whether every delivery received has a bucket and none is left in flight. It computes; it does not read
// Conserved.
func (s *Sheet) Conserves() bool { return s.InFlight == 0 && s.Received == s.Placed() }

// Add adds o to s, count by count, and leaves Conserved alone.
func (s *Sheet) Add(o Sheet) {
	s.Received += o.Received
	s.Started += o.Started
	s.Acked += o.Acked
	s.Requeued += o.Requeued
	s.Rejected += o.Rejected
	s.HandedBack += o.HandedBack
	s.Released += o.Released
	s.Interrupted += o.Interrupted
	s.Unresolved += o.Unresolved
	s.Abandoned += o.Abandoned
	s.InFlight += o.InFlight
	s.LateResults += o.LateResults
	s.HandlerPanics += o.HandlerPanics
	s.Malformed += o.Malformed
}

// Add adds o to a, count by count.
func (a *AtTrigger) Add(o AtTrigger) {
	a.Started += o.Started
	a.Buffered += o.Buffered
	a.Settling += o.Settling
}

// sheets visits every sheet of d with its path in the document, totals first.
func (d *ShutdownReport) sheets(visit func(path string, s *Sheet)) {
	visit("deliveries.in_shutdown", &d.Deliveries.InShutdown)
	visit("deliveries.since_start", &d.Deliveries.SinceStart)
	for i := range d.Subscriptions {
		at := index("subscriptions", i)
		visit(at+".in_shutdown", &d.Subscriptions[i].InShutdown)
		visit(at+".since_start", &d.Subscriptions[i].SinceStart)
	}
}
