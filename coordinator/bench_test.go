package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/lastcall-go/lastcall/coordinator"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
)

const (
	us  = time.Microsecond
	ms  = time.Millisecond
	sec = time.Second
)

var errIO = errors.New("the disk is full")

// api and sig are triggers as they come from a call and from a signal.
var (
	api = coordinator.Trigger{Kind: report.TriggerAPI, Detail: "Shutdown"}
	sig = coordinator.Trigger{Kind: report.TriggerSignal, Detail: "SIGTERM"}
)

// fataler is what *testing.T and *rapid.T share.
type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// bench is a coordinator with everything that it calls written down.
type bench struct {
	*coordinator.Coordinator
	start     time.Time
	resources *resources.Registry

	mu      sync.Mutex
	log     []string
	records []coordinator.Record
}

// newBench returns a coordinator whose callbacks write into the log; adjust may change its Config before it is made.
func newBench(t fataler, total time.Duration, adjust func(b *bench, cfg *coordinator.Config)) *bench {
	t.Helper()
	budget, err := deadline.New(deadline.Config{Total: total})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{start: deadline.Now(), resources: resources.New()}
	cfg := coordinator.Config{
		Budget: budget, Resources: b.resources,
		OnInitiate: func(root *deadline.Root, tr coordinator.Trigger) {
			b.note("initiate %s by %s", root.Instants().Hard.Sub(root.Instants().Start), tr.Detail)
		},
		OnForce: func(cause report.ForceCause, at, end time.Time) {
			b.note("force by %s at %s until %s", cause, at.Sub(b.start), end.Sub(b.start))
		},
		OnPhase: func(p coordinator.Phase, at time.Time) { b.note("phase %s", p) },
		Seal: func(r coordinator.Record) {
			b.note("seal")
			b.mu.Lock()
			defer b.mu.Unlock()
			b.records = append(b.records, r)
		},
		Store: func(context.Context) { b.note("store") },
	}
	if adjust != nil {
		adjust(b, &cfg)
	}
	if b.Coordinator, err = coordinator.New(cfg); err != nil {
		t.Fatal(err)
	}
	return b
}

// note writes down what happened, and when, relative to the making of the bench.
func (b *bench) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, fmt.Sprintf("%s ", deadline.Since(b.start))+fmt.Sprintf(format, args...))
}

func (b *bench) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.log...)
}

func (b *bench) register(t fataler, a coordinator.Action) {
	t.Helper()
	if err := b.Register(a); err != nil {
		t.Fatal(err)
	}
}

// at calls f after d, from the making of the bench.
func (b *bench) at(d time.Duration, f func()) { time.AfterFunc(deadline.Until(b.start.Add(d)), f) }

// record waits for the end and returns the one record.
func (b *bench) record(t fataler) coordinator.Record {
	t.Helper()
	if err := b.Wait(context.Background()); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.records) != 1 {
		t.Fatalf("sealed %d times", len(b.records))
	}
	return b.records[0]
}

// row is an action's row as the tests compare it; times are milliseconds.
type row struct {
	Phase, Name    string
	Graceful       report.GracefulOutcome
	Forced         report.ForcedOutcome
	Began, Elapsed float64
	Panicked       bool
	Class          string // of the error
	Advisory       bool
}

func rows(r coordinator.Record) []row {
	var got []row
	for _, p := range r.Phases {
		for _, a := range p.Actions {
			one := row{Phase: p.Phase, Name: a.Name, Graceful: a.Graceful, Forced: a.Forced, Began: float64(a.BeganTUS) / 1000,
				Elapsed: float64(a.ElapsedUS) / 1000, Panicked: a.Panicked, Advisory: a.Advisory}
			if a.Error != nil {
				one.Class = a.Error.Class
			}
			got = append(got, one)
		}
	}
	return got
}

// span is a phase as the tests compare it, in milliseconds.
type span struct {
	Phase          string
	Began, Elapsed float64
}

func spans(r coordinator.Record) []span {
	var got []span
	for _, p := range r.Phases {
		got = append(got, span{p.Phase, float64(p.BeganTUS) / 1000, float64(p.ElapsedUS) / 1000})
	}
	return got
}

type half = func(context.Context) error

// The ways of a half. Those with a duration take it whatever their context says.
func takes(d time.Duration) half {
	return func(context.Context) error { time.Sleep(d); return nil }
}

func fails(d time.Duration) half {
	return func(context.Context) error { time.Sleep(d); return errIO }
}

func panics(d time.Duration) half {
	return func(context.Context) error { time.Sleep(d); panic(errIO) }
}

func exits(d time.Duration) half {
	return func(context.Context) error { time.Sleep(d); runtime.Goexit(); return nil }
}

// works takes d, or less if its context ends.
func works(d time.Duration) half {
	return func(ctx context.Context) error { return deadline.Sleep(ctx, d) }
}

func obeys(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }

// sulks obeys its context and hides it.
func sulks(ctx context.Context) error { <-ctx.Done(); return nil }

var hangs = takes(time.Hour)

// leftBehind lets what was left behind end, as a bubble must.
func leftBehind() { time.Sleep(3 * time.Hour) }
