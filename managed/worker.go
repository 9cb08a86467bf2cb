package managed

import (
	"context"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/transport"
)

// worker runs one handler at a time. Its lock is the subscription's admission gate for this slot: checking the gate and
// becoming a started delivery are one step under it, and whoever closes the gate holds the locks of all workers.
type worker struct {
	sub    *subscription
	slot   int
	labels context.Context
	times  histogram
	left   chan struct{} // closes when its goroutine is about to end

	mu        sync.Mutex
	closed    bool // the gate
	abandoned bool // its handler did not come back in time
	current   *Delivery
	started   uint64
	timer     *time.Timer
	armed     bool
}

// Labels by which a worker's goroutine, and those its handler starts, are found among all stacks.
const (
	labelQueue = "lastcall_queue"
	labelSlot  = "lastcall_slot"
)

// run is the worker's goroutine: owned by the subscription, ended by quit.
func (w *worker) run() {
	pprof.SetGoroutineLabels(w.labels)
	left := false
	defer func() {
		if !left { // the handler left its goroutine with runtime.Goexit; another one goes on in its place
			w.goexit()
			go w.run()
			return
		}
		close(w.left)
		w.sub.joined.Done()
	}()
	for {
		select {
		case d := <-w.sub.buffer:
			w.take(d)
		case <-w.sub.quit:
			w.rest()
			w.disarm()
			left = true
			return
		}
	}
}

// rest starts what may still start after the gate has closed.
func (w *worker) rest() {
	for {
		select {
		case d := <-w.sub.buffer:
			w.take(d)
		default:
			return
		}
	}
}

// take admits a delivery and runs its handler.
func (w *worker) take(d *Delivery) {
	if !w.admit(d) {
		return
	}
	if limit := w.sub.MaxBodyBytes; limit > 0 && len(d.Body) > limit {
		w.finish(d, Reject(&BodySizeError{Size: len(d.Body), Limit: limit}))
		return
	}
	w.finish(d, w.call(d))
}

func (w *worker) admit(d *Delivery) bool {
	now := deadline.Now()
	w.mu.Lock()
	if d.stream.over.Load() {
		w.mu.Unlock()
		w.sub.mu.Lock()
		d.stream.releaseOne(d)
		w.sub.mu.Unlock()
		return false
	}
	if w.closed && !w.sub.startable(d) {
		w.mu.Unlock()
		w.sub.setAside(d)
		return false
	}
	d.started = now
	d.limits = deadline.ForDelivery(now, w.sub.HandlerTimeout)
	d.ctx.until = d.limits.Notice
	w.current = d
	w.started++
	if !w.armed {
		w.arm(d.limits.Notice.Sub(now))
	}
	w.mu.Unlock()
	return true
}

func (sub *subscription) startable(d *Delivery) bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.mayStart(d)
}

// arm sets the worker's one timer. It is left running from delivery to delivery: each notice is later than the last, so that
// it fires at most once per handler timeout. w.mu is held.
func (w *worker) arm(in time.Duration) {
	w.armed = true
	if w.timer == nil {
		w.timer = deadline.AfterFunc(in, w.timeout)
		return
	}
	w.timer.Reset(in)
}

// disarm stops the timer when the worker leaves.
func (w *worker) disarm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}

// timeout gives the notice to a handler that has used up its time.
func (w *worker) timeout() {
	w.mu.Lock()
	w.armed = false
	d := w.current
	if d == nil {
		w.mu.Unlock()
		return
	}
	if left := deadline.Until(d.limits.Notice); left > 0 {
		w.arm(left)
		w.mu.Unlock()
		return
	}
	w.mu.Unlock()
	d.ctx.end(ErrDeliveryTimeout)
}

// call runs the handler; a panic is an outcome.
func (w *worker) call(d *Delivery) (out Outcome) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			out = Outcome{VerdictError, &PanicError{Value: v, Stack: debug.Stack()}}
		}
	}()
	out = w.sub.Handler(&d.ctx, d)
	returned = true
	return out
}

// goexit settles the delivery whose handler ended its goroutine.
func (w *worker) goexit() {
	w.mu.Lock()
	d := w.current
	w.mu.Unlock()
	if d != nil {
		w.finish(d, Outcome{VerdictError, ErrGoexit})
	}
}

// finish settles a delivery whose handler has come back.
func (w *worker) finish(d *Delivery, out Outcome) {
	ended := deadline.Now()
	d.ctx.release()
	sub := w.sub
	verb, fate, delay := sub.judge(d, &out)
	if delay > 0 {
		sub.pause(d, delay)
	}
	was := d.right.use()
	if was == rightRevoked {
		sub.mu.Lock()
		sub.account.lateResults++
		sub.mu.Unlock()
		sub.forget(d)
		w.clear(d)
		return
	}
	d.ended = ended
	d.fate = fate
	w.times.add(ended.Sub(d.started))
	if out.cause != nil || fate != fateAcked {
		sub.note(d, out, fate)
	} else if sub.failures.Load() != 0 {
		sub.failures.Store(0)
	}
	w.clear(d)
	if was == rightLost {
		sub.mu.Lock()
		d.stream.lost(d)
		sub.mu.Unlock()
		sub.forget(d)
		return
	}
	d.settlement.Verb = verb
	d.stream.submit(&d.settlement)
}

func (w *worker) clear(d *Delivery) {
	w.mu.Lock()
	if w.current == d {
		w.current = nil
	}
	w.mu.Unlock()
}

// lost places a delivery whose handler came back after its session had ended. sub.mu is held.
func (s *stream) lost(d *Delivery) {
	if s.sub.sealed {
		return
	}
	if d.fate != fateInterrupted {
		s.sub.account.lateResults++
	}
	s.unproven(d, "none")
}

// judge turns an outcome into the verb to send and the fate it leads to.
func (sub *subscription) judge(d *Delivery, out *Outcome) (transport.Verb, fate, time.Duration) {
	notice := d.ctx.reason()
	if notice != nil && notice != ErrDeliveryTimeout && out.empty(notice) {
		return transport.Requeue, fateInterrupted, 0
	}
	switch out.verdict {
	case VerdictAck:
		return transport.Ack, fateAcked, 0
	case VerdictRequeue:
		return transport.Requeue, fateRequeued, sub.delay(out.cause)
	case VerdictReject:
		return transport.Reject, fateRejected, 0
	case VerdictError:
	default:
		*out = Outcome{VerdictError, errNoOutcome}
	}
	if sub.OnError == OnErrorReject {
		return transport.Reject, fateRejected, 0
	}
	return transport.Requeue, fateRequeued, sub.delay(out.cause)
}

// empty reports whether the outcome says nothing after the notice: the zero Outcome, or an error that is only the notice
// coming back, wrapped in Permanent as well.
func (o Outcome) empty(notice error) bool {
	if o.verdict == 0 {
		return true
	}
	if o.verdict == VerdictAck || o.cause == nil {
		return false
	}
	return inspect(o.cause, notice).empty
}

// delay is how long a requeue waits: only one that has an error behind it.
func (sub *subscription) delay(cause error) time.Duration {
	if cause == nil {
		return 0
	}
	return max(sub.RequeueDelay, 0)
}

// pause keeps a failed delivery in its slot, so that a poison message is no hot loop. A stop or the end of its session ends it.
func (sub *subscription) pause(d *Delivery, delay time.Duration) {
	t := deadline.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-sub.consumer.coordinator.Stopping():
	case <-d.stream.session.done:
	}
}

// note counts what is out of the ordinary about an outcome.
func (sub *subscription) note(d *Delivery, out Outcome, f fate) {
	c := inspect(out.cause, nil)
	d.detail = c.text

	sub.mu.Lock()
	if c.panicked != nil {
		sub.account.panics++
		if sub.panicked == nil {
			sub.panicked = c.panicked
		}
	}
	if c.malformed {
		sub.account.malformed++
	}
	if out.cause == errNoOutcome {
		sub.account.noOutcome++
	}
	if f == fateRequeued || f == fateInterrupted {
		if _, known := sub.requeues[c.class]; known || len(sub.requeues) < maxRequeueClasses {
			sub.requeues[c.class]++
		} else {
			sub.requeues["other"]++
		}
	}
	sub.mu.Unlock()
	if c.unborn {
		if sub.failures.Add(1) == maxStartFailures {
			sub.consumer.fault(fmt.Sprintf("%q: its handler could not be started %d times in a row", sub.Queue, maxStartFailures), out.cause)
		}
	} else {
		sub.failures.Store(0)
	}

	if c.panicked != nil {
		sub.consumer.log.Error("handler panicked", "queue", d.Queue, "delivery_tag", d.Tag, "message_id", report.Redact(d.MessageID),
			"panic", d.detail, "stack", report.RedactLines(string(c.panicked.Stack), maxStackText))
	}
}

const (
	maxRequeueClasses = 32
	maxStackText      = 8 << 10 // bytes of a panic's stack in the log
	maxStartFailures  = 5
)

func newWorker(sub *subscription, slot int) *worker {
	return &worker{sub: sub, slot: slot, left: make(chan struct{}),
		labels: pprof.WithLabels(context.Background(), pprof.Labels(labelQueue, sub.Queue, labelSlot, strconv.Itoa(slot)))}
}
