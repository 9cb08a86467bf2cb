package rabbitmq

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/transport"
)

// writer sends a stream's settlements. One goroutine, owned by the stream, takes what has gathered while it wrote before, and
// sends it in one write: the finished prefix of what is outstanding as one ack with `multiple`, the rest singly.
type writer struct {
	stream *stream
	queue  transport.Queue
	wake   chan struct{} // one token: the queue may hold something
	seals  chan chan<- tail
	stop   chan struct{} // closed by the stream's life
	done   chan struct{}

	settled atomic.Uint64 // settlements written
	over    atomic.Bool   // run has returned or is about to: whoever submits starts the failing
	failing sync.Mutex    // one Failed at a time once over; held across the call, by goroutines that hold nothing else

	// Of run alone.
	outstanding outstanding
	tail        tail
	sealed      bool
	batch       []*transport.Settlement
	order       []*transport.Settlement
	refused     []*transport.Settlement
	frames      []byte
}

func newWriter(s *stream) *writer {
	return &writer{stream: s, wake: make(chan struct{}, 1), seals: make(chan chan<- tail), stop: make(chan struct{}), done: make(chan struct{})}
}

// submit queues x. Once the writer is over x fails, in a goroutine of its own, for the caller may hold a lock of the sink's.
func (w *writer) submit(x *transport.Settlement) {
	first := w.queue.Push(x)
	if w.over.Load() {
		go w.failQueued()
		return
	}
	if first {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// run ends when the stream's life closes stop.
func (w *writer) run() {
	defer close(w.done)
	for {
		select {
		case <-w.wake:
			w.drain()
		case reply := <-w.seals:
			w.drain()
			w.sealed = true
			reply <- w.tail
		case <-w.stop:
			w.over.Store(true)
			w.failQueued()
			return
		}
	}
}

// drain writes until nothing is queued.
func (w *writer) drain() {
	for !w.queue.Empty() && !isClosed(w.stop) {
		// One yield lets others finish what then leaves in the same write.
		runtime.Gosched()
		w.batch = w.queue.Take(w.batch[:0])
		w.pass()
		clear(w.batch)
		clear(w.order)
		clear(w.refused)
	}
}

// pass sends the batch.
func (w *writer) pass() {
	s := w.stream
	if w.sealed {
		s.sink.Failed(w.batch, s.closedError("settle"))
		return
	}
	w.plan()
	if len(w.refused) > 0 {
		s.sink.Failed(w.refused, &transport.Error{Kind: transport.KindInvalid, Op: "settle", Subject: s.queue,
			Text: "the delivery is not outstanding: never delivered, or settled before"})
	}
	if len(w.order) == 0 {
		return
	}
	err := s.session.conn.writeFrames(s.lane, w.frames)
	if err != nil {
		kind := transport.KindUnavailable
		if errors.Is(err, errChannelShut) {
			kind = transport.KindClosed
		}
		s.sink.Failed(w.order, &transport.Error{Kind: kind, Op: "settle", Subject: s.queue, Err: err})
		return
	}
	at := deadline.Now()
	w.tail.add(len(w.frames)/settlementSize, w.order)
	w.settled.Store(w.tail.settled)
	s.sink.Written(w.order, at)
}

// plan fills order, frames and refused from the batch. What goes singly goes first: below the tag of a `multiple` nothing may be
// outstanding that it is not meant for.
func (w *writer) plan() {
	w.order, w.refused, w.frames = w.order[:0], w.refused[:0], w.frames[:0]
	last := w.stream.received.Load()
	valid := w.batch[:0]
	for _, x := range w.batch {
		if x.Verb < transport.Ack || x.Verb > transport.Reject || !w.outstanding.settle(x.Tag, last) {
			w.refused = append(w.refused, x)
			continue
		}
		valid = append(valid, x)
	}
	// Everything below first is settled now, and what was not before is in this batch.
	first := w.outstanding.first()
	prefix, highest := 0, uint64(0)
	for _, x := range valid {
		if x.Verb == transport.Ack && x.Tag < first {
			prefix++
			highest = max(highest, x.Tag)
		}
	}
	folded := func(x *transport.Settlement) bool { return prefix > 1 && x.Verb == transport.Ack && x.Tag < first }
	for _, x := range valid {
		if !folded(x) {
			w.order = append(w.order, x)
			w.frames = appendSettlement(w.frames, w.stream.lane.channel, x.Verb, x.Tag, false)
		}
	}
	if prefix > 1 {
		for _, x := range valid {
			if folded(x) {
				w.order = append(w.order, x)
			}
		}
		w.frames = appendSettlement(w.frames, w.stream.lane.channel, transport.Ack, highest, true)
	}
}

// failQueued reports what is queued and will not be written.
func (w *writer) failQueued() {
	w.failing.Lock()
	defer w.failing.Unlock()
	if batch := w.queue.Take(nil); len(batch) > 0 {
		w.stream.sink.Failed(batch, w.stream.closedError("settle"))
	}
}

// seal writes what was submitted before, lets nothing more through, and returns what was written in all. When ctx ends first
// it returns its cause.
func (w *writer) seal(ctx context.Context) (tail, error) {
	reply := make(chan tail, 1)
	select {
	case w.seals <- reply:
	case <-w.done:
		return tail{}, w.stream.closedError("close")
	case <-ctx.Done():
		return tail{}, context.Cause(ctx)
	}
	select {
	case t := <-reply:
		return t, nil
	case <-w.done:
		return tail{}, w.stream.closedError("close")
	case <-ctx.Done():
		return tail{}, context.Cause(ctx)
	}
}
