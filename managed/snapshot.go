package managed

import (
	"strconv"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
)

// Lifecycle states of a Snapshot.
const (
	StateStarting   = "starting"
	StateReady      = "ready"
	StateRecovering = "recovering"
	StateDraining   = "draining"
	StateStopped    = "stopped"
	StateFailed     = "failed"
)

// Snapshot is what the consumer looks like now. It is plain data.
type Snapshot struct {
	Lifecycle     string                 `json:"lifecycle"`
	Phase         string                 `json:"phase"` // empty while no shutdown runs
	Live          bool                   `json:"live"`
	Ready         bool                   `json:"ready"`
	NotReady      string                 `json:"not_ready"` // why not; empty when ready
	Subscriptions []SubscriptionSnapshot `json:"subscriptions"`
	Overdue       []OverdueHandler       `json:"overdue"`
	Shutdown      ShutdownSnapshot       `json:"shutdown"`
}

// SubscriptionSnapshot is one subscription's part of a Snapshot.
type SubscriptionSnapshot struct {
	Queue    string       `json:"queue"`
	State    string       `json:"state"`
	Reason   string       `json:"reason"`
	Started  int          `json:"started"`  // handlers running now
	Buffered int          `json:"buffered"` // received and waiting
	Sheet    report.Sheet `json:"sheet"`
}

// OverdueHandler is a handler that has outlived its timeout and still holds its slot.
type OverdueHandler struct {
	Queue       string        `json:"queue"`
	Slot        int           `json:"slot"`
	DeliveryTag string        `json:"delivery_tag"`
	MessageID   string        `json:"message_id"`
	Running     time.Duration `json:"running_ns"`
}

// ShutdownSnapshot says how far the shutdown is.
type ShutdownSnapshot struct {
	Requested bool `json:"requested"`
	Forced    bool `json:"forced"`
	Completed bool `json:"completed"`
}

// Snapshot returns the state now. It does not block on the broker and is cheap enough for a probe.
func (c *Consumer) Snapshot() Snapshot {
	now := deadline.Now()
	c.mu.Lock()
	started, subs := c.started, c.subs
	c.mu.Unlock()
	s := Snapshot{Live: true, Subscriptions: []SubscriptionSnapshot{}, Overdue: []OverdueHandler{}}
	notReady := ""
	for _, sub := range subs {
		part := sub.snapshot(now, &s.Overdue)
		if part.State != subscriptionReady.String() && notReady == "" {
			notReady = "subscription " + strconv.Quote(sub.Queue) + " is " + part.State
			if part.Reason != "" {
				notReady += ": " + part.Reason
			}
		}
		s.Subscriptions = append(s.Subscriptions, part)
	}
	s.Shutdown = ShutdownSnapshot{Requested: closed(c.coordinator.Stopping()), Forced: c.forcing.Load() != nil, Completed: closed(c.coordinator.Done())}
	switch {
	case s.Shutdown.Completed:
		s.Lifecycle, s.NotReady, s.Live = StateStopped, "stopped", false
		if done := c.sealed.Load(); done == nil || !done.report.Success {
			s.Lifecycle = StateFailed
		}
	case s.Shutdown.Requested:
		s.Lifecycle, s.NotReady, s.Phase = StateDraining, "shutting down", c.coordinator.Phase().String()
	case !started || !closed(c.start.done):
		s.Lifecycle, s.NotReady = StateStarting, "starting"
	case notReady != "":
		s.Lifecycle, s.NotReady = StateRecovering, notReady
	default:
		s.Lifecycle, s.Ready = StateReady, true
	}
	return s
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (sub *subscription) snapshot(now time.Time, overdue *[]OverdueHandler) SubscriptionSnapshot {
	sub.lockAll()
	defer sub.unlockAll()
	started, running := sub.startedLocked()
	for _, w := range sub.workers {
		if d := w.current; d != nil && now.After(d.limits.Hard) {
			*overdue = append(*overdue, OverdueHandler{Queue: sub.Queue, Slot: w.slot, DeliveryTag: strconv.FormatUint(d.Tag, 10),
				MessageID: report.Redact(d.MessageID), Running: now.Sub(d.started)})
		}
	}
	buffered := int(sub.account.received - started - sub.account.unstarted)
	return SubscriptionSnapshot{Queue: sub.Queue, State: sub.state.String(), Reason: sub.reason, Started: int(running),
		Buffered: buffered, Sheet: sub.account.report(started)}
}
