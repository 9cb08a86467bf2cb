package transport

import "sync/atomic"

// Settlement is the one final verb for one delivery, on its way to the broker. It is meant to be embedded in what it
// settles: submitting it allocates nothing.
type Settlement struct {
	Tag  uint64
	Verb Verb
	// Owner is the sink's own reference, handed back untouched.
	Owner any

	next *Settlement
}

// Queue is an unbounded multi-producer, single-consumer queue of settlements: lock-free, allocation-free, in order of Push.
// The zero Queue is empty and ready. Push is safe for concurrent use; Take is for one goroutine at a time.
type Queue struct {
	head atomic.Pointer[Settlement]
}

// Push adds s and reports whether the queue was empty, that is, whether the consumer may need to be woken.
func (q *Queue) Push(s *Settlement) (wasEmpty bool) {
	for {
		head := q.head.Load()
		s.next = head
		if q.head.CompareAndSwap(head, s) {
			return head == nil
		}
	}
}

// Empty reports whether nothing is queued.
func (q *Queue) Empty() bool { return q.head.Load() == nil }

// Take appends everything queued to batch, oldest first, and returns it.
func (q *Queue) Take(batch []*Settlement) []*Settlement {
	from := len(batch)
	for s := q.head.Swap(nil); s != nil; {
		next := s.next
		s.next = nil
		batch = append(batch, s)
		s = next
	}
	for i, j := from, len(batch)-1; i < j; i, j = i+1, j-1 {
		batch[i], batch[j] = batch[j], batch[i]
	}
	return batch
}
