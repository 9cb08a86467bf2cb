package managed

import (
	"sync"
	"sync/atomic"

	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/transport"
)

// subscription is one queue with its workers and its account of deliveries.
//
//	transport reader -> Deliver -> buffer -> worker (handler) -> Submit -> transport writer -> Written -> settling -> Proven -> bucket
//
// The workers share no lock: each has its own. mu guards the account and is taken by the transport's reader once per delivery
// and by its writer once per write.
type subscription struct {
	Subscription
	consumer *Consumer
	link     *link
	notice   notice
	workers  []*worker

	buffer chan *Delivery
	// quit tells the workers to leave, once they have emptied the buffer: what may still start is started, the rest set aside.
	quit   chan struct{}
	joined sync.WaitGroup
	empty  chan struct{} // closes when every worker has left
	// failures counts child start failures in a row.
	failures atomic.Int32
	// revoked closes once the rights of the deliveries that did not come back are gone.
	revoked chan struct{}

	mu        sync.Mutex
	account   sheet
	trigger   *mark
	stream    *stream
	earlier   map[string]*Delivery // by message id: their handlers outlived their session
	held      []heldDelivery       // redeliveries that wait for one of those
	aside     []*Delivery          // taken from the buffer and not startable; they wait for the cancel frame
	begun     bool                 // the workers run
	unmanned  bool                 // no worker is left to start anything
	noStart   bool                 // force was given: nothing starts any more
	sealed    bool
	unsettled unsettledRing
	requeues  map[string]uint64
	panicked  *PanicError // the first one of a handler
	state     subscriptionState
	reason    string
}

// subscriptionState is where a subscription is.
type subscriptionState uint8

const (
	_ subscriptionState = iota
	subscriptionStarting
	subscriptionReady
	subscriptionRecovering
	subscriptionStopping
	subscriptionFailed
)

var subscriptionStates = [...]string{"invalid", "starting", "ready", "recovering", "stopping", "failed"}

func (s subscriptionState) String() string { return subscriptionStates[s] }

// mayStart reports whether d may be started after the gate has closed. sub.mu is held.
func (sub *subscription) mayStart(d *Delivery) bool {
	if sub.noStart {
		return false
	}
	switch sub.Drain {
	case DrainFinishPrefetched:
		return true
	case DrainAuto:
		ts := d.stream.transport // it may learn of it only from the first delivery that has been returned before
		return d.DeliveryCount > 0 && ts != nil && ts.CountsReturns()
	}
	return false
}

// giveBack returns a delivery that was never started.
func (sub *subscription) giveBack(d *Delivery) {
	if sub.Drain == DrainOrdered { // any nack breaks the order: the channel's close gives it back
		sub.mu.Lock()
		sub.aside = append(sub.aside, d)
		sub.mu.Unlock()
		return
	}
	if d.right.use() != rightOpen {
		return // its session ended, which released it
	}
	d.fate = fateHandedBack
	d.settlement.Verb = transport.Requeue
	sub.mu.Lock()
	sub.account.unstarted++
	sub.mu.Unlock()
	d.stream.submit(&d.settlement)
}

// sweep hands back whatever sits in the buffer or aside and cannot start, if the cancel frame has left.
func (sub *subscription) sweep() {
	var keep, back []*Delivery
	sub.mu.Lock()
	take := func(d *Delivery) {
		if !d.stream.handBack || sub.Drain == DrainOrdered {
			keep = append(keep, d)
		} else {
			back = append(back, d)
		}
	}
	for _, d := range sub.aside {
		take(d)
	}
	for _, d := range sub.takeHeld(func(*Delivery) bool { return true }) {
		take(d)
	}
	for range len(sub.buffer) {
		select {
		case d := <-sub.buffer:
			if !sub.unmanned && sub.mayStart(d) {
				sub.buffer <- d // room was just made, and only this goroutine sends while mu is held
				continue
			}
			take(d)
		default:
		}
	}
	sub.aside = keep
	sub.mu.Unlock()
	for _, d := range back {
		sub.giveBack(d)
	}
}

// setAside keeps a delivery that a worker took and must not start until the cancel frame has left.
func (sub *subscription) setAside(d *Delivery) {
	sub.mu.Lock()
	back := d.stream.handBack && sub.Drain != DrainOrdered
	if !back {
		sub.aside = append(sub.aside, d)
	}
	sub.mu.Unlock()
	if back {
		sub.giveBack(d)
	}
}

// startedLocked returns how many handlers were called since the start and how many of them run now. The workers' locks are held.
func (sub *subscription) startedLocked() (started, running uint64) {
	for _, w := range sub.workers {
		started += w.started
		if w.current != nil {
			running++
		}
	}
	return started, running
}

// lockAll takes every lock of the subscription in the one order: workers, then account.
func (sub *subscription) lockAll() {
	for _, w := range sub.workers {
		w.mu.Lock()
	}
	sub.mu.Lock()
}

func (sub *subscription) unlockAll() {
	sub.mu.Unlock()
	for _, w := range sub.workers {
		w.mu.Unlock()
	}
}

// markLocked takes the state at the trigger. All locks are held.
func (sub *subscription) markLocked() {
	m := &mark{sheet: sub.account, state: sub.state}
	m.started, m.running = sub.startedLocked()
	m.buffered = sub.account.received - m.started - sub.account.unstarted
	sub.trigger = m
	if sub.state != subscriptionFailed {
		sub.state = subscriptionStopping
	}
}

// requeueCauses lists the causes of requeues, most frequent first. sub.mu is held.
func (sub *subscription) requeueCauses() []report.RequeueCause {
	out := make([]report.RequeueCause, 0, len(sub.requeues))
	for class, n := range sub.requeues {
		out = append(out, report.RequeueCause{Class: class, Count: n})
	}
	sortRequeueCauses(out)
	return out
}
