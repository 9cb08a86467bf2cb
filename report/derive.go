package report

import (
	"fmt"
	"slices"
)

// The kinds of evidence that findings and checks read. They are a transport's words for what it observed.
const (
	evidenceCancelWritten     = "cancel_written"
	evidenceCancelOK          = "cancel_ok"
	evidenceCloseWritten      = "close_written"
	evidenceCloseOK           = "close_ok"
	evidenceConnectionCloseOK = "connection_close_ok"
	evidencePeerClose         = "peer_close"
	evidencePeerReset         = "peer_reset"
	evidenceConsumerCancelled = "consumer_cancelled"
	evidenceUnproven          = "unproven"
	evidenceBlocked           = "blocked"
	evidenceUnblocked         = "unblocked"
)

// Findings derives all findings that the document itself supports, errors first, the rest in the order of the document. It
// does not read d.Findings. Whatever keeps the completion from success has at least one of severity error.
func Findings(d *ShutdownReport) []Finding {
	var l findingList
	l.beginning(d)
	l.deliveries(d)
	for i := range d.Resources {
		l.resource(&d.Resources[i], index("resources", i))
	}
	l.runtime(d)
	l.actions(d)
	l.sessions(d)
	return mergeFindings(l.list, nil)
}

func (l *findingList) found(code, subject, detail string, evidence ...string) {
	l.add(NewFinding(code, subject, detail, evidence...))
}

func (l *findingList) beginning(d *ShutdownReport) {
	switch d.Trigger.Kind {
	case TriggerStartup:
		l.found(CodeStartFailed, d.Service.Name, d.Trigger.Detail, "trigger")
	case TriggerFault:
		l.found(CodeFault, d.Service.Name, d.Trigger.Detail, "trigger")
	}
	if d.Force.Used {
		detail := "by " + string(d.Force.Cause)
		if d.Force.TUS != nil {
			detail += ", after " + span(*d.Force.TUS)
		}
		l.found(CodeDrainCutShort, d.Service.Name, detail, "force")
	}
	if d.Budget.OverrunUS > 0 {
		l.found(CodeDeadlineOverrun, d.Service.Name, "by "+span(d.Budget.OverrunUS), "budget.overrun_us")
	}
	if d.Counts.Panics > 0 {
		l.found(CodePanics, d.Service.Name, plural(uint64(d.Counts.Panics), "panic", "panics"), "counts.panics")
	}
}

// counter is a count on the sheets that is worth a finding.
type counter struct {
	code, path string
	count      func(cohort, all *Sheet) uint64
	bucket     string // entries of unsettled that belong to it
	one, many  string
}

var counters = []counter{
	{CodeDeliveryAbandoned, "in_shutdown.abandoned", func(c, _ *Sheet) uint64 { return c.Abandoned }, BucketAbandoned, "delivery", "deliveries"},
	{CodeDeliveryUnresolved, "in_shutdown.unresolved", func(c, _ *Sheet) uint64 { return c.Unresolved }, BucketUnresolved, "delivery", "deliveries"},
	{CodeDeliveryUnplaced, "in_shutdown", func(c, _ *Sheet) uint64 { return c.unplaced() }, "", "delivery", "deliveries"},
	{CodeDeliveryUnplaced, "since_start", func(_, a *Sheet) uint64 { return a.unplaced() }, "", "delivery", "deliveries"},
	{CodeDeliveryInterrupted, "in_shutdown.interrupted", func(c, _ *Sheet) uint64 { return c.Interrupted }, BucketInterrupted, "delivery", "deliveries"},
	{CodeUnresolvedBeforeTrigger, "since_start.unresolved", func(c, a *Sheet) uint64 { return a.Unresolved - min(a.Unresolved, c.Unresolved) },
		"", "delivery", "deliveries"},
	{CodeHandlerPanicked, "since_start.handler_panics", func(_, a *Sheet) uint64 { return a.HandlerPanics }, "", "panic", "panics"},
	{CodeLateResult, "since_start.late_results", func(_, a *Sheet) uint64 { return a.LateResults }, "", "result", "results"},
	{CodeMessageMalformed, "since_start.malformed", func(_, a *Sheet) uint64 { return a.Malformed }, "", "message", "messages"},
}

// unplaced is how far the sheet is from placing every delivery, either way.
func (s *Sheet) unplaced() uint64 {
	placed := s.Placed()
	if s.Received == placed {
		return s.InFlight
	}
	return max(s.Received, placed) - min(s.Received, placed)
}

// deliveries reports each counter per queue, and in total what no subscription owns up to.
func (l *findingList) deliveries(d *ShutdownReport) {
	for _, c := range counters {
		total := c.count(&d.Deliveries.InShutdown, &d.Deliveries.SinceStart)
		for i := range d.Subscriptions {
			s := &d.Subscriptions[i]
			n := c.count(&s.InShutdown, &s.SinceStart)
			if n == 0 {
				continue
			}
			total -= min(total, n)
			evidence := append([]string{index("subscriptions", i) + "." + c.path}, d.lastUnsettled(s.Queue, c.bucket, n)...)
			l.found(c.code, s.Queue, plural(n, c.one, c.many), evidence...)
		}
		if total > 0 {
			l.found(c.code, d.Service.Name, plural(total, c.one, c.many), "deliveries."+c.path)
		}
	}
}

// lastUnsettled returns the paths of the newest n entries of a queue and bucket, oldest first and at most maxPointers; those
// of the shutdown are the newest.
func (d *ShutdownReport) lastUnsettled(queue, bucket string, n uint64) []string {
	var paths []string
	for i := len(d.Unsettled) - 1; i >= 0 && uint64(len(paths)) < min(n, maxPointers); i-- {
		if u := &d.Unsettled[i]; u.Bucket == bucket && u.Queue == queue {
			paths = append(paths, index("unsettled", i))
		}
	}
	slices.Reverse(paths)
	return paths
}

func (l *findingList) resource(r *Resource, path string) {
	if !r.Owned {
		return
	}
	l.observations(r, path)
	switch {
	case r.Advisory && (!r.Succeeded || r.Panicked):
		l.found(CodeAdvisoryFailed, r.Name, r.state(), path)
	case r.Advisory:
	case r.WithheldBy != "":
		l.found(CodeResourceWithheld, r.Name, r.WithheldBy, path+".withheld_by")
	case !r.Started:
		l.found(CodeResourceNotEnded, r.Name, "", path)
	case r.hung():
		l.found(r.codeHung(), r.Name, r.errorText(), path)
	case r.bad():
		code, detail := r.codeBad()
		l.found(code, r.Name, detail, path)
	}
}

// observations reports what a channel's or connection's evidence says, however it ended.
func (l *findingList) observations(r *Resource, path string) {
	if !r.isBroker() {
		return
	}
	evidence := func(kind string) string { return index(path+".evidence", r.evidence(kind)) }
	if r.has(evidenceCancelWritten) && !r.has(evidenceCancelOK) {
		l.found(CodeCancelUnanswered, r.Name, "", evidence(evidenceCancelWritten))
	}
	if r.Kind == kindChannel && r.has(evidenceCloseWritten) && !r.has(evidenceCloseOK) && r.has(evidenceConnectionCloseOK) {
		l.found(CodeChannelCloseUnanswered, r.Name, "", evidence(evidenceCloseWritten), evidence(evidenceConnectionCloseOK))
	}
	if r.has(evidenceUnproven) {
		l.found(CodeAckUnproven, r.Name, r.detail(evidenceUnproven), evidence(evidenceUnproven))
	}
	if r.has(evidenceConsumerCancelled) {
		l.found(CodeConsumerCancelled, r.Name, r.detail(evidenceConsumerCancelled), evidence(evidenceConsumerCancelled))
	}
	if r.evidence(evidenceBlocked) > r.evidence(evidenceUnblocked) {
		l.found(CodeConnectionBlocked, r.Name, r.detail(evidenceBlocked), evidence(evidenceBlocked))
	}
}

func (r *Resource) codeHung() string {
	switch r.Kind {
	case kindTask:
		return CodeTaskAbandoned
	case kindConnection:
		return CodeConnectionCloseUnanswered
	case kindChannel:
		return CodeChannelEndUnobserved
	case kindRuntime:
		return CodeRuntimeNotJoined
	}
	return CodeResourceHung
}

func (r *Resource) codeBad() (code, detail string) {
	switch {
	case r.Kind == kindTask:
		return CodeTaskFailed, r.errorText()
	case r.Kind == kindConnection && r.has(evidencePeerReset):
		return CodeConnectionPeerReset, r.detail(evidencePeerReset)
	case r.Kind == kindConnection && r.has(evidencePeerClose):
		return CodeConnectionPeerClosed, r.detail(evidencePeerClose)
	case r.Kind == kindChannel && r.has(evidencePeerReset):
		return CodeChannelPeerClosed, r.detail(evidencePeerReset)
	case r.Kind == kindChannel && r.has(evidencePeerClose):
		return CodeChannelPeerClosed, r.detail(evidencePeerClose)
	}
	return CodeResourceFailed, r.errorText()
}

// state says in the words of the flags how far the end of r came.
func (r *Resource) state() string {
	state := "succeeded"
	switch {
	case !r.Owned:
		return "borrowed"
	case r.WithheldBy != "":
		return "withheld by " + r.WithheldBy
	case !r.Started:
		return "not started"
	case !r.Terminal:
		state = "started, not terminal"
	case !r.Succeeded:
		state = "terminal, not succeeded"
	}
	if text := r.errorText(); text != "" {
		state += ": " + text
	}
	return state
}

func (r *Resource) errorText() string {
	text := ""
	if r.Error != nil {
		text = r.Error.Text
	}
	if r.Panicked {
		return "panicked: " + text
	}
	return text
}

// evidence is the index of the last observation of a kind, -1 if there is none.
func (r *Resource) evidence(kind string) int {
	for i := len(r.Evidence) - 1; i >= 0; i-- {
		if r.Evidence[i].Kind == kind {
			return i
		}
	}
	return -1
}

func (r *Resource) has(kind string) bool { return r.evidence(kind) >= 0 }

// detail is the detail of the last observation of a kind, or the resource's error if it has none.
func (r *Resource) detail(kind string) string {
	if i := r.evidence(kind); i >= 0 && r.Evidence[i].Detail != "" {
		return r.Evidence[i].Detail
	}
	return r.errorText()
}

func (l *findingList) runtime(d *ShutdownReport) {
	if d.RuntimeJoined || slices.ContainsFunc(l.list, func(f Finding) bool { return f.Code == CodeRuntimeNotJoined }) {
		return
	}
	evidence := []string{"runtime_joined"}
	for i := range d.Subscriptions {
		if !d.Subscriptions[i].LoopJoined {
			evidence = append(evidence, index("subscriptions", i)+".loop_joined")
		}
	}
	l.found(CodeRuntimeNotJoined, d.Service.Name, "", evidence...)
}

// actions reports the actions that went wrong, unless an error of something else already names their subject.
func (l *findingList) actions(d *ShutdownReport) {
	explained := make(map[string]bool)
	for _, f := range l.list {
		explained[f.Subject] = explained[f.Subject] || f.Severity == SeverityError
	}
	for i := range d.Phases {
		for j := range d.Phases[i].Actions {
			a := &d.Phases[i].Actions[j]
			if !a.bad() && !a.unconfirmed() || explained[a.Name] {
				continue
			}
			path := index(index("phases", i)+".actions", j)
			detail := fmt.Sprintf("in %s, %s", d.Phases[i].Phase, a.outcome())
			if a.Error != nil {
				detail += ": " + a.Error.Text
			}
			switch {
			case a.Advisory:
				l.found(CodeAdvisoryFailed, a.Name, detail, path)
			case a.unconfirmed():
				l.found(CodeActionUnconfirmed, a.Name, detail, path)
			default:
				l.found(CodeActionFailed, a.Name, detail, path)
			}
		}
	}
}

// outcome says both halves in one phrase, the second only if it was needed.
func (a *Action) outcome() string {
	if a.Forced == ForcedNotNeeded {
		return string(a.Graceful)
	}
	return fmt.Sprintf("%s, by force %s", a.Graceful, a.Forced)
}

// sessions reports the sessions that were lost before the trigger, one finding per transport.
func (l *findingList) sessions(d *ShutdownReport) {
	lost := make(map[string][]string)
	last := make(map[string]*Session)
	var transports []string
	for i := range d.Sessions {
		s := &d.Sessions[i]
		if s.EndedAt == nil || !s.EndedAt.Before(d.Trigger.At.Time) || s.End == evidenceCloseOK {
			continue
		}
		if last[s.Transport] == nil {
			transports = append(transports, s.Transport)
		}
		lost[s.Transport] = append(lost[s.Transport], index("sessions", i))
		last[s.Transport] = s
	}
	for _, t := range transports {
		s := last[t]
		detail := fmt.Sprintf("%s, the last one %s", plural(uint64(len(lost[t])), "session", "sessions"), s.End)
		if s.Text != "" {
			detail += fmt.Sprintf(" (%d %s)", s.Code, s.Text)
		}
		l.found(CodeSessionLost, t, detail, lost[t]...)
	}
}
