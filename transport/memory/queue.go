package memory

import (
	"container/heap"
	"maps"
	"reflect"
	"slices"

	"github.com/lastcall-go/lastcall/transport"
)

// The queue arguments that mean something here; others only take part in the comparison of a declaration.
const (
	// ArgDeliveryLimit is how often a message of a quorum queue may come back before it is dead-lettered (an integer).
	ArgDeliveryLimit = "x-delivery-limit"
	// ArgDeadLetter names the queue that rejected messages go to; without it they are gone.
	ArgDeadLetter = "x-dead-letter-routing-key"
	// ArgSingleActive true delivers to the oldest consumer alone.
	ArgSingleActive = "x-single-active-consumer"
)

// Options describe a queue.
type Options struct {
	// Kind is DeclareClassic or DeclareQuorum. Zero means DeclareClassic.
	Kind transport.Declare
	// Arguments are its arguments. Nil means none.
	Arguments map[string]any
}

func (o Options) same(other Options) bool {
	return o.Kind == other.Kind && len(o.Arguments) == len(other.Arguments) &&
		(len(o.Arguments) == 0 || reflect.DeepEqual(o.Arguments, other.Arguments))
}

// queue is guarded by the broker's lock.
type queue struct {
	name string
	opts Options

	limit        int64 // of returns; negative means none
	deadLetter   string
	singleActive bool

	seq      uint64
	fresh    fifo[*message] // never delivered
	returned bySeq          // came back; all of them stood before the fresh ones
	unacked  int

	consumers []*stream     // oldest first
	active    fifo[*stream] // those that may get a message now, in turn
}

func newQueue(name string, o Options) (*queue, error) {
	if o.Kind == transport.DeclareDefault {
		o.Kind = transport.DeclareClassic
	}
	o.Arguments = maps.Clone(o.Arguments)
	q := &queue{name: name, opts: o, limit: -1}
	invalid := func(text string) (*queue, error) {
		return nil, &transport.Error{Kind: transport.KindInvalid, Op: "declare", Subject: name, Text: text}
	}
	if o.Kind != transport.DeclareClassic && o.Kind != transport.DeclareQuorum {
		return invalid("a queue is classic or quorum, not " + o.Kind.String())
	}
	if v, ok := o.Arguments[ArgDeliveryLimit]; ok {
		n := reflect.ValueOf(v)
		if !n.CanInt() || n.Int() < 0 || o.Kind != transport.DeclareQuorum {
			return invalid(ArgDeliveryLimit + " is an integer of 0 or more, for quorum queues")
		}
		q.limit = n.Int()
	}
	if v, ok := o.Arguments[ArgDeadLetter]; ok {
		if q.deadLetter, ok = v.(string); !ok {
			return invalid(ArgDeadLetter + " is the name of a queue")
		}
	}
	if v, ok := o.Arguments[ArgSingleActive]; ok {
		if q.singleActive, ok = v.(bool); !ok {
			return invalid(ArgSingleActive + " is true or false")
		}
	}
	return q, nil
}

// counts reports whether returns are counted against a limit and shown in x-delivery-count.
func (q *queue) counts() bool { return q.opts.Kind == transport.DeclareQuorum }

func (q *queue) ready() int { return q.fresh.len() + len(q.returned) }

func (q *queue) publish(m *message) {
	q.seq++
	m.seq = q.seq
	q.fresh.push(m)
}

// take removes the first ready message. A message is only ever taken from the front, so what came back stood before
// everything that is still fresh.
func (q *queue) take() *message {
	if len(q.returned) > 0 {
		return heap.Pop(&q.returned).(*message)
	}
	return q.fresh.pop()
}

// dispatch sends ready messages to the consumers that have room for them, in turn.
func (q *queue) dispatch() {
	for q.ready() > 0 {
		s := q.next()
		if s == nil {
			return
		}
		q.unacked++
		s.send(q.take())
		q.offer(s)
	}
}

func (q *queue) next() *stream {
	if q.singleActive {
		if len(q.consumers) > 0 && q.consumers[0].room() {
			return q.consumers[0]
		}
		return nil
	}
	if q.active.len() == 0 {
		return nil
	}
	s := q.active.pop()
	s.offered = false
	return s
}

// offer puts s at the end of the line if it has room and does not stand there yet.
func (q *queue) offer(s *stream) {
	if !q.singleActive && !s.offered && s.room() {
		s.offered = true
		q.active.push(s)
	}
}

func (q *queue) attach(s *stream) {
	s.consuming = true
	q.consumers = append(q.consumers, s)
	q.offer(s)
}

func (q *queue) detach(s *stream) {
	if !s.consuming {
		return
	}
	s.consuming = false
	q.consumers = slices.DeleteFunc(q.consumers, func(c *stream) bool { return c == s })
	if s.offered {
		s.offered = false
		q.active.remove(func(c *stream) bool { return c == s })
	}
}

// giveBack returns a message that was delivered to its place. It reports false if the message has used up its returns.
func (q *queue) giveBack(m *message) bool {
	m.redelivered = true
	m.returns++
	if q.limit >= 0 && m.returns > uint64(q.limit) {
		return false
	}
	heap.Push(&q.returned, m)
	return true
}

// messages copies what is ready, in order.
func (q *queue) messages() []Message {
	out := make([]Message, 0, q.ready())
	returned := slices.SortedFunc(slices.Values(q.returned), func(a, b *message) int {
		if a.seq < b.seq {
			return -1
		}
		return 1
	})
	for _, m := range returned {
		out = append(out, m.Message)
	}
	for i := range q.fresh.len() {
		out = append(out, q.fresh.at(i).Message)
	}
	return out
}

// bySeq is a heap: the message that stands first is on top.
type bySeq []*message

func (h bySeq) Len() int           { return len(h) }
func (h bySeq) Less(i, j int) bool { return h[i].seq < h[j].seq }
func (h bySeq) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *bySeq) Push(m any)        { *h = append(*h, m.(*message)) }
func (h *bySeq) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return m
}
