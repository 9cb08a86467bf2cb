package managed

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/lastcall-go/lastcall/report"
)

// maxUnsettled caps the deliveries a report names; the newest are kept and the rest is counted.
const maxUnsettled = 1000

// unsettledEntry is one delivery that ended without a proven settlement.
type unsettledEntry struct {
	delivery           *Delivery
	bucket, settlement string
}

// unsettledRing keeps the newest entries.
type unsettledRing struct {
	entries []unsettledEntry
	next    int
	omitted int
}

func (r *unsettledRing) add(d *Delivery, bucket, settlement string) {
	e := unsettledEntry{d, bucket, settlement}
	if len(r.entries) < maxUnsettled {
		r.entries = append(r.entries, e)
		return
	}
	r.entries[r.next] = e
	r.next = (r.next + 1) % maxUnsettled
	r.omitted++
}

// list returns the entries, oldest first.
func (r *unsettledRing) list() []unsettledEntry {
	return slices.Concat(r.entries[r.next:], r.entries[:r.next])
}

func (e unsettledEntry) report() report.Unsettled {
	d := e.delivery
	u := report.Unsettled{
		Queue: d.Queue, Session: d.Session, DeliveryTag: strconv.FormatUint(d.Tag, 10), MessageID: report.Redact(d.MessageID),
		Redelivered: d.Redelivered, Bucket: e.bucket, Settlement: e.settlement, Detail: d.detail, Stack: -1,
	}
	if !d.started.IsZero() {
		u.BufferedUS = d.started.Sub(d.received).Microseconds()
		if !d.ended.IsZero() {
			u.HandlerUS = d.ended.Sub(d.started).Microseconds()
		}
	}
	return u
}

func sortRequeueCauses(causes []report.RequeueCause) {
	slices.SortFunc(causes, func(a, b report.RequeueCause) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Class, b.Class))
	})
}

// deliveryFIFO is a queue of deliveries in a slice that is reused.
type deliveryFIFO struct {
	items []*Delivery
	head  int
}

func (f *deliveryFIFO) len() int { return len(f.items) - f.head }

func (f *deliveryFIFO) push(d *Delivery) {
	if f.head > 64 && f.head*2 >= len(f.items) {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, d)
}

func (f *deliveryFIFO) pop() *Delivery {
	d := f.items[f.head]
	f.items[f.head] = nil
	f.head++
	return d
}
