package coordinator

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
)

var errIO = errors.New("the disk is full")

// TestGracefulOutcome holds each way back against each state of the half's context. Who is first, the half or whoever cuts it,
// must make no difference: once the context has ended, only why it ended counts.
func TestGracefulOutcome(t *testing.T) {
	ways := map[string]resources.Returned{
		"nil": {}, "error": {Err: errIO}, "panic": {Err: &resources.PanicError{Value: errIO}, Panicked: true}, "goexit": {Err: resources.ErrGoexit},
	}
	want := map[error]map[string]report.GracefulOutcome{
		nil: {"nil": report.GracefulDone, "error": report.GracefulFailed, "panic": report.GracefulPanicked, "goexit": report.GracefulFailed},
	}
	for cause, o := range map[error]report.GracefulOutcome{ErrGracefulOver: report.GracefulTimedOut, ErrCloseOver: report.GracefulTimedOut,
		ErrAbandoned: report.GracefulCutByForce} {
		want[cause] = map[string]report.GracefulOutcome{}
		for way := range ways {
			want[cause][way] = o
		}
	}
	for cause, row := range want {
		got := map[string]report.GracefulOutcome{}
		for way, ret := range ways {
			got[way] = gracefulOutcome(ret, cause)
		}
		if diff := cmp.Diff(row, got); diff != "" {
			t.Errorf("cause %v (-want +got):\n%s", cause, diff)
		}
	}
}

// TestOutcomesAreNeverRewritten: everything that may still come, in any state.
func TestOutcomesAreNeverRewritten(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	force := func(context.Context) error { return nil }
	for name, settle := range map[string]func(a *action){
		"completed": func(a *action) { a.gracefulBack(resources.Returned{At: start}, nil, nil) },
		"failed": func(a *action) {
			a.gracefulBack(resources.Returned{At: start, Err: errIO}, report.NewError(errIO), nil)
		},
		"timed out":    func(a *action) { a.cut(report.GracefulTimedOut) },
		"cut by force": func(a *action) { a.cut(report.GracefulCutByForce) },
		"forced": func(a *action) {
			a.cut(report.GracefulCutByForce)
			a.force.began = start
			a.forceBack(resources.Returned{At: start, Err: errIO}, report.NewError(errIO), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &action{Action: Action{Name: "x", Phase: PhaseDrain, Graceful: force, Force: force}}
			a.graceful.began = start
			settle(a)
			before := a.outcome
			a.cut(report.GracefulTimedOut)
			a.gracefulBack(resources.Returned{At: start}, nil, nil)
			if a.outcome != before {
				t.Errorf("%s became %s", before, a.outcome)
			}
			a.conclude(start.Add(time.Second))
			concluded := a.row(start)
			a.conclude(start.Add(time.Minute))
			a.gracefulBack(resources.Returned{At: start.Add(time.Hour), Err: errIO}, report.NewError(errIO), nil)
			a.forceBack(resources.Returned{At: start.Add(time.Hour)}, nil, nil)
			if diff := cmp.Diff(concluded, a.row(start)); diff != "" {
				t.Errorf("rewritten after the conclusion (-before +after):\n%s", diff)
			}
		})
	}
}

func TestBothErrorsAreKept(t *testing.T) {
	a := &action{}
	a.fail(report.NewError(errIO))
	a.fail(nil)
	a.fail(report.NewError(ErrForceOver))
	want := &report.Error{Class: "*errors.errorString", Text: "the disk is full; the force phase is over"}
	if diff := cmp.Diff(want, a.failure); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

// TestNothingBeginsAfterAnAbandonment: a graceful half that comes back in the instant of the abandonment wants its force half,
// which must not begin.
func TestNothingBeginsAfterAnAbandonment(t *testing.T) {
	budget, err := deadline.New(deadline.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Budget: budget, Resources: resources.New()})
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{})
	a := &action{Action: Action{Name: "x", Phase: PhaseDrain, Force: func(context.Context) error { close(began); return nil }}}
	a.cut(report.GracefulCutByForce)
	c.abandoned = true
	c.beginForce(t.Context(), a)
	if a.force.begun() {
		t.Error("the force half began")
		<-began
	}
}
