package report

// Exit codes. 64 (usage) and those of the Go runtime and of signals are never a report's.
const (
	exitOK                = 0
	exitFailed            = 1
	exitPanic             = 2
	exitDrainCutShort     = 3
	exitBrokerUnavailable = 69
	exitConfiguration     = 78
)

// The kinds of resource that classification tells apart.
const (
	kindChannel    = "channel"
	kindConnection = "connection"
	kindTask       = "task"
	kindRuntime    = "runtime"
)

// Classify returns how the shutdown ended. It is a pure function of what d observed: it reads none of the fields that Judge
// fills in. The first rule that matches wins; what is borrowed or advisory counts in none.
//
//  1. incomplete: an end not observed, an action unconfirmed, a delivery not accounted for, the runtime not joined
//  2. failed: a startup or a fault triggered it, or something ended badly
//  3. forced_completed: force was used, and everything is accounted for
//  4. graceful_completed
func Classify(d *ShutdownReport) Completion {
	switch {
	case incomplete(d):
		return Incomplete
	case failed(d):
		return Failed
	case d.Force.Used:
		return ForcedCompleted
	default:
		return GracefulCompleted
	}
}

// incomplete is rule 1.
func incomplete(d *ShutdownReport) bool {
	cohort := &d.Deliveries.InShutdown
	if !d.RuntimeJoined || cohort.Abandoned > 0 || cohort.Unresolved > 0 || !conserved(d) {
		return true
	}
	for i := range d.Resources {
		if r := &d.Resources[i]; r.counts() && (r.hung() || r.WithheldBy != "") {
			return true
		}
	}
	return anyAction(d, func(a *Action) bool { return !a.Advisory && a.unconfirmed() })
}

// failed is rule 2. A channel or connection whose close was not answered is terminal and not succeeded, like a closer that
// returned an error.
func failed(d *ShutdownReport) bool {
	if d.Trigger.Kind == TriggerStartup || d.Trigger.Kind == TriggerFault {
		return true
	}
	for i := range d.Resources {
		if r := &d.Resources[i]; r.counts() && r.bad() {
			return true
		}
	}
	return anyAction(d, func(a *Action) bool { return !a.Advisory && a.bad() })
}

// conserved reports whether every sheet places every delivery.
func conserved(d *ShutdownReport) bool {
	all := true
	d.sheets(func(_ string, s *Sheet) { all = all && s.Conserves() })
	return all
}

func anyAction(d *ShutdownReport, match func(*Action) bool) bool {
	for i := range d.Phases {
		for j := range d.Phases[i].Actions {
			if match(&d.Phases[i].Actions[j]) {
				return true
			}
		}
	}
	return false
}

// counts reports whether r weighs on the classification.
func (r *Resource) counts() bool { return r.Owned && !r.Advisory }

// hung: its end began and was not observed.
func (r *Resource) hung() bool { return r.Started && !r.Terminal }

// bad: its end was observed, and it was not as it should be.
func (r *Resource) bad() bool { return r.Panicked || (r.Terminal && !r.Succeeded) }

// unconfirmed: nobody saw the action end. A missing outcome, or one of no known name, is not an end.
func (a *Action) unconfirmed() bool {
	if !a.accounted() || a.Forced == ForcedTimedOut || a.Forced == ForcedUnavailable {
		return true
	}
	return a.Forced == ForcedNotNeeded && (a.Graceful == GracefulTimedOut || a.Graceful == GracefulCutByForce)
}

// bad: a half of the action failed or panicked, even if the other one succeeded.
func (a *Action) bad() bool {
	return a.Panicked || a.Graceful == GracefulFailed || a.Graceful == GracefulPanicked ||
		a.Forced == ForcedFailed || a.Forced == ForcedPanicked
}

// accounted: both halves have an outcome, and they are not the illegal {not_started, not_needed}.
func (a *Action) accounted() bool {
	return a.Graceful.known() && a.Forced.known() && !(a.Graceful == GracefulNotStarted && a.Forced == ForcedNotNeeded)
}

// completed: the graceful half completed and needed no other, or the force half did.
func (a *Action) completed() bool {
	return a.Forced == ForcedDone || (a.Graceful == GracefulDone && a.Forced == ForcedNotNeeded)
}

func (o GracefulOutcome) known() bool {
	switch o {
	case GracefulDone, GracefulFailed, GracefulPanicked, GracefulTimedOut, GracefulCutByForce, GracefulNotStarted:
		return true
	}
	return false
}

func (o ForcedOutcome) known() bool {
	switch o {
	case ForcedNotNeeded, ForcedDone, ForcedFailed, ForcedPanicked, ForcedTimedOut, ForcedUnavailable:
		return true
	}
	return false
}

// Succeeded reports whether a completion accounts for everything.
func (c Completion) Succeeded() bool { return c == GracefulCompleted || c == ForcedCompleted }

// ExitCode returns the process exit code d stands for and the rule that chose it. Like Classify it is a pure function of what
// d observed. A recovered report exits 1 (killed): its process had no exit of its own.
func ExitCode(d *ShutdownReport) (int, ExitReason) {
	completion := Classify(d)
	switch {
	case d.Recovered:
		return exitFailed, ReasonKilled
	case d.Trigger.Kind == TriggerStartup:
		return startupCode(d.Trigger.Detail)
	case d.Force.Used || abandoned(d):
		return exitDrainCutShort, ReasonDrainCutShort
	case d.Counts.Panics > 0:
		return exitPanic, ReasonPanic
	case completion == Failed:
		return exitFailed, ReasonFailed
	case completion == Incomplete:
		return exitFailed, ReasonIncomplete
	default:
		return exitOK, ReasonClean
	}
}

func startupCode(detail string) (int, ExitReason) {
	switch detail {
	case StartupBrokerUnavailable:
		return exitBrokerUnavailable, ReasonBrokerUnavailable
	case StartupConfiguration:
		return exitConfiguration, ReasonConfiguration
	default:
		return exitFailed, ReasonStartup
	}
}

// abandoned reports whether a delivery or a task was left running.
func abandoned(d *ShutdownReport) bool {
	if d.Deliveries.InShutdown.Abandoned > 0 {
		return true
	}
	for i := range d.Resources {
		if r := &d.Resources[i]; r.Kind == kindTask && r.counts() && r.hung() {
			return true
		}
	}
	return false
}

// RollUp returns the one exit code of a process with several reports: a startup's code wins outright, otherwise the highest.
// Without reports it is 0.
func RollUp(reports ...*ShutdownReport) int {
	var code, startup int
	for _, d := range reports {
		c, _ := ExitCode(d)
		if d.Trigger.Kind == TriggerStartup {
			startup = max(startup, c)
		}
		code = max(code, c)
	}
	if startup > 0 {
		return startup
	}
	return code
}

// MessagesVerdict judges the deliveries of the shutdown alone: unknown if one is abandoned, unresolved or has no bucket,
// duplicates_possible if one was interrupted, otherwise clean.
func MessagesVerdict(d *ShutdownReport) Verdict {
	cohort := &d.Deliveries.InShutdown
	switch {
	case cohort.Abandoned > 0 || cohort.Unresolved > 0 || !cohort.Conserves():
		return VerdictUnknown
	case cohort.Interrupted > 0:
		return VerdictDuplicates
	default:
		return VerdictClean
	}
}

// Judge fills in what follows from the rest of the document: conserved on every sheet, completion, success, exit_code,
// exit_reason, messages, coordinator_accounted, coordinator_complete, queue_drain_reconciled, queue_close_reconciled and the
// derived findings. It changes nothing else, and judging twice changes nothing.
//
// What it takes as given: runtime_joined and each subscription's loop_joined, which only whoever joined them can know.
func Judge(d *ShutdownReport) {
	d.sheets(func(_ string, s *Sheet) { s.Conserved = s.Conserves() })
	d.Completion = Classify(d)
	d.Success = d.Completion.Succeeded()
	d.ExitCode, d.ExitReason = ExitCode(d)
	d.Messages.Verdict = MessagesVerdict(d)
	d.CoordinatorAccounted = !anyAction(d, func(a *Action) bool { return !a.accounted() })
	d.CoordinatorComplete = !anyAction(d, func(a *Action) bool { return !a.completed() })
	d.QueueDrainReconciled = drainReconciled(d)
	d.QueueCloseReconciled = d.QueueDrainReconciled && closeReconciled(d)
	d.Findings = mergeFindings(d.Findings, Findings(d))
}

func drainReconciled(d *ShutdownReport) bool {
	cohort := &d.Deliveries.InShutdown
	if cohort.Abandoned > 0 || cohort.Unresolved > 0 || !cohort.Conserves() {
		return false
	}
	for i := range d.Subscriptions {
		if s := &d.Subscriptions[i]; !s.LoopJoined || !s.InShutdown.Conserves() {
			return false
		}
	}
	return true
}

// closeReconciled reports whether every channel and connection alive at the trigger was closed with a close-ok: resources
// list no others.
func closeReconciled(d *ShutdownReport) bool {
	for i := range d.Resources {
		if r := &d.Resources[i]; r.Owned && r.isBroker() && !r.Succeeded {
			return false
		}
	}
	return true
}

func (r *Resource) isBroker() bool { return r.Kind == kindChannel || r.Kind == kindConnection }
