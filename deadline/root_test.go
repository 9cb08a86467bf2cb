package deadline_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lastcall-go/lastcall/deadline"
)

var (
	errOver   = errors.New("over")
	errParent = errors.New("parent")
	errDone   = errors.New("done")
)

func TestForceAtShortensTheRoot(t *testing.T) {
	for name, tc := range map[string]struct {
		total time.Duration
		at    []time.Duration
		want  offsets
	}{
		"30 s forced at 1 s": {30 * time.Second, []time.Duration{time.Second},
			offsets{2 * time.Second, 1000 * ms, 2000 * ms, 2375 * ms, 2750 * ms, 2950 * ms, 3 * time.Second}},
		"before the start counts as the start": {8 * time.Second, []time.Duration{-time.Hour},
			offsets{2 * time.Second, 0, 1000 * ms, 1375 * ms, 1750 * ms, 1950 * ms, 2 * time.Second}},
		"a later force changes nothing": {30 * time.Second, []time.Duration{time.Second, 2 * time.Second, 29 * time.Second},
			offsets{2 * time.Second, 1000 * ms, 2000 * ms, 2375 * ms, 2750 * ms, 2950 * ms, 3 * time.Second}},
		"an earlier force shortens further": {30 * time.Second, []time.Duration{5 * time.Second, time.Second},
			offsets{2 * time.Second, 1000 * ms, 2000 * ms, 2375 * ms, 2750 * ms, 2950 * ms, 3 * time.Second}},
		"after graceful nothing is left to shorten": {30 * time.Second, []time.Duration{28500 * ms},
			offsets{2 * time.Second, 28000 * ms, 29000 * ms, 29375 * ms, 29750 * ms, 29950 * ms, 30 * time.Second}},
		"after the end": {30 * time.Second, []time.Duration{time.Hour},
			offsets{2 * time.Second, 28000 * ms, 29000 * ms, 29375 * ms, 29750 * ms, 29950 * ms, 30 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			root := budget(t, deadline.Config{Total: tc.total}).Anchor(epoch)
			var last deadline.Instants
			for _, at := range tc.at {
				last = root.ForceAt(epoch.Add(at))
			}
			if diff := cmp.Diff(tc.want, offsetsOf(root.Instants())); diff != "" {
				t.Errorf("instants (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(root.Instants(), last); diff != "" {
				t.Errorf("ForceAt returned other instants (-root +returned):\n%s", diff)
			}
		})
	}
}

func TestForceEnd(t *testing.T) {
	root := budget(t, deadline.Config{Total: 4 * time.Second}).Anchor(epoch)
	for name, tc := range map[string]struct{ at, want time.Duration }{
		"the window, early":              {0, time.Second},
		"three quarters of what is left": {3 * time.Second, 3750 * ms},
		"capped by C":                    {3800 * ms, 3812500 * us},
		"after C":                        {3900 * ms, 3812500 * us},
	} {
		t.Run(name, func(t *testing.T) {
			if got := root.ForceEnd(epoch.Add(tc.at)).Sub(epoch); got != tc.want {
				t.Errorf("F(%s) = %s, want %s", tc.at, got, tc.want)
			}
		})
	}
}

func TestForceNeverLengthens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := anyBudget.Draw(t, "budget")
		root := b.Anchor(epoch)
		instant := rapid.Custom(func(t *rapid.T) time.Time {
			return epoch.Add(time.Duration(rapid.Int64Range(-int64(b.Total()), 2*int64(b.Total())).Draw(t, "offset")))
		})
		for range rapid.IntRange(0, 4).Draw(t, "forces") {
			old, at := root.Instants(), instant.Draw(t, "at")
			in := root.ForceAt(at)
			ordered(t, in)
			for name, pair := range map[string][2]time.Time{
				"graceful": {old.Graceful, in.Graceful}, "F": {old.Force, in.Force}, "C": {old.Close, in.Close},
				"D": {old.Dispose, in.Dispose}, "telemetry": {old.Telemetry, in.Telemetry}, "hard": {old.Hard, in.Hard},
			} {
				if pair[1].After(pair[0]) {
					t.Fatalf("ForceAt moved %s back by %s", name, pair[1].Sub(pair[0]))
				}
			}
			if in.Start != old.Start || in.Reserve != old.Reserve {
				t.Fatal("ForceAt changed the start or the reserve")
			}
			a := later(at, epoch)
			if in.Hard.After(a.Add(in.Reserve)) || in.Graceful.After(a) {
				t.Fatalf("forced at %s the root still stands at %+v", a.Sub(epoch), offsetsOf(in))
			}
			if !at.Before(epoch) && !at.After(old.Graceful) && !root.ForceEnd(at).Equal(in.Force) {
				t.Fatalf("F(A) = %s, the plan says %s", root.ForceEnd(at).Sub(epoch), in.Force.Sub(epoch))
			}
		}
		if a := instant.Draw(t, "notice"); root.ForceEnd(a).After(root.Instants().Close) {
			t.Fatal("F(A) comes after C")
		}
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func graceful(in deadline.Instants) time.Time { return in.Graceful }

// ended reports when ctx ended, relative to start, and why.
func ended(start time.Time, ctx context.Context) (time.Duration, error) {
	<-ctx.Done()
	return deadline.Since(start), context.Cause(ctx)
}

func TestContextEndsAtItsInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := deadline.Now()
		root := budget(t, deadline.Config{Total: 4 * time.Second}).Anchor(start)
		ctx, cancel := root.Context(t.Context(), graceful, errOver)
		defer cancel(errDone)
		if at, ok := ctx.Deadline(); !ok || at.Sub(start) != 3*time.Second {
			t.Errorf("deadline %s, %t; want 3s", at.Sub(start), ok)
		}
		if at, cause := ended(start, ctx); at != 3*time.Second || cause != errOver {
			t.Errorf("ended after %s with %v; want 3s with %v", at, cause, errOver)
		}
		if ctx.Err() != context.Canceled {
			t.Errorf("Err is %v, want context.Canceled", ctx.Err())
		}
	})
}

func TestContextFollowsAShortening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := deadline.Now()
		root := budget(t, deadline.Config{Total: 30 * time.Second}).Anchor(start)
		ctx, cancel := root.Context(t.Context(), func(in deadline.Instants) time.Time { return in.Hard }, errOver)
		defer cancel(errDone)
		child, cancelChild := deadline.Timeout(ctx, time.Hour, errDone)
		defer cancelChild()
		time.Sleep(time.Second)
		root.ForceAt(start.Add(time.Second))
		if at, _ := ctx.Deadline(); at.Sub(start) != 3*time.Second {
			t.Errorf("the deadline stands at %s, want 3s", at.Sub(start))
		}
		if at, cause := ended(start, child); at != 3*time.Second || cause != errOver {
			t.Errorf("the child ended after %s with %v; want 3s with %v", at, cause, errOver)
		}
	})
}

// TestContextNeverMovesBack: even if pick changes its mind.
func TestContextNeverMovesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := deadline.Now()
		root := budget(t, deadline.Config{Total: 30 * time.Second}).Anchor(start)
		picked := 0
		ctx, cancel := root.Context(t.Context(), func(deadline.Instants) time.Time {
			picked++
			return start.Add(time.Duration(picked) * time.Second)
		}, errOver)
		defer cancel(errDone)
		root.ForceAt(start)
		if at, cause := ended(start, ctx); at != time.Second || cause != errOver || picked != 2 {
			t.Errorf("ended after %s with %v, picked %d times; want 1s, twice", at, cause, picked)
		}
	})
}

func TestContextEndsAtOnceWhenItsInstantHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := deadline.Now()
		root := budget(t, deadline.Config{Total: 4 * time.Second}).Anchor(start)
		running, cancelRunning := root.Context(t.Context(), graceful, errOver)
		defer cancelRunning(errDone)
		root.ForceAt(start)
		late, cancelLate := root.Context(t.Context(), graceful, errOver)
		defer cancelLate(errDone)
		for _, ctx := range []context.Context{running, late} {
			if at, cause := ended(start, ctx); at != 0 || cause != errOver {
				t.Errorf("ended after %s with %v; want at once with %v", at, cause, errOver)
			}
		}
	})
}

func TestContextKeepsTheFirstCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := deadline.Now()
		root := budget(t, deadline.Config{Total: 4 * time.Second}).Anchor(start)
		parent, cancelParent := context.WithCancelCause(t.Context())
		a, cancelA := root.Context(parent, graceful, errOver)
		defer cancelA(errDone)
		b, cancelB := root.Context(t.Context(), graceful, errOver)
		cancelParent(errParent)
		cancelB(errDone)
		root.ForceAt(start)
		time.Sleep(5 * time.Second)
		if got := []error{context.Cause(a), context.Cause(b)}; got[0] != errParent || got[1] != errDone {
			t.Errorf("causes %v, want [%v %v]", got, errParent, errDone)
		}
	})
}

func TestContextTakesTheParentsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := deadline.Now()
		root := budget(t, deadline.Config{Total: 4 * time.Second}).Anchor(start)
		parent, cancelParent := deadline.Timeout(t.Context(), time.Second, errParent)
		defer cancelParent()
		ctx, cancel := root.Context(parent, graceful, errOver)
		defer cancel(errDone)
		if at, ok := ctx.Deadline(); !ok || at.Sub(start) != time.Second {
			t.Errorf("deadline %s, %t; want the parent's 1s", at.Sub(start), ok)
		}
		if at, cause := ended(start, ctx); at != time.Second || cause != errParent {
			t.Errorf("ended after %s with %v", at, cause)
		}
	})
}

// TestContextsUnderConcurrentForce holds contexts that come and go against roots that shorten: none may outlive the root.
func TestContextsUnderConcurrentForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := deadline.Now()
		root := budget(t, deadline.Config{Total: 30 * time.Second}).Anchor(start)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 20 {
					ctx, cancel := root.Context(t.Context(), graceful, errOver)
					if j%2 == 0 {
						cancel(errDone)
						continue
					}
					wg.Go(func() {
						if at, cause := ended(start, ctx); at > 20*time.Second || cause != errOver {
							t.Errorf("ended after %s with %v", at, cause)
						}
						cancel(errDone)
					})
				}
			})
			wg.Go(func() { root.ForceAt(start.Add(20*time.Second + time.Duration(i)*time.Second)) })
		}
		wg.Wait()
	})
}

func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := budget(t, deadline.Config{Total: 4 * time.Second}).Anchor(deadline.Now())
		time.Sleep(3 * time.Second)
		if got := root.Left(); got != time.Second {
			t.Errorf("left %s, want 1s", got)
		}
		time.Sleep(3 * time.Second)
		if got := root.Left(); got != 0 {
			t.Errorf("left %s after the end, want 0", got)
		}
		if got := root.Budget().Total(); got != 4*time.Second {
			t.Errorf("budget %s, want 4s", got)
		}
	})
}
