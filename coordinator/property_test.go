package coordinator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lastcall-go/lastcall/coordinator"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
)

// plan is one schedule, drawn before its bubble begins.
type plan struct {
	Budget   deadline.Config
	Actions  []planned
	Closers  []behaviour
	Withhold bool
	Store    behaviour
	Requests []planRequest
}

type planned struct {
	Phase           coordinator.Phase
	Graceful, Force behaviour
	Advisory        bool
}

// behaviour is how a half, a closer or the store behaves; After is how long it takes where it takes its time.
type behaviour struct {
	Way   string
	After time.Duration
}

type planRequest struct {
	At   time.Duration
	What string // initiate, force, abandon
}

func (b behaviour) half() half {
	switch b.Way {
	case "none":
		return nil
	case "obeys":
		return obeys
	case "sulks":
		return sulks
	case "works":
		return works(b.After)
	case "fails":
		return fails(b.After)
	case "panics":
		return panics(b.After)
	case "exits":
		return exits(b.After)
	case "hangs":
		return hangs
	}
	return takes(b.After)
}

var (
	spell = rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * ms
	})
	anyBehaviour = rapid.Custom(func(t *rapid.T) behaviour {
		return behaviour{
			Way:   rapid.SampledFrom([]string{"takes", "works", "obeys", "sulks", "fails", "panics", "exits", "hangs", "none"}).Draw(t, "way"),
			After: spell.Draw(t, "after"),
		}
	})
	anyPlan = rapid.Custom(func(t *rapid.T) plan {
		p := plan{
			Budget:   deadline.Config{Total: 250*ms + spell.Draw(t, "total"), ForceWindow: spell.Draw(t, "window")},
			Closers:  rapid.SliceOfN(anyBehaviour, 0, 3).Draw(t, "closers"),
			Withhold: rapid.Bool().Draw(t, "withhold"),
			Store:    anyBehaviour.Draw(t, "store"),
			Requests: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) planRequest {
				return planRequest{spell.Draw(t, "at"), rapid.SampledFrom([]string{"initiate", "force", "force", "abandon"}).Draw(t, "what")}
			}), 0, 5).Draw(t, "requests"),
		}
		phases := []coordinator.Phase{coordinator.PhaseCloseAdmission, coordinator.PhaseDrain, coordinator.PhaseDrain, coordinator.PhaseCloseEvidence}
		for range rapid.IntRange(0, 5).Draw(t, "actions") {
			p.Actions = append(p.Actions, planned{rapid.SampledFrom(phases).Draw(t, "phase"), anyBehaviour.Draw(t, "graceful"),
				anyBehaviour.Draw(t, "force"), rapid.Bool().Draw(t, "advisory")})
		}
		return p
	})
)

// legal lists every pair of outcomes there is.
var legal = map[report.GracefulOutcome]map[report.ForcedOutcome]bool{}

func init() {
	cut := map[report.ForcedOutcome]bool{report.ForcedDone: true, report.ForcedFailed: true, report.ForcedPanicked: true,
		report.ForcedTimedOut: true, report.ForcedUnavailable: true}
	for _, g := range []report.GracefulOutcome{report.GracefulTimedOut, report.GracefulCutByForce, report.GracefulNotStarted} {
		legal[g] = cut
	}
	for _, g := range []report.GracefulOutcome{report.GracefulFailed, report.GracefulPanicked} {
		legal[g] = map[report.ForcedOutcome]bool{report.ForcedNotNeeded: true}
		for f := range cut {
			legal[g][f] = true // in close_evidence alone
		}
	}
	legal[report.GracefulDone] = map[report.ForcedOutcome]bool{report.ForcedNotNeeded: true}
}

// tally counts how often each thing was called, by name.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[name]++
}

func (c *tally) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[name]
}

func (c *tally) wrap(name string, f half) half {
	if f == nil {
		return nil
	}
	return func(ctx context.Context) error { c.add(name); return f(ctx) }
}

// TestAnySchedule: whatever actions, closers and requests do, and whenever.
func TestAnySchedule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := anyPlan.Draw(rt, "plan")
		var problems []string
		synctest.Test(t, func(t *testing.T) { problems = p.run(t) })
		for _, problem := range problems {
			rt.Error(problem)
		}
	})
}

// run carries the plan out and returns what is wrong with the result.
func (p plan) run(t *testing.T) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	calls := &tally{counts: map[string]int{}}
	var noticed atomic.Bool
	var effects sync.Map
	b := newBench(t, p.Budget.Total, func(_ *bench, cfg *coordinator.Config) {
		cfg.Budget, _ = deadline.New(p.Budget)
		cfg.OnForce = func(report.ForceCause, time.Time, time.Time) { noticed.Store(true); calls.add("OnForce") }
		if p.Withhold {
			cfg.Withhold = func() string { return "orders" }
		}
		if store := p.Store.half(); store != nil {
			cfg.Store = func(ctx context.Context) { _ = store(ctx) }
		}
	})
	for i, a := range p.Actions {
		name := fmt.Sprint(i)
		graceful, force := calls.wrap("graceful "+name, a.Graceful.half()), calls.wrap("force "+name, a.Force.half())
		if graceful == nil && force == nil {
			graceful = calls.wrap("graceful "+name, takes(0))
		}
		if force != nil && a.Phase == coordinator.PhaseDrain && graceful != nil && !a.Advisory {
			inner := force
			force = func(ctx context.Context) error {
				if !noticed.Load() {
					calls.add("force before the notice")
				}
				return inner(ctx)
			}
		}
		b.register(t, coordinator.Action{Name: name, Phase: a.Phase, Advisory: a.Advisory, Graceful: graceful, Force: force,
			Revoke: func() { calls.add("revoke " + name) }})
	}
	for i, c := range p.Closers {
		closer := calls.wrap("closer "+fmt.Sprint(i), c.half())
		if closer == nil {
			closer = takes(0)
		}
		if err := b.resources.Own("closer "+fmt.Sprint(i), resources.Pool, closer); err != nil {
			t.Fatal(err)
		}
	}
	requests := append([]planRequest{{0, "initiate"}}, p.Requests...)
	if len(p.Requests) > 0 {
		requests = p.Requests // whichever comes first
	}
	var asked sync.WaitGroup
	for i, q := range requests {
		asked.Go(func() {
			time.Sleep(q.At)
			effects.Store(i, map[string]func(coordinator.Trigger) report.Effect{
				"initiate": b.Initiate, "force": b.Force, "abandon": b.Abandon}[q.What](sig))
		})
	}
	<-b.Done()
	in := b.Root().Instants()
	if at := deadline.Now(); at.After(in.Hard) {
		bad("done %s after hard", at.Sub(in.Hard))
	}
	if len(b.records) != 1 {
		bad("sealed %d times", len(b.records))
		return problems
	}
	r := b.records[0]
	before := fmt.Sprintf("%+v", rows(r))
	p.checkCourse(r, in, bad)
	if want := map[bool]int{true: 1}[r.Force.Used]; calls.of("OnForce") != want {
		bad("force.used %t and %d notices", r.Force.Used, calls.of("OnForce"))
	}
	if n := calls.of("force before the notice"); n > 0 {
		bad("%d force halves began before the notice", n)
	}
	asked.Wait()
	leftBehind() // a half begun in the instant of an abandonment is scheduled only now
	p.checkRows(r, calls, bad)
	if after := fmt.Sprintf("%+v", rows(r)); after != before {
		bad("the record changed after it was sealed:\n%s\n%s", before, after)
	}
	changed := map[report.Effect]int{}
	effects.Range(func(_, effect any) bool { changed[effect.(report.Effect)]++; return true })
	if changed[report.EffectGraceful] > 1 || changed[report.EffectForce] > 1 || changed[report.EffectAbandon] > 1 {
		bad("effects given twice: %v", changed)
	}
	if (changed[report.EffectAbandon] > 0) != r.Abandoned {
		bad("abandoned %t with effects %v", r.Abandoned, changed)
	}
	return problems
}

func (p plan) checkRows(r coordinator.Record, calls *tally, bad func(string, ...any)) {
	seen := map[string]int{}
	for _, phase := range r.Phases {
		for _, a := range phase.Actions {
			key := phase.Phase + "/" + a.Name
			seen[key]++
			if !legal[a.Graceful][a.Forced] {
				bad("%s: {%s, %s}", key, a.Graceful, a.Forced)
			}
			if phase.Phase != "close_evidence" && a.Forced != report.ForcedNotNeeded && (a.Graceful == report.GracefulFailed || a.Graceful == report.GracefulPanicked) {
				bad("%s: {%s, %s} outside close_evidence", key, a.Graceful, a.Forced)
			}
			if a.BeganTUS != 0 && a.BeganTUS < phase.BeganTUS {
				bad("%s began before its phase", key)
			}
		}
	}
	for i, a := range p.Actions {
		name := fmt.Sprint(i)
		key := a.Phase.String() + "/" + name
		if seen[key] != 1 {
			bad("%s has %d rows", key, seen[key])
			continue
		}
		var row report.Action
		for _, one := range r.Phases[a.Phase-1].Actions {
			if one.Name == name {
				row = one
			}
		}
		graceful, force, revoke := calls.of("graceful "+name), calls.of("force "+name), calls.of("revoke "+name)
		if graceful > 1 || force > 1 || revoke > 1 {
			bad("%s: graceful half %d times, force half %d, revoked %d", key, graceful, force, revoke)
		}
		if (graceful == 0) != (row.Graceful == report.GracefulNotStarted) {
			bad("%s: graceful half began %d times and is %s", key, graceful, row.Graceful)
		}
		if (force == 0) != (row.Forced == report.ForcedNotNeeded || row.Forced == report.ForcedUnavailable) {
			bad("%s: force half began %d times and is %s", key, force, row.Forced)
		}
		if done := row.Forced == report.ForcedNotNeeded || row.Forced == report.ForcedDone; done && revoke > 0 && !r.Abandoned && a.Phase == coordinator.PhaseCloseEvidence {
			bad("%s: {%s, %s} and revoked", key, row.Graceful, row.Forced)
		} else if !done && revoke == 0 {
			bad("%s: {%s, %s} and not revoked", key, row.Graceful, row.Forced)
		}
	}
	for i := range p.Closers {
		if n := calls.of("closer " + fmt.Sprint(i)); n > 1 || n > 0 && p.Withhold {
			bad("closer %d was called %d times, withheld %t", i, n, p.Withhold)
		}
		if seen[fmt.Sprintf("dispose/closer %d", i)] != 1 {
			bad("closer %d has no row", i)
		}
	}
}

// checkCourse holds the phases against the order and the instants of the budget.
func (p plan) checkCourse(r coordinator.Record, in deadline.Instants, bad func(string, ...any)) {
	if len(r.Phases) != 6 {
		bad("%d phases", len(r.Phases))
		return
	}
	last := int64(0)
	for i, phase := range r.Phases {
		if phase.Phase != coordinator.Phase(i+1).String() || phase.BeganTUS < last {
			bad("phase %d is %s at %d after %d", i, phase.Phase, phase.BeganTUS, last)
		}
		last = phase.BeganTUS
	}
	ends := func(p coordinator.Phase, latest time.Time) {
		row := r.Phases[p-1]
		if end := row.BeganTUS + row.ElapsedUS; end > latest.Sub(in.Start).Microseconds()+1 {
			bad("%s ends at %d us, %s is at %d", p, end, p, latest.Sub(in.Start).Microseconds())
		}
	}
	ends(coordinator.PhaseDrain, in.Graceful)
	ends(coordinator.PhaseForce, in.Close)
	ends(coordinator.PhaseCloseEvidence, in.Close)
	ends(coordinator.PhaseDispose, in.Dispose)
	ends(coordinator.PhasePublish, in.Hard)
	if r.SealedAt.After(in.Hard) {
		bad("sealed %s after hard", r.SealedAt.Sub(in.Hard))
	}
	if r.Budget.OverrunUS != 0 {
		bad("overrun of %d us", r.Budget.OverrunUS)
	}
}

// TestManyAtOnce lets 16 goroutines ask for anything at random instants, a thousand times. Its value is under -race.
func TestManyAtOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 1000 {
		delays, ops := make([]time.Duration, 16), make([]int, 16)
		for i := range delays {
			ops[i] = rng.IntN(5)
			if rng.IntN(2) == 0 {
				delays[i] = time.Duration(rng.IntN(260)) * ms
			}
		}
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, 250*ms, nil)
			b.register(t, coordinator.Action{Name: "a", Phase: coordinator.PhaseCloseAdmission, Graceful: works(ms), Force: takes(0)})
			b.register(t, coordinator.Action{Name: "d", Phase: coordinator.PhaseDrain, Graceful: works(200 * ms), Force: obeys, Revoke: func() {}})
			b.register(t, coordinator.Action{Name: "c", Phase: coordinator.PhaseCloseEvidence, Graceful: works(ms), Force: takes(0)})
			if err := b.resources.Own("pool", resources.Pool, func(ctx context.Context) error { return deadline.Sleep(ctx, ms) }); err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			effects := map[report.Effect]int{}
			var wg sync.WaitGroup
			for i := range ops {
				wg.Go(func() {
					time.Sleep(delays[i])
					ask := []func(coordinator.Trigger) report.Effect{b.Initiate, b.Initiate, b.Force, b.Abandon,
						func(coordinator.Trigger) report.Effect {
							_, _, _ = b.Root(), b.Phase(), b.Forced()
							effect := b.Initiate(api)
							if err := b.Wait(context.Background()); err != nil {
								t.Errorf("Wait: %v", err)
							}
							return effect
						}}[ops[i]]
					effect := ask(sig)
					mu.Lock()
					defer mu.Unlock()
					effects[effect]++
				})
			}
			wg.Wait()
			b.Initiate(api)
			r := b.record(t)
			first := 0
			for _, e := range r.Triggers {
				if e.TUS == 0 && e.Effect != report.EffectNone && e.Effect != report.EffectTooLate {
					first++
				}
			}
			if first == 0 || effects[report.EffectGraceful] > 1 || effects[report.EffectForce] > 1 || effects[report.EffectAbandon] > 1 {
				t.Errorf("round %d: effects %v, triggers %+v", round, effects, r.Triggers)
			}
			if end := r.SealedAt.Sub(r.Start); end > 250*ms || (effects[report.EffectAbandon] > 0) != r.Abandoned {
				t.Errorf("round %d: sealed at %s, abandoned %t, effects %v", round, end, r.Abandoned, effects)
			}
		})
		if t.Failed() {
			return
		}
	}
}
