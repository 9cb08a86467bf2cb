package managed

import (
	"context"
	"fmt"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
)

// AbandonedError says how many handlers of a subscription did not come back.
type AbandonedError struct {
	Name  string // the queue
	Count int    // handlers
}

// Error names what was abandoned.
func (e *AbandonedError) Error() string {
	return fmt.Sprintf("%q: %d did not come back and was abandoned", e.Name, e.Count)
}

// cancel asks the broker for no more deliveries; the close_admission half of the subscription.
func (sub *subscription) cancel() {
	sub.mu.Lock()
	s := sub.stream
	sub.mu.Unlock()
	if s == nil {
		return
	}
	if sub.Drain == DrainOrdered {
		s.cancelWritten() // nothing is cancelled and nothing nacked: there is no frame to wait for
		return
	}
	sub.mu.Lock()
	ts := s.transport
	sub.mu.Unlock()
	if ts != nil {
		ts.Cancel()
	}
}

// drain lets started deliveries finish and is the graceful half of the subscription. It never waits for cancel-ok.
func (sub *subscription) drain(ctx context.Context) error {
	sub.mu.Lock()
	s := sub.stream
	sub.mu.Unlock()
	if s != nil {
		in := sub.consumer.coordinator.Root().Instants()
		patience := deadline.NewTimer(min(in.Reserve/8, in.Graceful.Sub(in.Start)/8))
		select {
		case <-s.cancelled:
		case <-patience.C: // a link that takes no bytes: what is buffered goes back with its session
		case <-ctx.Done():
		}
		patience.Stop()
	}
	sub.leave()
	return await(ctx, sub.empty)
}

// leave tells the workers to go once nothing that may start is left.
func (sub *subscription) leave() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	select {
	case <-sub.quit:
	default:
		close(sub.quit)
	}
}

// watch closes empty when every worker has left, and hands back what came too late for them. It is owned by the consumer and
// ends with the workers.
func (sub *subscription) watch() {
	sub.joined.Wait()
	sub.mu.Lock()
	sub.unmanned = true
	sub.mu.Unlock()
	sub.sweep()
	close(sub.empty)
}

// stopStarting ends the finishing of prefetched deliveries: force was given.
func (sub *subscription) stopStarting() {
	sub.mu.Lock()
	sub.noStart = true
	sub.mu.Unlock()
	sub.sweep()
	sub.leave()
}

// interrupt gives the notice to every running handler.
func (sub *subscription) interrupt(cause error) {
	for _, w := range sub.workers {
		w.mu.Lock()
		d := w.current
		w.mu.Unlock()
		if d != nil {
			d.ctx.end(cause)
		}
	}
}

// force waits for what the notice brings back; the force half of the subscription.
func (sub *subscription) force(ctx context.Context) error {
	sub.leave()
	// Whoever still runs by then will hardly come back. Its stack is taken now, since that may take longer than what is left after
	// the rights are revoked.
	early := deadline.NewTimer(sub.untilStacks())
	defer early.Stop()
	select {
	case <-sub.empty:
		return nil
	case <-early.C:
		sub.consumer.stacks.take()
	case <-ctx.Done():
	}
	select {
	case <-sub.empty:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-sub.empty:
	case <-sub.revoked:
	}
	sub.landed(context.WithoutCancel(ctx)) // the close must not overtake what came back at the last moment
	sub.mu.Lock()
	n := int(sub.account.abandoned)
	sub.mu.Unlock()
	if n > 0 {
		return &AbandonedError{Name: sub.Queue, Count: n}
	}
	return nil
}

// untilStacks is how long a handler that was told to come back has until its stack is taken: as long as a child has until it is
// killed.
func (sub *subscription) untilStacks() time.Duration {
	f := sub.consumer.forcing.Load()
	if f == nil {
		return 0
	}
	return deadline.Until(deadline.KillAt(f.at, f.end))
}

// landed waits until every worker whose handler was not abandoned has settled and left; false if ctx ended before.
func (sub *subscription) landed(ctx context.Context) bool {
	for _, w := range sub.workers {
		w.mu.Lock()
		abandoned := w.abandoned
		w.mu.Unlock()
		if abandoned {
			continue
		}
		select {
		case <-w.left:
		case <-sub.empty:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// revoke ends the rights of the deliveries that did not come back, and only then calls them abandoned.
func (sub *subscription) revoke() {
	now := deadline.Now()
	sub.lockAll()
	defer sub.unlockAll()
	if closed(sub.revoked) {
		return
	}
	defer close(sub.revoked)
	for _, w := range sub.workers {
		d := w.current
		if d == nil || !d.right.revoke() {
			continue
		}
		w.abandoned = true
		d.ended, d.detail = now, "handler did not return"
		sub.account.abandoned++
		sub.unsettled.add(d, report.BucketAbandoned, "none")
	}
	if sub.account.abandoned > 0 {
		sub.consumer.stacks.take()
	}
}

// settleRest places what is left when the report is sealed, so that every delivery has its one place. All that could be
// observed has been; whatever is still in flight here was never proven.
func (sub *subscription) settleRest() {
	sub.revoke()
	sub.lockAll()
	defer sub.unlockAll()
	if s := sub.stream; s != nil {
		s.release()
		for s.settling.len() > 0 {
			s.unproven(s.settling.pop(), "written")
		}
	}
	if rest := sub.account.received - sub.account.placed(); rest > 0 { // handed to a transport that never said what became of them
		sub.account.unresolved += rest
		sub.unsettled.omitted += int(rest)
	}
	sub.sealed = true
}
