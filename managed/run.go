package managed

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/lastcall-go/lastcall/coordinator"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
	"github.com/lastcall-go/lastcall/signals"
)

// Main is a whole program: it listens for signals before anything else, builds the consumer, runs setup, consumes until
// something asks it to stop, and leaves the process with the report's exit code. An error from setup is a failed start: what
// is owned by then is closed and reported. A configuration that is not valid exits 78. Main does not return.
func Main(cfg Config, setup func(ctx context.Context, c *Consumer) error) {
	ch, _ := signals.Notify() // never undone: a signal after the report must not end the process in another way
	c, err := New(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, report.Redact(err.Error()))
		os.Exit(exitConfiguration)
	}
	_ = c.run(context.Background(), ch, setup) // the report says it all
	os.Exit(c.ExitCode())
}

const exitConfiguration = 78

// RunConfig says what RunWith listens to and what it runs first.
type RunConfig struct {
	// Signals delivers the process's signals, from signals.Notify. Nil means that RunWith installs its own, which comes later
	// than the first thing in main.
	Signals <-chan os.Signal
	// Setup is run before the start, as Main does it. Nil means none.
	Setup func(ctx context.Context, c *Consumer) error
}

// Run listens for SIGINT, SIGTERM and SIGQUIT, starts the consumer, and returns when it has ended, for whatever reason: a
// signal, Shutdown, a fault, or ctx, whose end is a trigger. It returns nil if the report's success is true, a *StartError if
// it never started, a *ShutdownError otherwise. It is legal once, instead of Start; a second Run, or one after Start, returns
// ErrStarted at once, one after a shutdown ErrStopping.
func (c *Consumer) Run(ctx context.Context) error { return c.RunWith(ctx, RunConfig{}) }

// RunWith is Run with signals and a setup of the caller's; states, blocking and errors are Run's.
func (c *Consumer) RunWith(ctx context.Context, cfg RunConfig) error {
	if cfg.Signals == nil {
		ch, stop := signals.Notify()
		defer stop()
		cfg.Signals = ch
	}
	return c.run(ctx, cfg.Signals, cfg.Setup)
}

func (c *Consumer) run(ctx context.Context, ch <-chan os.Signal, setup func(context.Context, *Consumer) error) error {
	if err := c.start.claim(); err != nil {
		return err
	}
	if err := c.listen(ch); err != nil {
		return err
	}
	started := make(chan error, 1)
	// The start may hang in the application's setup; it is then left behind and named in the report as the action "start".
	go func() { started <- c.startClaimed(context.WithoutCancel(ctx), setup) }()
	select {
	case <-ctx.Done():
		c.coordinator.Initiate(coordinator.Trigger{Kind: report.TriggerContext, Detail: report.NewError(context.Cause(ctx)).Text})
	case err := <-started:
		started <- err
		if err != nil {
			break
		}
		select {
		case <-ctx.Done():
			c.coordinator.Initiate(coordinator.Trigger{Kind: report.TriggerContext, Detail: report.NewError(context.Cause(ctx)).Text})
		case <-c.coordinator.Stopping():
		}
	case <-c.coordinator.Stopping():
	}
	<-c.coordinator.Done()
	if closed(c.start.done) { // it is on its way back, if it is not back yet
		if err := <-started; err != nil && c.result() != nil {
			return err
		}
	}
	return c.result()
}

// listen starts the signal monitor, which listens until the report is sealed.
func (c *Consumer) listen(ch <-chan os.Signal) error {
	m, err := signals.New(signals.Config{Signals: ch, Now: deadline.Now, Second: c.cfg.SecondSignal, Target: signalTarget{c}})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.monitor != nil {
		return ErrStarted
	}
	res, err := c.registry.Track("signals", resources.Monitor)
	if err != nil {
		return err
	}
	c.monitor, c.monitorRes = m, res
	m.Start()
	return nil
}

// signalTarget is the consumer as signals see it.
type signalTarget struct{ c *Consumer }

func (t signalTarget) Graceful(sig os.Signal, at time.Time) signals.Effect {
	return t.done(sig, t.c.coordinator.Initiate(trigger(sig, at)))
}

func (t signalTarget) Force(sig os.Signal, at time.Time) signals.Effect {
	return t.done(sig, t.c.coordinator.Force(trigger(sig, at)))
}

func (t signalTarget) Abandon(sig os.Signal, at time.Time) signals.Effect {
	return t.done(sig, t.c.coordinator.Abandon(trigger(sig, at)))
}

func (t signalTarget) Forced() bool { return t.c.coordinator.Forced() }

func (t signalTarget) Observed(sig os.Signal, at time.Time, e signals.Effect) {
	effect := report.EffectNone
	if e == signals.EffectDuplicate {
		effect = report.EffectDuplicate
	}
	t.c.coordinator.Note(trigger(sig, at), effect)
	t.done(sig, effect)
}

func (t signalTarget) done(sig os.Signal, e report.Effect) signals.Effect {
	t.c.log.Info("signal", "signal", signalName(sig), "effect", string(e))
	switch e {
	case report.EffectGraceful:
		return signals.EffectGraceful
	case report.EffectForce:
		return signals.EffectForce
	case report.EffectAbandon:
		return signals.EffectAbandon
	case report.EffectTooLate:
		return signals.EffectTooLate
	}
	return signals.EffectNone
}

func trigger(sig os.Signal, at time.Time) coordinator.Trigger {
	return coordinator.Trigger{Kind: report.TriggerSignal, Detail: signalName(sig), At: at}
}

func signalName(sig os.Signal) string {
	switch sig {
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGQUIT:
		return "SIGQUIT"
	}
	return strings.ToUpper(sig.String())
}
