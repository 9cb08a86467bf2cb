package managed_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/managed/managedtest"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
)

type flags struct{ Owned, Started, Terminal, Succeeded bool }

func flagsOf(d report.ShutdownReport, names ...string) map[string]flags {
	out := make(map[string]flags)
	for _, r := range d.Resources {
		if slices.Contains(names, r.Name) {
			out[r.Name] = flags{r.Owned, r.Started, r.Terminal, r.Succeeded}
		}
	}
	return out
}

// A closer that hangs between two good ones takes neither their time nor their order.
func TestHungCloser(t *testing.T) {
	for name, tc := range map[string]struct {
		options []resources.Option
		want    verdict
		finding string
	}{
		"counts":   {want: verdict{Completion: report.Incomplete, Code: 1}, finding: report.CodeResourceHung},
		"advisory": {options: []resources.Option{resources.Advisory()}, want: verdict{Completion: report.GracefulCompleted}, finding: report.CodeAdvisoryFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := managedtest.New(t, managed.Config{Lifecycle: budget(4 * time.Second),
					Subscriptions: []managed.Subscription{{Queue: "q", Handler: returns(managed.Ack)}}})
				release := make(chan struct{})
				defer close(release)
				var order []string
				own := func(name string, closer any, options ...resources.Option) {
					if err := h.Consumer.Own(name, resources.Pool, closer, options...); err != nil {
						t.Fatal(err)
					}
				}
				own("first", func() { order = append(order, "first") })
				own("hung", func() { <-release }, tc.options...)
				own("third", func(context.Context) error { order = append(order, "third"); return nil })
				h.Start()
				begin := time.Now()
				h.Stop()
				if took := time.Since(begin); took > 4*time.Second {
					t.Errorf("took %s", took)
				}
				got, d := verdictOf(t, h)
				want(t, got, tc.want)
				good := flags{true, true, true, true}
				if diff := cmp.Diff(map[string]flags{"first": good, "hung": {true, true, false, false}, "third": good}, flagsOf(d, "first", "hung", "third")); diff != "" {
					t.Errorf("flags (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]string{"third", "first"}, order); diff != "" {
					t.Errorf("order: %s", diff)
				}
				if !hasFinding(d, tc.finding) {
					t.Errorf("findings %+v", d.Findings)
				}
			})
		})
	}
}

func TestCloserErrorAndPanic(t *testing.T) {
	for name, tc := range map[string]struct {
		closer any
		want   verdict
	}{
		"error": {func() error { return errors.New("not flushed") }, verdict{Completion: report.Failed, Code: 1}},
		"panic": {func() { panic("close of closed channel") }, verdict{Completion: report.Failed, Code: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := managedtest.New(t, managed.Config{Subscriptions: []managed.Subscription{{Queue: "q", Handler: returns(managed.Ack)}}})
				if err := h.Consumer.Own("pool", resources.Pool, tc.closer); err != nil {
					t.Fatal(err)
				}
				h.Start()
				h.Stop()
				got, _ := verdictOf(t, h)
				want(t, got, tc.want)
			})
		})
	}
}

func TestTasks(t *testing.T) {
	errBroken := errors.New("broken")
	var release chan struct{}
	for name, tc := range map[string]struct {
		task  func(ctx context.Context) error
		stop  bool
		want  verdict
		flags flags
		kind  report.TriggerKind
	}{
		"stops when told": {task: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, stop: true,
			want: verdict{Completion: report.GracefulCompleted}, flags: flags{true, true, true, true}, kind: report.TriggerAPI},
		"finishes the item in hand": {task: func(ctx context.Context) error {
			<-ctx.Done()
			select {
			case <-time.After(time.Second):
				return nil
			case <-managed.Work(ctx).Done():
				return errBroken
			}
		}, stop: true, want: verdict{Completion: report.GracefulCompleted}, flags: flags{true, true, true, true}, kind: report.TriggerAPI},
		"returns early": {task: func(context.Context) error { return nil }, stop: true,
			want: verdict{Completion: report.GracefulCompleted}, flags: flags{true, true, true, true}, kind: report.TriggerAPI},
		"fails": {task: func(context.Context) error { return errBroken },
			want: verdict{Completion: report.Failed, Code: 1}, flags: flags{true, true, true, false}, kind: report.TriggerFault},
		"panics": {task: func(context.Context) error { panic("no") },
			want: verdict{Completion: report.Failed, Code: 2}, flags: flags{true, true, true, false}, kind: report.TriggerFault},
		"comes back at the force notice": {task: func(ctx context.Context) error { <-managed.Work(ctx).Done(); return nil }, stop: true,
			want: verdict{Completion: report.ForcedCompleted, Code: 3}, flags: flags{true, true, true, true}, kind: report.TriggerAPI},
		"does not come back": {task: func(context.Context) error { <-release; return nil }, stop: true,
			want: verdict{Completion: report.Incomplete, Code: 3}, flags: flags{true, true, false, false}, kind: report.TriggerAPI},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := managedtest.New(t, managed.Config{Lifecycle: budget(4 * time.Second),
					Subscriptions: []managed.Subscription{{Queue: "q", Handler: returns(managed.Ack)}}})
				release = make(chan struct{})
				defer close(release)
				h.Start()
				if err := h.Consumer.Go("loop", tc.task); err != nil {
					t.Fatal(err)
				}
				if tc.stop {
					h.Stop()
				}
				<-h.Consumer.Done()
				got, d := verdictOf(t, h)
				want(t, got, tc.want)
				if diff := cmp.Diff(tc.flags, flagsOf(d, "loop")["loop"]); diff != "" {
					t.Errorf("flags (-want +got):\n%s", diff)
				}
				if d.Trigger.Kind != tc.kind {
					t.Errorf("trigger %+v", d.Trigger)
				}
				if err := h.Consumer.Go("late", tc.task); err != managed.ErrStopping {
					t.Errorf("Go after the stop: %v", err)
				}
			})
		})
	}
}
