package managed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lastcall-go/lastcall/coordinator"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/internal/logq"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
	"github.com/lastcall-go/lastcall/signals"
	"github.com/lastcall-go/lastcall/transport"
)

// Consumer consumes subscriptions, owns resources, and ends in phases under one deadline. Its methods are safe for concurrent
// use.
//
//	New -> Subscribe, Own, Borrow, Go, Use -> Start -> (consuming) -> Shutdown -> ShutdownReport
//	                                            |                        ^
//	                                            +-- failed start --------+   every path ends in one sealed report
type Consumer struct {
	cfg         Config
	budget      deadline.Budget
	grace       deadline.Grace
	planned     time.Duration // the total asked for, if the platform's grace made it smaller; else zero
	base        context.Context
	coordinator *coordinator.Coordinator
	registry    *resources.Registry
	stacks      *stackTaker
	store       *report.Store
	prepared    atomic.Bool // the store's directory is there, or was
	logs        *logq.Queue
	log         *slog.Logger
	forcing     atomic.Pointer[forcing]

	start starting

	mu         sync.Mutex
	stopping   bool
	started    bool
	middleware []func(Handler) Handler
	subs       []*subscription
	links      []*link
	tasks      []*task
	monitor    *signals.Monitor
	runtime    *resources.Tracked
	monitorRes *resources.Tracked

	sealed atomic.Pointer[sealed]
}

// forcing is the force notice: when it was given and when what is not back is abandoned.
type forcing struct{ at, end time.Time }

// sealed is the immutable report with the bytes it will have for ever.
type sealed struct {
	report report.ShutdownReport
	json   []byte
}

// New validates cfg and returns a consumer that has touched nothing: no network, no file, no signal. All problems are
// reported at once, joined. It does not block.
func New(cfg Config) (*Consumer, error) {
	c := &Consumer{cfg: cfg, base: context.Background(), registry: resources.New(), stacks: newStackTaker()}
	c.start.done = make(chan struct{})
	c.fillService()
	problems := negatives(cfg)
	c.grace = deadline.Grace{Granted: cfg.Lifecycle.PlatformGrace, PreStop: cfg.Lifecycle.PlatformPrestop}
	budget, err := deadline.New(deadline.Config{Total: cfg.Lifecycle.ShutdownTimeout, ForceWindow: cfg.Lifecycle.ForceWindow})
	if err != nil {
		problems = append(problems, err)
		budget, _ = deadline.New(deadline.Config{}) // the rest is validated all the same
	} else if c.grace.Granted > 0 && !c.grace.Fits(budget.Total()) {
		c.planned = budget.Total()
		budget, err = deadline.New(deadline.Config{Total: c.grace.Largest(budget.Total()), ForceWindow: cfg.Lifecycle.ForceWindow})
		problems = append(problems, err)
	}
	c.budget = budget
	c.cfg.Reconnect = cfg.Reconnect.complete()
	if cfg.Report.Dir != "" {
		c.store = &report.Store{Dir: cfg.Report.Dir, Keep: cfg.Report.Keep}
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.Default()
	}
	c.logs = logq.New(logger.Handler(), logQueueSize)
	c.log = slog.New(c.logs.Handler())
	c.coordinator, err = coordinator.New(coordinator.Config{
		Budget: budget, Resources: c.registry, OnInitiate: c.initiated, OnForce: c.forced, Withhold: c.withhold,
		OnPhase: c.phaseBegan, Seal: c.seal, Store: c.publish,
	})
	if err != nil {
		return nil, errors.Join(append(problems, err)...)
	}
	problems = append(problems, c.registerOwnActions())
	for _, s := range cfg.Subscriptions {
		problems = append(problems, c.Subscribe(s))
	}
	if err := errors.Join(problems...); err != nil {
		c.logs.Close()
		return nil, err
	}
	return c, nil
}

const logQueueSize = 1024

// negatives reports what must not be negative and is.
func negatives(cfg Config) (problems []error) {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"platform grace", cfg.Lifecycle.PlatformGrace}, {"platform prestop", cfg.Lifecycle.PlatformPrestop}, {"start retry", cfg.StartRetry},
		{"reconnect max", cfg.Reconnect.Max}, {"give up after", cfg.Reconnect.GiveUpAfter},
	} {
		if d.value < 0 {
			problems = append(problems, fmt.Errorf("%s is %s: it must not be negative", d.name, d.value))
		}
	}
	if cfg.Report.Keep < 0 {
		problems = append(problems, fmt.Errorf("report keep is %d: it must not be negative", cfg.Report.Keep))
	}
	return problems
}

func (c *Consumer) fillService() {
	s := &c.cfg.Service
	if s.Name == "" {
		s.Name = filepath.Base(os.Args[0])
	}
	if s.Instance == "" {
		s.Instance, _ = os.Hostname()
	}
	if s.Version == "" {
		if info, ok := debug.ReadBuildInfo(); ok {
			s.Version = info.Main.Version
		}
	}
}

// registerOwnActions registers what the consumer itself does in every shutdown.
func (c *Consumer) registerOwnActions() error {
	return errors.Join(
		c.coordinator.Register(coordinator.Action{Name: "cancel consumers", Phase: coordinator.PhaseCloseAdmission, Graceful: c.cancelled, Force: c.cancelled}),
		c.coordinator.Register(coordinator.Action{Name: "start", Phase: coordinator.PhaseDrain, Graceful: c.start.wait, Force: c.start.wait}),
	)
}

// Own registers a resource that the consumer ends, once, after the last delivery, in reverse order of acquisition. closer is
// an io.Closer, func(), func() error, func(context.Context) error, or has Shutdown(context.Context) error. It is withheld
// while an abandoned handler lives, unless it is resources.Independent. Own does not block and returns ErrStopping once a
// shutdown has begun, or an error for an empty or repeated name or a closer of another type.
func (c *Consumer) Own(name string, kind resources.Kind, closer any, options ...resources.Option) error {
	return stoppingError(c.registry.Own(name, kind, closer, options...))
}

// Borrow names a resource that is used and belongs to someone else: it is never touched, and the report says so. Errors as
// for Own.
func (c *Consumer) Borrow(name string, kind resources.Kind) error {
	return stoppingError(c.registry.Borrow(name, kind))
}

func stoppingError(err error) error {
	if errors.Is(err, resources.ErrStopping) || errors.Is(err, coordinator.ErrStopping) {
		return ErrStopping
	}
	return err
}

// Use wraps every subscription's handler; the first one is outermost. It is legal before Start and returns ErrStarted after.
func (c *Consumer) Use(middleware ...func(Handler) Handler) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started {
		return ErrStarted
	}
	c.middleware = append(c.middleware, middleware...)
	return nil
}

// Subscribe adds a queue with its handler. It is legal before Start, validates everything and touches nothing; it returns
// ErrStarted after Start, ErrStopping once a shutdown has begun, or all problems of s, joined.
func (c *Consumer) Subscribe(s Subscription) error {
	if s.Transport == nil {
		s.Transport = c.cfg.Transport
	}
	if err := c.complete(&s); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return ErrStopping
	}
	if c.started {
		return ErrStarted
	}
	l, err := c.linkFor(s)
	if err != nil {
		return err
	}
	sub := newSubscription(c, l, s)
	if err := c.coordinator.Register(coordinator.Action{
		Name: sub.name(), Phase: coordinator.PhaseDrain, Graceful: sub.drain, Force: sub.force, Revoke: sub.revoke,
	}); err != nil {
		return stoppingError(err)
	}
	if len(l.subs) == 0 {
		if err := c.coordinator.Register(coordinator.Action{
			Name: l.name, Phase: coordinator.PhaseCloseEvidence, Graceful: l.close, Force: l.cut,
		}); err != nil {
			return stoppingError(err)
		}
		c.links = append(c.links, l)
	}
	l.subs = append(l.subs, sub)
	c.subs = append(c.subs, sub)
	return nil
}

// linkFor finds or makes the link of s's transport. c.mu is held.
func (c *Consumer) linkFor(s Subscription) (*link, error) {
	same := 0
	for _, l := range c.links {
		if l.transport == s.Transport {
			for _, other := range l.subs {
				if other.Queue == s.Queue {
					return nil, fmt.Errorf("subscription %q: the queue is subscribed twice; raise Concurrency instead", s.Queue)
				}
			}
			return l, nil
		}
		if l.transport.Kind() == s.Transport.Kind() {
			same++
		}
	}
	name := s.Transport.Kind()
	if same > 0 {
		name = fmt.Sprintf("%s#%d", name, same+1)
	}
	return newLink(c, s.Transport, name), nil
}

// complete validates s and fills in its zeros.
func (c *Consumer) complete(s *Subscription) error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("subscription %q: "+format, append([]any{s.Queue}, args...)...))
	}
	if s.Queue == "" {
		bad("Queue is empty: name the queue to consume")
	}
	if s.Transport == nil {
		bad("no Transport: set it on the subscription or on the Config")
	}
	if s.Handler == nil {
		bad("Handler is nil")
	}
	if s.Concurrency == 0 {
		s.Concurrency = 1
	}
	if s.Prefetch == 0 {
		s.Prefetch = min(max(4*s.Concurrency, 16), maxPrefetch)
	}
	if s.Concurrency < 0 {
		bad("Concurrency is %d: it must be at least 1", s.Concurrency)
	}
	if s.Prefetch < 0 || s.Prefetch > maxPrefetch {
		bad("Prefetch is %d: it must lie between 1 and %d", s.Prefetch, maxPrefetch)
	}
	if s.HandlerTimeout == 0 {
		s.HandlerTimeout = c.budget.Graceful()
	}
	if s.HandlerTimeout < 0 {
		bad("HandlerTimeout is %s: it must not be negative", s.HandlerTimeout)
	}
	if s.RequeueDelay == 0 {
		s.RequeueDelay = defaultRequeueDelay
	}
	if s.RequeueDelay < 0 && s.RequeueDelay != NoRequeueDelay {
		bad("RequeueDelay is %s: it must not be negative; NoRequeueDelay turns it off", s.RequeueDelay)
	}
	if s.MaxBodyBytes < 0 {
		bad("MaxBodyBytes is %d: it must not be negative", s.MaxBodyBytes)
	}
	if s.Drain > DrainOrdered {
		bad("%s is no drain mode", s.Drain)
	}
	if s.OnError > OnErrorReject {
		bad("%s says nothing about errors", s.OnError)
	}
	if s.DuplicateStart > DuplicateStartAllow {
		bad("%s says nothing about duplicates", s.DuplicateStart)
	}
	if s.Declare > transport.DeclareQuorum {
		bad("%s is no declaration", s.Declare)
	}
	if s.DuplicateStart == DuplicateStartDefault {
		s.DuplicateStart = DuplicateStartHold
	}
	if s.Drain == DrainDefault {
		s.Drain = DrainAuto
	}
	if s.OnError == OnErrorDefault {
		s.OnError = OnErrorRequeue
	}
	return errors.Join(problems...)
}

const (
	maxPrefetch         = 65535
	defaultRequeueDelay = time.Second
)

func newSubscription(c *Consumer, l *link, s Subscription) *subscription {
	sub := &subscription{
		Subscription: s, consumer: c, link: l, notice: notice{consumer: c},
		buffer: make(chan *Delivery, s.Prefetch), quit: make(chan struct{}), empty: make(chan struct{}), revoked: make(chan struct{}),
		requeues: make(map[string]uint64), state: subscriptionStarting,
	}
	for i := range s.Concurrency {
		sub.workers = append(sub.workers, newWorker(sub, i))
	}
	return sub
}

func (sub *subscription) name() string {
	if sub.Transport == sub.consumer.cfg.Transport {
		return sub.Queue
	}
	return sub.link.name + "/" + sub.Queue
}
