package report

import (
	"fmt"
	"strings"
)

// timeline draws the phases and their actions as bars over the time since the trigger.
//
// Its first row is the budget, from 0 to the hard end, with G where graceful work ends and H at the hard end. The rows below
// share that scale, or a finer one if the shutdown took less than a quarter of its budget.
type timeline struct {
	page         *page
	label, bar   int   // columns
	scale, total int64 // microseconds that the bar's columns stand for, in the rows and in the budget row
}

const (
	minLabel      = 15 // "close_admission"
	spanColumn    = 8
	outcomeColumn = 12 // "cut_by_force"
	maxActions    = 12 // of one phase; beyond that, those that completed are counted
)

func (p *page) timeline(d *ShutdownReport) {
	if len(d.Phases) == 0 {
		return
	}
	t := timeline{page: p, label: minLabel, total: max(d.Budget.HardTUS, d.Budget.ElapsedUS, 1)}
	for i := range d.Phases {
		for j := range d.Phases[i].Actions {
			t.label = max(t.label, textWidth(d.Phases[i].Actions[j].Name)+2)
		}
	}
	t.label = min(t.label, p.width*3/10)
	t.bar = p.width - 2 - t.label - 1 - spanColumn - 2 - outcomeColumn
	t.scale = t.total
	if d.Budget.ElapsedUS < t.total/4 {
		t.scale = roundUp(d.Budget.ElapsedUS)
	}
	note := fmt.Sprintf("  0 to %s (G graceful work ends at %s, H hard end at %s)", span(t.scale), span(d.Budget.GracefulTUS), span(d.Budget.HardTUS))
	p.heading("Phases", p.paint(faint, note))
	p.line(fit("  budget", 2+t.label) + " " + t.budget(d) + right(span(t.total), spanColumn))
	for i := range d.Phases {
		t.phase(&d.Phases[i], d)
	}
}

// roundUp is the smallest of 1, 2, 5 times a power of ten that is not below us.
func roundUp(us int64) int64 {
	for unit := int64(1); unit <= maxNumber; unit *= 10 {
		for _, n := range []int64{unit, 2 * unit, 5 * unit} {
			if us <= n {
				return n
			}
		}
	}
	return us
}

func (t *timeline) phase(ph *Phase, d *ShutdownReport) {
	t.row(fit("  "+ph.Phase, 2+t.label), plain, "█", ph.BeganTUS, ph.ElapsedUS, "", d)
	hidden := 0
	for i := range ph.Actions {
		a := &ph.Actions[i]
		if len(ph.Actions) > maxActions && a.completed() {
			hidden++
			continue
		}
		lead, s := "    ", plain
		switch {
		case a.Advisory && !a.completed():
			lead, s = "  ! ", yellow
		case a.unconfirmed() || a.bad():
			lead, s = "  ! ", red
		case !a.completed() || a.Forced == ForcedDone:
			s = yellow
		}
		t.row(fit(lead+a.Name, 2+t.label), s, "▬", a.BeganTUS, a.ElapsedUS, string(a.Graceful), d)
		if a.Forced != ForcedNotNeeded {
			t.page.line(t.page.paint(s, right("by force: "+string(a.Forced), t.page.width)))
		}
	}
	if hidden > 0 {
		t.page.line("    " + plural(uint64(hidden), "more action completed", "more actions completed"))
	}
}

func (t *timeline) row(label string, s style, block string, began, elapsed int64, outcome string, d *ShutdownReport) {
	cells := t.empty(" ")
	if t.scale == t.total {
		t.mark(cells, d.Budget.GracefulTUS, "┊")
		t.mark(cells, d.Budget.HardTUS, "┊")
	}
	if outcome == string(GracefulNotStarted) && elapsed == 0 {
		t.page.line(t.page.paint(s, label) + " " + strings.Join(cells, "") + right("-", spanColumn) + "  " + t.page.paint(s, outcome))
		return
	}
	first, last := t.column(began), t.column(began+max(elapsed-1, 0))
	if elapsed < t.scale/int64(2*t.bar) { // less than half a column
		last, block = first, "▏"
	}
	for i := first; i <= last; i++ {
		cells[i] = block
	}
	t.page.line(t.page.paint(s, label) + " " + strings.Join(cells, "") + right(span(elapsed), spanColumn) + "  " + t.page.paint(s, outcome))
}

// budget is the first row's bar: what was used of the whole.
func (t *timeline) budget(d *ShutdownReport) string {
	scale := t.scale
	t.scale = t.total
	cells := t.empty("·")
	for i := range t.column(d.Budget.ElapsedUS-1) + 1 {
		cells[i] = "█"
	}
	t.mark(cells, d.Budget.GracefulTUS, "G")
	t.mark(cells, d.Budget.HardTUS, "H")
	t.scale = scale
	return strings.Join(cells, "")
}

func (t *timeline) empty(cell string) []string {
	cells := make([]string, t.bar)
	for i := range cells {
		cells[i] = cell
	}
	return cells
}

func (t *timeline) mark(cells []string, us int64, with string) { cells[t.column(us)] = with }

// column is where the instant us lies on the bar; what lies outside is put at its ends.
func (t *timeline) column(us int64) int {
	at := float64(us) / float64(t.scale) * float64(t.bar)
	return int(min(max(at, 0), float64(t.bar-1)))
}
