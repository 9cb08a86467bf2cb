package report

import (
	"fmt"
	"strings"
)

// TextOptions says how Text renders.
type TextOptions struct {
	// Width is the terminal's width in columns. Zero means 80; less than 60 is taken as 60.
	Width int
	// Color adds colours to what the words say already.
	Color bool
}

const (
	maxHeaderErrors = 5
	maxUnsettled    = 20
	maxStackLines   = 12

	sheetLabel = 15
)

// Text renders d for a person: first what happened and the verdict, then the timeline and what else is worth knowing. It
// redacts and neutralises whatever d holds, so that the result is safe for a terminal even if d is not. It is a view of d: it
// recomputes nothing.
func Text(d *ShutdownReport, o TextOptions) string {
	d = Clone(d)
	clean(d)
	p := &page{width: max(o.Width, 60), color: o.Color}
	if o.Width == 0 {
		p.width = 80
	}
	p.header(d)
	p.timeline(d)
	p.triggers(d)
	p.deliveries(d)
	p.subscriptions(d)
	p.resources(d)
	p.sessions(d)
	p.unsettled(d)
	p.findings(d)
	p.footer(d)
	return p.String()
}

// Summary renders d in one to three lines for a log or stderr, each ending in a newline: how it ended, the messages, and the
// gravest finding. Like Text it is safe for a terminal.
func Summary(d *ShutdownReport) string {
	d = Clone(d)
	clean(d)
	var b strings.Builder
	fmt.Fprintf(&b, "lastcall: %s: %s, exit %d (%s); %s\n", d.Service.Name, d.Completion, d.ExitCode, d.ExitReason, d.course())
	fmt.Fprintf(&b, "lastcall: messages %s: %s\n", d.Messages.Verdict, d.inHand())
	if n := len(d.Findings); n > 0 && d.Findings[0].Severity != SeverityInfo {
		f := &d.Findings[0]
		fmt.Fprintf(&b, "lastcall: %s %s %s: %s", f.Severity, f.Code, f.Subject, f.Text)
		if n > 1 {
			fmt.Fprintf(&b, " (and %s)", plural(uint64(n-1), "more finding", "more findings"))
		}
		b.WriteByte('\n')
	}
	return loose(b.String())
}

// course is what happened in one phrase: "SIGTERM, force by deadline after 28 s, over after 29 s of 30 s".
func (d *ShutdownReport) course() string {
	course := d.why()
	if d.Force.Used {
		course += ", force by " + string(d.Force.Cause)
		if d.Force.TUS != nil {
			course += " after " + tight(span(*d.Force.TUS))
		}
	}
	course += fmt.Sprintf(", over after %s of %s", tight(span(d.Budget.ElapsedUS)), tight(span(d.Budget.TotalUS)))
	if d.Budget.OverrunUS > 0 {
		course += ", " + tight(span(d.Budget.OverrunUS)) + " too late"
	}
	return course
}

// why is the trigger in a word or two.
func (d *ShutdownReport) why() string {
	switch {
	case d.Trigger.Kind == TriggerSignal && d.Trigger.Detail != "":
		return d.Trigger.Detail
	case d.Trigger.Kind == TriggerStartup:
		return strings.TrimSuffix("start failed: "+d.Trigger.Detail, ": ")
	case d.Trigger.Detail != "":
		return string(d.Trigger.Kind) + " " + d.Trigger.Detail
	}
	return string(d.Trigger.Kind)
}

func (d *ShutdownReport) inHand() string {
	cohort := &d.Deliveries.InShutdown
	if cohort.Received == 0 {
		return "none in hand"
	}
	return thousands(cohort.Received) + " in hand " + cohort.equation()
}

// equation is "= 4 acked + 16 handed_back": the buckets that are not empty.
func (s *Sheet) equation() string {
	var terms []string
	for _, b := range s.buckets() {
		if b.count > 0 {
			terms = append(terms, tight(thousands(b.count)+" "+b.name))
		}
	}
	if s.InFlight > 0 {
		terms = append(terms, tight(thousands(s.InFlight)+" in flight"))
	}
	sum := strings.Join(terms, " + ")
	switch {
	case !s.Conserves():
		return "NOT " + strings.TrimSuffix("= "+sum, "= ") + ": not conserved"
	}
	return "= " + sum
}

func (p *page) header(d *ShutdownReport) {
	mark, s := "✔", green
	switch d.Completion {
	case GracefulCompleted:
	case ForcedCompleted:
		mark, s = "✔", yellow
	default:
		mark, s = "✘", red
	}
	p.line(p.paint(s, mark+" ") + p.paint(bold, d.Service.Name) + " " + p.paint(s, sentence(d)))
	p.wrap(plain, "  ", 2, fmt.Sprintf("%s, %s (%s); %s", d.Completion, tight(fmt.Sprintf("exit %d", d.ExitCode)), d.ExitReason, d.course()))
	p.wrap(plain, "  ", 2, fmt.Sprintf("messages %s: %s", d.Messages.Verdict, d.inHand()))
	shown := 0
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Severity != SeverityError {
			break
		}
		if shown++; shown > maxHeaderErrors {
			p.line("  … more errors below")
			break
		}
		p.wrap(red, "  ✘ ", 4, f.Subject+": "+f.Text)
	}
}

// sentence is the completion for somebody who has not read the documentation.
func sentence(d *ShutdownReport) string {
	switch {
	case d.Recovered:
		return "was killed."
	case d.Trigger.Kind == TriggerStartup:
		return "did not start."
	case d.Completion == GracefulCompleted:
		return "ended well."
	case d.Completion == ForcedCompleted:
		return "ended by force; everything is accounted for."
	case d.Completion == Failed:
		return "ended, and something failed."
	}
	return "did not end completely; not everything is accounted for."
}

func (p *page) triggers(d *ShutdownReport) {
	if len(d.Triggers) < 2 {
		return
	}
	p.heading("Triggers", "")
	for _, t := range d.Triggers {
		p.line(fmt.Sprintf("  %s  %s %s: %s", right(span(t.TUS), spanColumn), t.Kind, t.Detail, t.Effect))
	}
}

func (p *page) deliveries(d *ShutdownReport) {
	s := &d.Deliveries
	p.heading("Deliveries", "")
	p.sheet("in shutdown", &s.InShutdown)
	if at, proof := s.AtTrigger, s.Proof; s.InShutdown.Received > 0 {
		p.wrap(plain, fit("", sheetLabel), sheetLabel, fmt.Sprintf("at the trigger %s, %s, %s; proven %s, %s, %s",
			tight(thousands(at.Started)+" started"), tight(thousands(at.Buffered)+" buffered"), tight(thousands(at.Settling)+" settling"),
			tight("by window "+thousands(proof.Window)), tight("by barrier "+thousands(proof.Barrier)), tight("after "+span(proof.QuietUS)+" of quiet")))
	}
	p.sheet("since start", &s.SinceStart)
}

func (p *page) sheet(label string, s *Sheet) {
	p.wrap(plain, fit("  "+label, sheetLabel), sheetLabel, s.text())
}

// text is the sheet as an equation, with what else it counted.
func (s *Sheet) text() string {
	text := "received 0"
	if s.Received > 0 || !s.Conserves() {
		text = fmt.Sprintf("received %s %s; %s", thousands(s.Received), s.equation(), tight("started "+thousands(s.Started)))
	}
	for _, more := range []bucket{{"late results", s.LateResults}, {"handler panics", s.HandlerPanics}, {"malformed", s.Malformed}} {
		if more.count > 0 {
			text += "; " + tight(more.name+" "+thousands(more.count))
		}
	}
	return text
}

func (p *page) subscriptions(d *ShutdownReport) {
	if len(d.Subscriptions) == 0 {
		return
	}
	p.heading("Subscriptions", "")
	for i := range d.Subscriptions {
		s := &d.Subscriptions[i]
		h := s.HandlerUS
		text := fmt.Sprintf("%s, prefetch %d, concurrency %d, drain %s", s.State, s.Prefetch, s.Concurrency, s.Drain)
		if h.Count > 0 {
			text += fmt.Sprintf("; handlers %s, %s, %s", tight("p50 "+span(h.P50)), tight("p95 "+span(h.P95)), tight("max "+span(h.Max)))
		}
		if s.QueueAtEnd != nil {
			text += fmt.Sprintf("; at the end %s ready, %s", thousands(s.QueueAtEnd.Ready), tight(plural(s.QueueAtEnd.Consumers, "consumer", "consumers")))
		}
		if !s.LoopJoined {
			text += "; LOOP NOT JOINED"
		}
		p.line("  " + p.paint(bold, s.Queue))
		p.wrap(plain, "    ", 4, text)
		if len(d.Subscriptions) > 1 {
			p.wrap(plain, "    in shutdown ", 16, s.InShutdown.text())
			p.wrap(plain, "    since start ", 16, s.SinceStart.text())
		}
		if len(s.RequeueCauses) > 0 {
			var causes []string
			for _, c := range s.RequeueCauses {
				causes = append(causes, tight(thousands(c.Count)+" "+c.Class))
			}
			p.wrap(plain, "    requeues    ", 16, strings.Join(causes, ", "))
		}
	}
}
