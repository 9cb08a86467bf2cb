package report

import (
	"fmt"
	"strings"
)

// resources, sessions, unsettled and findings are the part of the page that is empty, or nearly, after a good shutdown.

func (p *page) resources(d *ShutdownReport) {
	if len(d.Resources) == 0 {
		return
	}
	var owned, succeeded, borrowed int
	for i := range d.Resources {
		switch r := &d.Resources[i]; {
		case !r.Owned:
			borrowed++
		case r.Succeeded:
			owned, succeeded = owned+1, succeeded+1
		default:
			owned++
		}
	}
	p.heading("Resources", fmt.Sprintf("  %d of %d owned ended as they should, %d borrowed", succeeded, owned, borrowed))
	for i := range d.Resources {
		if r := &d.Resources[i]; r.Owned && (!r.Succeeded || r.Panicked) {
			p.resource(r)
		}
	}
}

func (p *page) resource(r *Resource) {
	s, text := red, r.state()
	if r.Advisory {
		s, text = yellow, "advisory, "+text
	}
	if r.ElapsedUS > 0 {
		text += fmt.Sprintf(" (%s)", tight(span(r.ElapsedUS)))
	}
	p.wrap(s, "  ! "+r.Name+" ", 6, "("+r.Kind+") "+text)
	var seen []string
	for _, e := range r.Evidence {
		at := tight(span(e.TUS) + " " + e.Kind)
		if e.Detail != "" && (r.Error == nil || e.Detail != r.Error.Text) {
			at += ": " + e.Detail
		}
		seen = append(seen, at)
	}
	if len(seen) > 0 {
		p.wrap(plain, "      observed ", 15, strings.Join(seen, "; "))
	}
}

// sessions lists those that did not end by our close, answered.
func (p *page) sessions(d *ShutdownReport) {
	headed := false
	for i := range d.Sessions {
		s := &d.Sessions[i]
		if s.End == evidenceCloseOK && s.Unresolved == 0 {
			continue
		}
		if !headed {
			p.heading("Sessions", fmt.Sprintf("  %d since the start; those that did not end by an answered close", len(d.Sessions)))
			headed = true
		}
		text := "opened " + sinceTrigger(d, s.OpenedAt) + ", its end was not observed"
		if s.EndedAt != nil {
			text = fmt.Sprintf("opened %s, ended %s by %s", sinceTrigger(d, s.OpenedAt), sinceTrigger(d, *s.EndedAt), s.End)
		}
		if s.Text != "" {
			text += fmt.Sprintf(" (%d %s)", s.Code, s.Text)
		}
		if s.Released+s.Unresolved > 0 {
			text += fmt.Sprintf("; released %s, unresolved %s", thousands(s.Released), thousands(s.Unresolved))
		}
		lead := fmt.Sprintf("  %s %d  ", s.Transport, s.N)
		p.wrap(plain, lead, textWidth(lead), text)
	}
}

// sinceTrigger is an instant as people count from the trigger.
func sinceTrigger(d *ShutdownReport, t Time) string {
	us := t.Sub(d.Trigger.At.Time).Microseconds()
	if us < 0 {
		return tight(span(-us)) + " before the trigger"
	}
	return tight(span(us)) + " after it"
}

func (p *page) unsettled(d *ShutdownReport) {
	total := len(d.Unsettled) + d.UnsettledOmitted
	if total == 0 {
		return
	}
	note := fmt.Sprintf("  %d; queue session/tag message", total)
	if d.UnsettledOmitted > 0 {
		note = fmt.Sprintf("  %d, of which the report omits %d; queue session/tag message", total, d.UnsettledOmitted)
	}
	p.heading("Unsettled", p.paint(faint, note))
	var stacks []int
	for i := range d.Unsettled {
		if i == maxUnsettled {
			p.line(fmt.Sprintf("  … and %d more in the report", len(d.Unsettled)-maxUnsettled))
			break
		}
		u := &d.Unsettled[i]
		text := fmt.Sprintf("%s; %s, %s", strings.TrimSpace(fmt.Sprintf("%s %d/%s %s", u.Queue, u.Session, u.DeliveryTag, u.MessageID)),
			tight("handler "+span(u.HandlerUS)), tight("settlement "+u.Settlement))
		if u.Redelivered {
			text += ", redelivered"
		}
		if u.Detail != "" {
			text += "; " + u.Detail
		}
		if u.Stack >= 0 && u.Stack < len(d.Stacks) {
			text += "; " + tight(fmt.Sprintf("stack %d", u.Stack))
			stacks = append(stacks, u.Stack)
		}
		indent := 4 + len(BucketInterrupted)
		p.wrap(plain, fit("  "+u.Bucket, indent), indent, text)
	}
	p.stacks(d, stacks)
}

// stacks writes each stack that is named, once.
func (p *page) stacks(d *ShutdownReport, named []int) {
	shown := make(map[int]bool)
	for _, i := range named {
		if shown[i] {
			continue
		}
		shown[i] = true
		p.heading(fmt.Sprintf("Stack %d", i), "")
		lines := strings.Split(strings.TrimRight(d.Stacks[i], "\n"), "\n")
		for j, line := range lines {
			if j == maxStackLines {
				p.line(fmt.Sprintf("  … and %d more lines in the report", len(lines)-j))
				break
			}
			p.line("  " + strings.TrimRight(fit(strings.ReplaceAll(line, "\t", "    "), p.width-2), " "))
		}
	}
}

func (p *page) findings(d *ShutdownReport) {
	if len(d.Findings) == 0 {
		return
	}
	p.heading("Findings", "")
	for i := range d.Findings {
		f := &d.Findings[i]
		s := plain
		switch f.Severity {
		case SeverityError:
			s = red
		case SeverityWarning:
			s = yellow
		}
		p.line("  " + p.paint(s, fit(string(f.Severity), 9)+f.Code) + "  " + f.Subject)
		p.wrap(plain, strings.Repeat(" ", 11), 11, f.Text)
		if len(f.Evidence) > 0 {
			p.wrap(faint, strings.Repeat(" ", 11)+"see ", 15, strings.Join(f.Evidence, ", "))
		}
	}
}

func (p *page) footer(d *ShutdownReport) {
	p.line("")
	by := fmt.Sprintf("report %s of %s %s on %s (pid %d), triggered %s; lastcall %s, %s", d.ReportID, d.Service.Name, d.Service.Version,
		d.Service.Instance, d.Service.PID, d.Trigger.At, d.Service.Lastcall, d.Service.Go)
	if d.Broker.Product != "" {
		by += fmt.Sprintf(", %s %s at %s as %s", d.Broker.Product, d.Broker.Version, d.Broker.Node, d.Broker.ConnectionName)
	}
	p.wrap(plain, "", 0, by)
	p.wrap(plain, "", 0, d.Digest)
}
