package resources

import (
	"fmt"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
)

// Evidence that the registry itself records of the closers it calls.
const (
	evidenceReturned = "returned" // the closer returned, well or badly
	evidencePanicked = "panicked"
	evidenceGoexit   = "goexit"
	evidenceLateEnd  = "late_end" // it came back after it had been given up
	evidenceOmitted  = "omitted"  // stands for what the cap left out
)

// evidenceCap is how many observations of one resource are kept: the first half and the latest half.
const evidenceCap = 32

type observation struct {
	kind   string
	at     time.Time
	detail string
}

// evidence is what was observed of one resource, in the order in which it was told.
type evidence struct {
	kept    []observation
	omitted int
	gap     time.Time // when the last one was left out
}

func (e *evidence) add(o observation) {
	if len(e.kept) == evidenceCap {
		middle := evidenceCap / 2
		e.gap = e.kept[middle].at
		e.omitted++
		e.kept = append(e.kept[:middle], e.kept[middle+1:]...)
	}
	e.kept = append(e.kept, o)
}

func (e *evidence) rows(anchor time.Time) []report.Evidence {
	rows := make([]report.Evidence, 0, len(e.kept)+1)
	for i, o := range e.kept {
		if e.omitted > 0 && i == evidenceCap/2 {
			rows = append(rows, report.Evidence{Kind: evidenceOmitted, TUS: offset(anchor, e.gap), Detail: fmt.Sprintf("%d more", e.omitted)})
		}
		rows = append(rows, report.Evidence{Kind: o.kind, TUS: offset(anchor, o.at), Detail: o.detail})
	}
	return rows
}

// Tracked is a resource of ours that is ended elsewhere and whose end is told here. Its methods do not block and are safe for
// concurrent use. A zero instant means now.
type Tracked struct {
	registry *Registry
	item     *item
}

// Begin says that the resource's end began at the instant at. Later calls do nothing.
func (t *Tracked) Begin(at time.Time) {
	t.registry.mu.Lock()
	defer t.registry.mu.Unlock()
	t.item.begin(orNow(at))
}

// Observe adds a piece of evidence: kind is a word in lower_snake, detail may be empty. It changes no flag. Of many
// observations the first and the latest are kept and the rest counted.
func (t *Tracked) Observe(kind string, at time.Time, detail string) {
	o := observation{kind, orNow(at), report.Redact(detail)}
	t.registry.mu.Lock()
	defer t.registry.mu.Unlock()
	t.item.evidence.add(o)
}

// End says that the resource's end was observed at the instant at: as it should be if err is nil. The first call of End or
// EndPanicked wins. A resource whose end never began began with it.
func (t *Tracked) End(at time.Time, err error) {
	t.end(Returned{At: orNow(at), Err: err})
}

// EndPanicked says that the resource ended in a panic with value.
func (t *Tracked) EndPanicked(at time.Time, value any) {
	t.end(Returned{At: orNow(at), Err: &PanicError{Value: value}, Panicked: true})
}

func (t *Tracked) end(ret Returned) {
	failure := report.NewError(ret.Err)
	t.registry.mu.Lock()
	defer t.registry.mu.Unlock()
	t.item.end(ret, failure)
}

// Drop takes the resource out of the registry, because it ended before any shutdown, as an earlier session did, or never was.
// Its name is free again. What is told of it later goes nowhere.
func (t *Tracked) Drop() { t.registry.remove(t.item) }

func (it *item) begin(at time.Time) {
	if it.stage.advance(stageStarted) {
		it.began = at
	}
}

// end records an observed end; a second one changes nothing.
func (it *item) end(ret Returned, failure *report.Error) {
	to := stageSucceeded
	if ret.Err != nil {
		to = stageTerminal
	}
	if !it.stage.advance(to) {
		return
	}
	if it.began.IsZero() {
		it.began = ret.At
	}
	it.ended, it.failure, it.panicked = ret.At, failure, ret.Panicked
}

func (it *item) row(anchor time.Time) report.Resource {
	r := report.Resource{
		Name: it.name, Kind: string(it.kind),
		Owned: it.stage.owned(), Started: it.stage.started(), Terminal: it.stage.terminal(), Succeeded: it.stage.succeeded(),
		Advisory: it.opts.advisory, WithheldBy: it.withheldBy, Panicked: it.panicked, Evidence: it.evidence.rows(anchor),
	}
	if it.failure != nil {
		failure := *it.failure
		r.Error = &failure
	}
	if it.stage.started() {
		r.BeganTUS, r.ElapsedUS = offset(anchor, it.began), max(it.until().Sub(it.began), 0).Microseconds()
	}
	return r
}

// until is where the resource's elapsed time ends: at its end, where it was given up, or now.
func (it *item) until() time.Time {
	switch {
	case !it.ended.IsZero():
		return it.ended
	case !it.gaveUp.IsZero():
		return it.gaveUp
	default:
		return deadline.Now()
	}
}

func offset(anchor, at time.Time) int64 { return at.Sub(anchor).Microseconds() }

func orNow(at time.Time) time.Time {
	if at.IsZero() {
		return deadline.Now()
	}
	return at
}
