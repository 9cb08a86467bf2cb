package resources_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
)

const (
	us  = time.Microsecond
	sec = time.Second
)

// anchor starts a shutdown of total now.
func anchor(t *testing.T, total time.Duration) *deadline.Root {
	t.Helper()
	b, err := deadline.New(deadline.Config{Total: total})
	must(t, err)
	return b.Anchor(deadline.Now())
}

// disposed is a Disposal as the tests compare it: instants relative to the start, errors by identity.
type disposed struct {
	Name     string
	Began    time.Duration
	Elapsed  time.Duration
	Outcome  report.GracefulOutcome
	Forced   report.ForcedOutcome
	Err      error
	Panicked bool
}

func relative(start time.Time, rows []resources.Disposal) []disposed {
	var got []disposed
	for _, d := range rows {
		r := disposed{d.Name, -1, d.Elapsed, d.Outcome, d.Forced, d.Err, d.Panicked}
		if !d.Began.IsZero() {
			r.Began = d.Began.Sub(start)
		}
		got = append(got, r)
	}
	return got
}

func diffDisposed(want, got []disposed) string { return cmp.Diff(want, got, cmpopts.EquateErrors()) }

func done(name string, began, elapsed time.Duration) disposed {
	return disposed{Name: name, Began: began, Elapsed: elapsed, Outcome: report.GracefulDone, Forced: report.ForcedNotNeeded}
}

func notStarted(name string) disposed {
	return disposed{Name: name, Began: -1, Outcome: report.GracefulNotStarted, Forced: report.ForcedUnavailable}
}

func TestDisposeCallsEveryKindOfCloserOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		var quiet, shut int
		file := &pointerCloser{}
		note := func(name string) func() { return func() { order = append(order, name) } }
		r := resources.New()
		must(t, r.Own("file", resources.Other, file))
		must(t, r.Own("quiet", resources.Other, quietCloser{&quiet}))
		must(t, r.Own("server", resources.Other, server{&shut}))
		must(t, r.Borrow("borrowed", resources.Pool))
		if _, err := r.Track("tracked", resources.Connection); err != nil {
			t.Fatal(err)
		}
		must(t, r.Own("cancel", resources.Other, context.CancelFunc(note("cancel"))))
		must(t, r.Own("otel", resources.Provider, func() error { note("otel")(); return nil }, resources.Telemetry()))
		must(t, r.Own("func", resources.Other, func(ctx context.Context) error { note("func")(); return ctx.Err() }))

		start := deadline.Now()
		got := relative(start, r.Dispose(t.Context(), resources.Plan{Root: anchor(t, sec)}))
		want := []disposed{done("func", 0, 0), done("cancel", 0, 0), done("server", 0, 0), done("quiet", 0, 0), done("file", 0, 0), done("otel", 0, 0)}
		if diff := diffDisposed(want, got); diff != "" {
			t.Errorf("disposals (-want +got):\n%s", diff)
		}
		if again := r.Dispose(t.Context(), resources.Plan{Root: anchor(t, sec)}); again != nil {
			t.Errorf("the second disposal did something: %+v", again)
		}
		if diff := cmp.Diff([]string{"func", "cancel", "otel"}, order); diff != "" || file.closed != 1 || quiet != 1 || shut != 1 {
			t.Errorf("closed %v, file %d times, quiet %d, server %d", order, file.closed, quiet, shut)
		}
		if err := r.Own("late", resources.Other, func() {}); !errors.Is(err, resources.ErrStopping) {
			t.Errorf("Own after the disposal: %v, want %v", err, resources.ErrStopping)
		}
	})
}

func TestConcurrentDisposalsCloseOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := resources.New()
		file := &pointerCloser{}
		must(t, r.Own("file", resources.Other, file))
		root := anchor(t, sec)
		var rows [8][]resources.Disposal
		var wg sync.WaitGroup
		for i := range rows {
			wg.Go(func() { rows[i] = r.Dispose(t.Context(), resources.Plan{Root: root}) })
		}
		wg.Wait()
		n := 0
		for _, each := range rows {
			n += len(each)
		}
		if file.closed != 1 || n != 1 {
			t.Errorf("closed %d times, %d rows; want once each", file.closed, n)
		}
	})
}

// TestDisposeTellsApart: each way in which a closer may end, or not, at its exact instants; 30 s have 2 s of reserve.
func TestDisposeTellsApart(t *testing.T) {
	for name, tc := range map[string]struct {
		closer any
		opts   []resources.Option
		want   disposed
		row    report.Resource
	}{
		"completed": {
			closer: func() { time.Sleep(sec) },
			want:   done("x", 0, sec),
			row: report.Resource{Started: true, Terminal: true, Succeeded: true, ElapsedUS: 1000000,
				Evidence: []report.Evidence{{Kind: "returned", TUS: 1000000}}},
		},
		"failed": {
			closer: func() error { time.Sleep(sec); return errIO },
			want:   disposed{"x", 0, sec, report.GracefulFailed, report.ForcedNotNeeded, errIO, false},
			row: report.Resource{Started: true, Terminal: true, ElapsedUS: 1000000, Error: failure("*errors.errorString", "the disk is full"),
				Evidence: []report.Evidence{{Kind: "returned", TUS: 1000000}}},
		},
		"panicked": {
			closer: func() { time.Sleep(sec); panic(errIO) },
			want:   disposed{"x", 0, sec, report.GracefulPanicked, report.ForcedNotNeeded, errIO, true},
			row: report.Resource{Started: true, Terminal: true, Panicked: true, ElapsedUS: 1000000, Error: failure("*errors.errorString", ""),
				Evidence: []report.Evidence{{Kind: "panicked", TUS: 1000000}}},
		},
		"left by Goexit": {
			closer: func() { runtime.Goexit() },
			want:   disposed{"x", 0, 0, report.GracefulFailed, report.ForcedNotNeeded, resources.ErrGoexit, false},
			row: report.Resource{Started: true, Terminal: true, Error: failure("resources.ErrGoexit", "it left its goroutine with runtime.Goexit"),
				Evidence: []report.Evidence{{Kind: "goexit"}}},
		},
		"obeyed its context": {
			closer: func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
			want:   disposed{"x", 0, 5*sec - 10*ms, report.GracefulTimedOut, report.ForcedUnavailable, resources.ErrOverran, false},
			row: report.Resource{Started: true, Terminal: true, ElapsedUS: 4990000, Error: failure("resources.ErrOverran", "the closer has used up its time"),
				Evidence: []report.Evidence{{Kind: "returned", TUS: 4990000}}},
		},
		"ended in its last moment": {
			closer: func(ctx context.Context) error { <-ctx.Done(); return nil },
			want:   done("x", 0, 5*sec-10*ms),
			row: report.Resource{Started: true, Terminal: true, Succeeded: true, ElapsedUS: 4990000,
				Evidence: []report.Evidence{{Kind: "returned", TUS: 4990000}}},
		},
		"hung to its own limit": {
			closer: func() { time.Sleep(time.Hour) },
			opts:   []resources.Option{resources.Limit(2 * sec)},
			want:   disposed{"x", 0, 2 * sec, report.GracefulTimedOut, report.ForcedUnavailable, resources.ErrOverran, false},
			row: report.Resource{Started: true, ElapsedUS: 2000000, Error: failure("resources.ErrOverran", "the closer has used up its time"),
				Evidence: []report.Evidence{}},
		},
		"hung to the default limit": {
			closer: func() { time.Sleep(time.Hour) },
			want:   disposed{"x", 0, 5 * sec, report.GracefulTimedOut, report.ForcedUnavailable, resources.ErrOverran, false},
			row: report.Resource{Started: true, ElapsedUS: 5000000, Error: failure("resources.ErrOverran", "the closer has used up its time"),
				Evidence: []report.Evidence{}},
		},
		"telemetry hung for the reserve": {
			closer: func() { time.Sleep(time.Hour) },
			opts:   []resources.Option{resources.Telemetry()},
			want:   disposed{"x", 0, 2 * sec, report.GracefulTimedOut, report.ForcedUnavailable, resources.ErrOverran, false},
			row: report.Resource{Started: true, ElapsedUS: 2000000, Error: failure("resources.ErrOverran", "the closer has used up its time"),
				Evidence: []report.Evidence{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := resources.New()
				must(t, r.Own("x", resources.Pool, tc.closer, tc.opts...))
				start := deadline.Now()
				got := relative(start, r.Dispose(t.Context(), resources.Plan{Root: anchor(t, 30*sec)}))
				if diff := diffDisposed([]disposed{tc.want}, got); diff != "" {
					t.Errorf("disposals (-want +got):\n%s", diff)
				}
				tc.row.Name, tc.row.Kind, tc.row.Owned = "x", "pool", true
				// A panic's text holds a line number of this file.
				text := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Text" && tc.row.Panicked }, cmp.Ignore())
				if diff := cmp.Diff([]report.Resource{tc.row}, r.Report(start), text); diff != "" {
					t.Errorf("report (-want +got):\n%s", diff)
				}
				time.Sleep(2 * time.Hour) // let what was left behind end with the bubble
			})
		})
	}
}

func TestDisposeSharesWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func() { time.Sleep(time.Hour) }
		r := resources.New()
		must(t, r.Own("third", resources.Pool, hang))
		must(t, r.Own("traces", resources.Provider, hang, resources.Telemetry()))
		must(t, r.Own("second", resources.Pool, hang, resources.Limit(50*ms)))
		must(t, r.Own("metrics", resources.Provider, hang, resources.Telemetry()))
		must(t, r.Own("first", resources.Pool, hang))
		start := deadline.Now()
		root := anchor(t, 4*sec) // D 3.875, telemetry 3.950
		time.Sleep(3575 * ms)
		got := relative(start, r.Dispose(t.Context(), resources.Plan{Root: root}))
		hung := func(name string, began, elapsed time.Duration) disposed {
			return disposed{name, began, elapsed, report.GracefulTimedOut, report.ForcedUnavailable, resources.ErrOverran, false}
		}
		want := []disposed{
			hung("first", 3575*ms, 100*ms), hung("second", 3675*ms, 50*ms), hung("third", 3725*ms, 150*ms),
			hung("metrics", 3875*ms, 37500*us), hung("traces", 3912500*us, 37500*us),
		}
		if diff := diffDisposed(want, got); diff != "" {
			t.Errorf("disposals (-want +got):\n%s", diff)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestAnExpiredBudgetStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := resources.New()
		otel, pool := &pointerCloser{}, &pointerCloser{}
		must(t, r.Own("otel", resources.Provider, otel, resources.Telemetry()))
		must(t, r.Own("pool", resources.Pool, pool))
		start := deadline.Now()
		root := anchor(t, 4*sec)
		time.Sleep(3900 * ms) // after D, before the telemetry instant
		got := relative(start, r.Dispose(t.Context(), resources.Plan{Root: root}))
		if diff := diffDisposed([]disposed{notStarted("pool"), done("otel", 3900*ms, 0)}, got); diff != "" {
			t.Errorf("disposals (-want +got):\n%s", diff)
		}
		if pool.closed != 0 || otel.closed != 1 {
			t.Errorf("closed: pool %d, otel %d", pool.closed, otel.closed)
		}
	})
}

func TestDisposeWithholds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used, free, otel := &pointerCloser{}, &pointerCloser{}, &pointerCloser{}
		r := resources.New()
		must(t, r.Own("otel", resources.Provider, otel, resources.Telemetry(), resources.Independent()))
		must(t, r.Own("pool", resources.Pool, used))
		must(t, r.Own("hung", resources.Other, func() { time.Sleep(time.Hour) }, resources.Independent(), resources.Limit(time.Hour)))
		must(t, r.Own("audit", resources.Other, free, resources.Independent()))
		must(t, r.Borrow("cache", resources.Pool))
		start := deadline.Now()
		root := anchor(t, 4*sec) // D 3.875
		time.Sleep(3775 * ms)
		got := relative(start, r.Dispose(t.Context(), resources.Plan{Root: root, WithheldBy: "orders"}))
		want := []disposed{
			done("audit", 3775*ms, 0),
			// What is withheld takes no share: the hung one has all of what is left.
			{"hung", 3775 * ms, 100 * ms, report.GracefulTimedOut, report.ForcedUnavailable, resources.ErrOverran, false},
			notStarted("pool"),
			done("otel", 3875*ms, 0),
		}
		if diff := diffDisposed(want, got); diff != "" {
			t.Errorf("disposals (-want +got):\n%s", diff)
		}
		if used.closed != 0 || free.closed != 1 || otel.closed != 1 {
			t.Errorf("closed: pool %d, audit %d, otel %d", used.closed, free.closed, otel.closed)
		}
		var held []string
		for _, row := range r.Report(start) {
			if row.WithheldBy != "" {
				held = append(held, row.Name+" by "+row.WithheldBy)
			}
			if row.Name == "pool" && (row.Started || !row.Owned) {
				t.Errorf("a withheld resource is owned and not started: %+v", row)
			}
		}
		if diff := cmp.Diff([]string{"pool by orders"}, held); diff != "" {
			t.Errorf("withheld (-want +got):\n%s", diff)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestDisposeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errCut := errors.New("cut")
		r := resources.New()
		never := &pointerCloser{}
		must(t, r.Own("never", resources.Pool, never))
		must(t, r.Own("hung", resources.Pool, func() { time.Sleep(time.Hour) }))
		must(t, r.Own("quick", resources.Pool, func() {}))
		ctx, cancel := context.WithCancelCause(t.Context())
		start := deadline.Now()
		time.AfterFunc(sec, func() { cancel(errCut) })
		got := relative(start, r.Dispose(ctx, resources.Plan{Root: anchor(t, 30*sec)}))
		want := []disposed{
			done("quick", 0, 0),
			{"hung", 0, sec, report.GracefulCutByForce, report.ForcedUnavailable, errCut, false},
			notStarted("never"),
		}
		if diff := diffDisposed(want, got); diff != "" {
			t.Errorf("disposals (-want +got):\n%s", diff)
		}
		if at := deadline.Since(start); at != sec || never.closed != 0 {
			t.Errorf("ended after %s with %d closed after it; want 1s and none", at, never.closed)
		}
		time.Sleep(2 * time.Hour)
	})
}

// TestALateEndIsEvidence: the outcome stands, the resource is terminal, success is not claimed, and what was sealed before
// does not change.
func TestALateEndIsEvidence(t *testing.T) {
	for name, tc := range map[string]struct {
		end      func() error
		detail   string
		panicked bool
	}{
		"with nil":      {func() error { return nil }, "returned", false},
		"with an error": {func() error { return errIO }, "returned: the disk is full", false},
		"by a panic":    {func() error { panic("boom") }, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := resources.New()
				must(t, r.Own("x", resources.Pool, func() error { time.Sleep(3 * sec); return tc.end() }, resources.Limit(2*sec)))
				start := deadline.Now()
				rows := r.Dispose(t.Context(), resources.Plan{Root: anchor(t, 30*sec)})
				if rows[0].Outcome != report.GracefulTimedOut {
					t.Fatalf("outcome %s, want timed_out", rows[0].Outcome)
				}
				sealed := r.Report(start)
				time.Sleep(2 * sec)
				late := report.Resource{Name: "x", Kind: "pool", Owned: true, Started: true, ElapsedUS: 2000000, Evidence: []report.Evidence{},
					Error: failure("resources.ErrOverran", "the closer has used up its time")}
				if diff := cmp.Diff([]report.Resource{late}, sealed); diff != "" {
					t.Errorf("the report before the late end (-want +got):\n%s", diff)
				}
				late.Terminal, late.Panicked, late.ElapsedUS = true, tc.panicked, 3000000
				late.Evidence = []report.Evidence{{Kind: "late_end", TUS: 3000000, Detail: tc.detail}}
				panicText := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Detail" && tc.panicked }, cmp.Ignore())
				if diff := cmp.Diff([]report.Resource{late}, r.Report(start), panicText); diff != "" {
					t.Errorf("the report after the late end (-want +got):\n%s", diff)
				}
			})
		})
	}
}
