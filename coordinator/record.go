package coordinator

import (
	"time"

	"github.com/lastcall-go/lastcall/report"
)

// Record is everything the report needs to know of the shutdown's course. It is plain data, and the receiver's.
type Record struct {
	Trigger report.Trigger
	// Triggers are the requests to end in the order in which they were decided. TriggersOmitted counts those beyond the cap,
	// which never leaves out one that changed something.
	Triggers        []report.TriggerEvent
	TriggersOmitted int
	Budget          report.Budget
	Force           report.Force
	// Phases are all six, in order, with one row per action in the action's own phase: an action of close_admission or drain
	// that was forced has its forced outcome there, and force has no rows. Dispose has one per closer. A phase that was cut off by an
	// abandonment began when it would have and took no time.
	Phases []report.Phase
	// Counts are halves, closers and callbacks that failed or panicked, advisory ones apart.
	Counts report.Counts
	// LeftBehind names the actions of which a half had not come back, as phase/name.
	LeftBehind []string
	// Start anchors every offset. SealedAt is when the record was taken.
	Start, SealedAt time.Time
	Abandoned       bool
}

// maxEvents caps the requests that changed nothing.
const maxEvents = 64

type events struct {
	kept    []event
	omitted int
}

type event struct {
	Trigger
	effect report.Effect
}

func (e *events) add(t Trigger, effect report.Effect) {
	changed := effect == report.EffectGraceful || effect == report.EffectForce || effect == report.EffectAbandon
	if len(e.kept) >= maxEvents && !changed {
		e.omitted++
		return
	}
	e.kept = append(e.kept, event{t, effect})
}

// record takes the record at the instant now. c.mu is held.
func (c *Coordinator) record(now time.Time) Record {
	start := c.trigger.At
	r := Record{
		Trigger:         report.Trigger{Kind: c.trigger.Kind, Detail: report.Redact(c.trigger.Detail), At: report.At(start)},
		Triggers:        make([]report.TriggerEvent, 0, len(c.events.kept)),
		TriggersOmitted: c.events.omitted,
		Budget:          c.budget(now),
		Phases:          make([]report.Phase, 0, len(c.phases)),
		LeftBehind:      []string{},
		Start:           start, SealedAt: now, Abandoned: c.abandoned,
	}
	for _, e := range c.events.kept {
		r.Triggers = append(r.Triggers, report.TriggerEvent{
			Kind: e.Kind, Detail: report.Redact(e.Detail), Effect: e.effect, TUS: offset(start, e.At),
		})
	}
	if c.notice.used {
		at := offset(start, c.notice.at)
		r.Force = report.Force{Used: true, Cause: c.notice.cause, TUS: &at}
	}
	for i, p := range c.phases {
		end := now
		if i+1 < len(c.phases) {
			end = c.phases[i+1].began
		}
		r.Phases = append(r.Phases, report.Phase{
			Phase: p.phase.String(), BeganTUS: offset(start, p.began), ElapsedUS: offset(p.began, end), Actions: c.rows(p.phase),
		})
	}
	for _, p := range r.Phases {
		for i := range p.Actions {
			r.count(&p.Actions[i])
		}
	}
	for _, a := range c.actions {
		if !a.idle() {
			r.LeftBehind = append(r.LeftBehind, a.Phase.String()+"/"+a.Name)
		}
	}
	r.Counts.Panics += len(c.faults)
	return r
}

// count adds an action to the counts. A panic is no error as well.
func (r *Record) count(a *report.Action) {
	if a.Advisory {
		return
	}
	if a.Graceful == report.GracefulFailed {
		r.Counts.Errors++
	}
	if a.Forced == report.ForcedFailed {
		r.Counts.Errors++
	}
	if a.Panicked {
		r.Counts.Panics++
	}
}

// rows returns the actions of a phase; those of dispose are its closers. c.mu is held.
func (c *Coordinator) rows(p Phase) []report.Action {
	rows := []report.Action{}
	c.each(func(a *action) bool { return a.Phase == p }, func(a *action) { rows = append(rows, a.row(c.trigger.At)) })
	if p != PhaseDispose {
		return rows
	}
	for _, d := range c.disposals {
		row := report.Action{
			Name: d.Name, Graceful: d.Outcome, Forced: d.Forced, Advisory: d.Advisory, Panicked: d.Panicked, Error: report.NewError(d.Err),
		}
		if !d.Began.IsZero() {
			row.BeganTUS, row.ElapsedUS = offset(c.trigger.At, d.Began), d.Elapsed.Microseconds()
		}
		rows = append(rows, row)
	}
	return rows
}

// budget is the plan as it stands and what became of it. c.mu is held.
func (c *Coordinator) budget(now time.Time) report.Budget {
	in, plan := c.root.Instants(), c.root.Budget()
	b := report.Budget{
		TotalUS: plan.Total().Microseconds(), ReserveUS: plan.Reserve().Microseconds(), ForceWindowUS: plan.ForceWindow().Microseconds(),
		GracefulTUS: offset(in.Start, in.Graceful), CloseTUS: offset(in.Start, in.Close), DisposeTUS: offset(in.Start, in.Dispose),
		HardTUS: offset(in.Start, in.Hard), ElapsedUS: offset(in.Start, now), OverrunUS: max(offset(in.Start, now)-offset(in.Start, in.Hard), 0),
	}
	if c.notice.used {
		end := offset(in.Start, c.root.ForceEnd(c.notice.at))
		b.ForceTUS = &end
	}
	return b
}

func offset(from, to time.Time) int64 { return to.Sub(from).Microseconds() }
