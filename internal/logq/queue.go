package logq

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// DefaultSize is the size of a Queue that asks for none: lines, not bytes.
const DefaultSize = 1024

// Queue hands lines to the next handler, in the order in which they were logged, from one goroutine of its own. Its methods
// are safe for concurrent use.
//
// The goroutine is owned by the Queue. It starts with the first line that finds none and ends when all lines are written, so a
// Queue at rest has none and needs no Close.
type Queue struct {
	next slog.Handler

	mu      sync.Mutex
	lines   []line // a ring: line n stands at n % len
	queued  uint64 // lines taken in since New
	written uint64 // lines the next handler is done with; those from here to queued are in the ring
	missing missing
	dropped uint64
	told    uint64 // of the dropped, those that a line in next has told of
	failed  uint64
	writing bool          // the goroutine runs
	closed  bool          // nothing is taken in
	step    chan struct{} // closed at the next progress, if somebody waits for it
	joined  chan struct{}
}

// line is one record with the handler that carries its attributes and groups.
type line struct {
	ctx     context.Context
	next    slog.Handler
	record  slog.Record
	missing missing // what was dropped right before it
}

// missing is a run of dropped lines.
type missing struct {
	count uint64
	last  time.Time  // the instant of the last of them
	level slog.Level // the highest of theirs: what wanted them wants to know of them
}

// New returns a Queue in front of next that holds up to size lines, the one that is being written included. A size of zero
// means DefaultSize; a negative one panics. It starts no goroutine.
//
// next gets each record with the values of its context and without that context's end. What it does with Enabled, WithAttrs
// and WithGroup still happens in the goroutine that logs, and must not block.
func New(next slog.Handler, size int) *Queue {
	if size == 0 {
		size = DefaultSize
	}
	return &Queue{next: next, lines: make([]line, size), joined: make(chan struct{})}
}

// Handler returns the handler that feeds the Queue. It never blocks and never fails. Values are formatted later, in the
// goroutine of the Queue: what is logged by reference must not change any more.
func (q *Queue) Handler() slog.Handler { return handler{q, q.next} }

// Dropped returns how many lines were not taken in: because the Queue was full, or closed.
func (q *Queue) Dropped() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// Failed returns how many lines the next handler did not write: it returned an error, panicked or left its goroutine.
func (q *Queue) Failed() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed
}

// Flush waits until the next handler is done with everything logged so far, the line about dropped ones included, or until
// ctx ends; then it returns ctx's cause. It is legal in every state; after Close it waits for what was queued before.
func (q *Queue) Flush(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	queued, dropped := q.queued, q.dropped
	for q.writing && (q.written < queued || q.told < dropped) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if q.step == nil {
			q.step = make(chan struct{})
		}
		step := q.step
		q.mu.Unlock()
		select {
		case <-step:
		case <-ctx.Done():
		}
		q.mu.Lock()
	}
	return nil
}

// Close takes nothing in from now on; what is logged later is dropped and counted. What is queued is still written. Close does
// not wait for it: Flush does, within a bound, and if the next handler hangs for good, so does the goroutine, which is then
// left behind; see Joined. It is idempotent.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	if !q.writing {
		close(q.joined)
	}
}

// Joined is closed when the Queue is closed and its goroutine has returned.
func (q *Queue) Joined() <-chan struct{} { return q.joined }

// put takes a line in, or counts it as dropped.
func (q *Queue) put(l line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.queued-q.written == uint64(len(q.lines)) {
		q.dropped++
		q.missing.add(l.record)
		return
	}
	l.missing, q.missing = q.missing, missing{}
	q.lines[q.queued%uint64(len(q.lines))] = l
	q.queued++
	if !q.writing {
		q.writing = true
		go q.write()
	}
}

// write is the goroutine of the Queue.
func (q *Queue) write() {
	for {
		l, ok := q.oldest()
		if !ok {
			return
		}
		if l.missing.count > 0 {
			q.hand(line{context.Background(), q.next, l.missing.record(), missing{}}, l.missing.count)
		}
		if l.next != nil {
			q.hand(l, 0)
		}
	}
}

// oldest returns the line to write next; a count of dropped lines that no line follows comes without a handler. If there is
// neither, the goroutine has ended.
func (q *Queue) oldest() (line, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at := &q.lines[q.written%uint64(len(q.lines))]; q.written < q.queued {
		l := *at
		at.missing = missing{}
		return l, true
	}
	if q.missing.count > 0 {
		l := line{missing: q.missing}
		q.missing = missing{}
		return l, true
	}
	q.writing = false
	if q.closed {
		close(q.joined)
	}
	return line{}, false
}

// hand gives one line to its handler, and records that this is over however it ends. told is how many dropped lines it tells
// of; zero means that it is one of the queued lines.
func (q *Queue) hand(l line, told uint64) {
	var ok, returned bool
	defer func() {
		panicked := recover() != nil
		q.done(ok, told)
		if !returned && !panicked {
			go q.write() // the handler called Goexit: this goroutine is lost, the lines are not
		}
	}()
	ok = l.next.Handle(l.ctx, l.record) == nil
	returned = true
}

func (q *Queue) done(ok bool, told uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if told > 0 {
		q.told += told
	} else {
		q.lines[q.written%uint64(len(q.lines))] = line{}
		q.written++
	}
	if !ok {
		q.failed++
	}
	if q.step != nil {
		close(q.step)
		q.step = nil
	}
}

func (m *missing) add(r slog.Record) {
	if m.count == 0 || r.Level > m.level {
		m.level = r.Level
	}
	m.count++
	m.last = r.Time
}

// record is the line that tells of them.
func (m *missing) record() slog.Record {
	r := slog.NewRecord(m.last, m.level, "log lines dropped", 0)
	r.AddAttrs(slog.Uint64("count", m.count))
	return r
}
