package managed

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/lastcall-go/lastcall/coordinator"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
	"github.com/lastcall-go/lastcall/transport"
)

var (
	errStartBudget  = errors.New("lastcall: the start took longer than the shutdown budget")
	errChannelShare = errors.New("lastcall: no time left for the channels")
)

// StartError says why a start failed. What had been started is ended and reported by the time it is returned.
type StartError struct {
	// Detail is the report's word: broker_unavailable, configuration, setup, interrupted.
	Detail string
	Err    error
}

// Error says what failed.
func (e *StartError) Error() string { return "start: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

const (
	detailSetup       = "setup"
	detailInterrupted = "interrupted"
)

// starting is a start in progress. The shutdown waits for it before it closes anything it may have opened.
type starting struct {
	done chan struct{}

	mu      sync.Mutex
	claimed bool
	begun   bool
	over    bool // no start may begin any more
	cancel  context.CancelCauseFunc
}

// claim reserves the one start for the caller.
func (s *starting) claim() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return ErrStopping
	case s.claimed:
		return ErrStarted
	}
	s.claimed = true
	return nil
}

// begin begins the start that was claimed, unless a shutdown has begun.
func (s *starting) begin(ctx context.Context) (context.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, ErrStopping
	}
	s.begun = true
	ctx, s.cancel = context.WithCancelCause(ctx)
	return ctx, nil
}

// interrupt ends a start in progress and lets none begin.
func (s *starting) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.cancel != nil {
		s.cancel(ErrStopping)
	}
}

// wait returns when no start is in progress.
func (s *starting) wait(ctx context.Context) error {
	s.mu.Lock()
	begun := s.begun
	s.mu.Unlock()
	if !begun {
		return nil
	}
	return await(ctx, s.done)
}

// await waits for an event, and returns ctx's cause if that ends before: an event that was there in time is not missed by
// whoever comes late to look.
func await(ctx context.Context, event <-chan struct{}) error {
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		if closed(event) {
			return nil
		}
		return context.Cause(ctx)
	}
}

// Start connects and consumes. It returns nil when every subscription is consuming; otherwise it ends what it had started, in
// reverse and under the shutdown budget, publishes a report and returns a *StartError. When ctx ends during Start the start
// fails; after Start ctx has no meaning. Start is legal once (ErrStarted) and not after a shutdown has begun (ErrStopping).
// It installs no signal handlers; see Run.
func (c *Consumer) Start(ctx context.Context) error {
	if err := c.start.claim(); err != nil {
		return err
	}
	return c.startClaimed(ctx, nil)
}

func (c *Consumer) startClaimed(caller context.Context, setup func(context.Context, *Consumer) error) error {
	ctx, err := c.start.begin(caller)
	if err != nil {
		return err
	}
	err = c.open(ctx, setup)
	if err == nil && context.Cause(ctx) == nil {
		c.log.Info("consuming", "subscriptions", len(c.subs))
		close(c.start.done)
		return nil
	}
	if err == nil {
		err = &StartError{Detail: detailInterrupted, Err: context.Cause(ctx)}
	}
	close(c.start.done)
	failure := c.startFailed(caller, err)
	<-c.coordinator.Done()
	return failure
}

// startFailed begins the shutdown that rolls back, unless one is under way.
func (c *Consumer) startFailed(caller context.Context, err error) *StartError {
	failure, ok := errors.AsType[*StartError](err)
	if !ok {
		failure = &StartError{Detail: startDetail(err), Err: err}
	}
	text := report.NewError(failure.Err).Text
	c.mu.Lock()
	stopping := c.stopping // it is set before a stop interrupts the start, the coordinator's channel closes after
	c.mu.Unlock()
	if stopping {
		if !errors.Is(failure, ErrStopping) {
			failure.Err = errors.Join(ErrStopping, failure.Err)
		}
		failure.Detail = detailInterrupted
		return failure
	}
	trigger := coordinator.Trigger{Kind: report.TriggerStartup, Detail: failure.Detail}
	if caller.Err() != nil {
		trigger = coordinator.Trigger{Kind: report.TriggerContext, Detail: report.NewError(context.Cause(caller)).Text}
	}
	c.log.Error("start failed", "detail", failure.Detail, "error", text)
	c.coordinator.Initiate(trigger)
	return failure
}

func startDetail(err error) string {
	switch kind := transport.KindOf(err); {
	case kind.Configuration():
		return report.StartupConfiguration
	case kind != 0:
		return report.StartupBrokerUnavailable
	}
	return detailSetup
}

// open does what Start promises, in order; it stops at the first failure and leaves the ending to the shutdown.
func (c *Consumer) open(ctx context.Context, setup func(context.Context, *Consumer) error) error {
	if setup != nil {
		if err := guardSetup(ctx, c, setup); err != nil {
			return &StartError{Detail: detailSetup, Err: err}
		}
	}
	c.mu.Lock()
	c.started = true
	subs, links, middleware := c.subs, c.links, c.middleware
	c.mu.Unlock()
	if c.store != nil {
		if err := c.store.Prepare(); err != nil {
			return &StartError{Detail: report.StartupConfiguration, Err: err}
		}
		c.prepared.Store(true)
	}
	if err := c.trackRuntime(); err != nil {
		return err
	}
	ctx, cancel := deadline.Timeout(ctx, c.budget.Total()+c.cfg.StartRetry, errStartBudget)
	defer cancel()
	for _, sub := range subs {
		if err := sub.wrap(middleware); err != nil {
			return &StartError{Detail: detailSetup, Err: err}
		}
	}
	for _, l := range links {
		s, err := c.dialRetrying(ctx, l)
		if err != nil {
			return err
		}
		for _, sub := range l.subs {
			if !sub.begin() {
				return ErrStopping
			}
			if err := s.consume(ctx, sub); err != nil {
				return fmt.Errorf("subscription %q: %w", sub.Queue, err)
			}
		}
	}
	for _, l := range links {
		l.supervise()
	}
	return nil
}

// wrap applies the middleware, the first one outermost; a panic in it is a failed start.
func (sub *subscription) wrap(middleware []func(Handler) Handler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	for _, around := range slices.Backward(middleware) {
		if sub.Handler = around(sub.Handler); sub.Handler == nil {
			return fmt.Errorf("subscription %q: a middleware returned a nil Handler", sub.Queue)
		}
	}
	return nil
}

// guardSetup runs the application's setup; a panic or Goexit in it is a failed start.
func guardSetup(ctx context.Context, c *Consumer, setup func(context.Context, *Consumer) error) error {
	back := make(chan resources.Returned, 1)
	resources.Call(func() error { return setup(ctx, c) }, func(r resources.Returned) { back <- r })
	return (<-back).Err
}

// dialRetrying dials, and for StartRetry again as long as the broker is only unavailable.
func (c *Consumer) dialRetrying(ctx context.Context, l *link) (*session, error) {
	until := deadline.Now().Add(c.cfg.StartRetry)
	wait := startBackoff
	for {
		s, err := l.dial(ctx)
		if err == nil || transport.KindOf(err) != transport.KindUnavailable || deadline.Until(until) <= 0 {
			return s, err
		}
		c.log.Warn("broker unavailable, trying again", "transport", l.name, "error", report.NewError(err).Text, "in", wait)
		if stopped := deadline.Sleep(ctx, min(wait, deadline.Until(until))); stopped != nil {
			return nil, errors.Join(err, stopped)
		}
		wait = min(2*wait, maxStartBackoff)
	}
}

const (
	startBackoff    = 100 * time.Millisecond
	maxStartBackoff = 5 * time.Second
)

// trackRuntime registers Lastcall's own goroutines as a resource.
func (c *Consumer) trackRuntime() error {
	res, err := c.registry.Track("lastcall", resources.Runtime)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.runtime = res
	c.mu.Unlock()
	return nil
}

// begin starts the workers, unless a shutdown has begun.
func (sub *subscription) begin() bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.state != subscriptionStarting || sub.begun {
		return false
	}
	sub.begun = true
	sub.joined.Add(len(sub.workers))
	for _, w := range sub.workers {
		go w.run()
	}
	go sub.watch()
	return true
}
