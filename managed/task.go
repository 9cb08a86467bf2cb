package managed

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/lastcall-go/lastcall/coordinator"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
)

// task is a loop of the application that the consumer runs and joins.
type task struct {
	name     string
	consumer *Consumer
	resource *resources.Tracked
	stop     context.CancelCauseFunc // ends the task's own context: finish the item in hand
	cut      context.CancelCauseFunc // ends the item in hand, too
	done     chan struct{}

	mu        sync.Mutex
	abandoned bool
}

// Go runs f as a task: it starts at once, is told to stop when the drain begins (its context is cancelled with
// ErrTaskStopping; see [Work] for the item in hand), joined and reported. A task that returns nil early is terminal and
// succeeded; one that returns an error or panics while no shutdown runs is a fault and starts one. One that is not back at
// the end of the force phase is abandoned. Go does not block, is safe for concurrent use, and returns ErrStopping once a
// shutdown has begun, or an error for an empty or repeated name or a nil f. A consumer with tasks must be ended by Shutdown
// even if it was never started.
func (c *Consumer) Go(name string, f func(ctx context.Context) error) error {
	if f == nil {
		return fmt.Errorf("task %q: the function is nil", name)
	}
	t := &task{name: name, consumer: c, done: make(chan struct{})}
	work, cut := context.WithCancelCause(c.base)
	n := &notice{consumer: c, work: context.WithValue(work, contextKey{}, &notice{consumer: c})}
	ctx, stop := context.WithCancelCause(context.WithValue(work, contextKey{}, n))
	t.stop, t.cut = stop, cut

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return ErrStopping
	}
	res, err := c.registry.Track(name, resources.Task)
	if err != nil {
		return fmt.Errorf("task %q: %w", name, err)
	}
	t.resource = res
	if err := c.coordinator.Register(coordinator.Action{
		Name: "task:" + name, Phase: coordinator.PhaseDrain, Graceful: t.drain, Force: t.force, Revoke: t.abandon,
	}); err != nil {
		res.Drop()
		if errors.Is(err, coordinator.ErrStopping) {
			return ErrStopping
		}
		return fmt.Errorf("task %q: %w", name, err)
	}
	c.tasks = append(c.tasks, t)
	go t.run(ctx, f)
	return nil
}

// run is the task's goroutine, owned by the consumer; only f may outlive the shutdown.
func (t *task) run(ctx context.Context, f func(context.Context) error) {
	var err error
	returned := false
	defer func() {
		at := deadline.Now()
		if !returned {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
				t.resource.EndPanicked(at, v)
			} else {
				err = ErrGoexit
				t.resource.End(at, err)
			}
		} else {
			t.resource.End(at, err)
		}
		t.stop(context.Canceled)
		t.cut(context.Canceled)
		close(t.done)
		if err != nil {
			t.consumer.taskFailed(t, err)
		}
	}()
	err = f(ctx)
	if stopped := context.Cause(ctx); err != nil && stopped != nil && saysOnly(err, stopped, context.Cause(Work(ctx)), context.Canceled) {
		err = nil // it was asked to stop and says so, and nothing else
	}
	returned = true
}

func (t *task) drain(ctx context.Context) error {
	t.resource.Begin(deadline.Now())
	t.stop(ErrTaskStopping)
	return t.wait(ctx)
}

func (t *task) force(ctx context.Context) error {
	t.resource.Begin(deadline.Now())
	t.stop(ErrTaskStopping)
	return t.wait(ctx)
}

func (t *task) wait(ctx context.Context) error { return await(ctx, t.done) }

// abandon records that the task did not come back.
func (t *task) abandon() {
	select {
	case <-t.done:
		return
	default:
	}
	t.mu.Lock()
	t.abandoned = true
	t.mu.Unlock()
	t.consumer.stacks.take()
}

func (c *Consumer) taskFailed(t *task, err error) {
	c.log.Error("task failed", "task", t.name, "error", report.NewError(err).Text)
	c.fault(fmt.Sprintf("task %q failed", t.name), err)
}
