package report

import (
	"fmt"
	"time"
)

// Time is an instant as the report writes it: RFC 3339, UTC, microseconds.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000000Z07:00"

// At wraps t.
func At(t time.Time) Time { return Time{t.UTC().Round(0).Truncate(time.Microsecond)} }

// String is t as the document writes it.
func (t Time) String() string { return t.UTC().Format(timeLayout) }

// MarshalJSON writes String in quotes.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalJSON reads any RFC 3339 time whose year in UTC has four digits.
func (t *Time) UnmarshalJSON(b []byte) error {
	var std time.Time
	if err := std.UnmarshalJSON(b); err != nil {
		return fmt.Errorf("report: time: %w", err)
	}
	at := At(std)
	if y := at.Year(); y < 0 || y > 9999 {
		return fmt.Errorf("report: time: the year %d in UTC has no RFC 3339 form", y)
	}
	*t = at
	return nil
}

// TriggerKind says what asked for the end.
type TriggerKind string

// The kinds of trigger.
const (
	TriggerSignal  TriggerKind = "signal"
	TriggerAPI     TriggerKind = "api"
	TriggerContext TriggerKind = "context"
	TriggerFault   TriggerKind = "fault"
	TriggerStartup TriggerKind = "startup"
)

// Effect is what one request to end changed.
type Effect string

// The effects.
const (
	EffectGraceful  Effect = "graceful"
	EffectForce     Effect = "force"
	EffectAbandon   Effect = "abandon"
	EffectDuplicate Effect = "duplicate"
	EffectNone      Effect = "none"
	EffectTooLate   Effect = "too_late"
)

// ForceCause says what gave the force notice; empty while force was not used.
type ForceCause string

// The causes of force.
const (
	ForceDeadline ForceCause = "deadline"
	ForceSignal   ForceCause = "signal"
	ForceAPI      ForceCause = "api"
)

// Completion is how the shutdown ended.
type Completion string

// The completions, in falling order of merit.
const (
	GracefulCompleted Completion = "graceful_completed"
	ForcedCompleted   Completion = "forced_completed"
	Failed            Completion = "failed"
	Incomplete        Completion = "incomplete"
)

// Verdict is the judgement on the messages.
type Verdict string

// The verdicts.
const (
	VerdictClean      Verdict = "clean"
	VerdictDuplicates Verdict = "duplicates_possible"
	VerdictUnknown    Verdict = "unknown"
)

// ExitReason names the rule that chose the exit code.
type ExitReason string

// The exit reasons with their codes.
const (
	ReasonClean             ExitReason = "clean"              // 0
	ReasonFailed            ExitReason = "failed"             // 1
	ReasonIncomplete        ExitReason = "incomplete"         // 1
	ReasonStartup           ExitReason = "startup"            // 1
	ReasonPanic             ExitReason = "panic"              // 2
	ReasonDrainCutShort     ExitReason = "drain_cut_short"    // 3
	ReasonBrokerUnavailable ExitReason = "broker_unavailable" // 69
	ReasonConfiguration     ExitReason = "configuration"      // 78
	ReasonKilled            ExitReason = "killed"             // recovered reports only
)

// GracefulOutcome is how the graceful half of an action ended.
type GracefulOutcome string

// The graceful outcomes.
const (
	GracefulDone       GracefulOutcome = "completed"
	GracefulFailed     GracefulOutcome = "failed"
	GracefulPanicked   GracefulOutcome = "panicked"
	GracefulTimedOut   GracefulOutcome = "timed_out"
	GracefulCutByForce GracefulOutcome = "cut_by_force"
	GracefulNotStarted GracefulOutcome = "not_started"
)

// ForcedOutcome is how the force half of an action ended.
type ForcedOutcome string

// The forced outcomes. {not_started, not_needed} is illegal.
const (
	ForcedNotNeeded   ForcedOutcome = "not_needed"
	ForcedDone        ForcedOutcome = "completed"
	ForcedFailed      ForcedOutcome = "failed"
	ForcedPanicked    ForcedOutcome = "panicked"
	ForcedTimedOut    ForcedOutcome = "timed_out"
	ForcedUnavailable ForcedOutcome = "unavailable"
)

// Severity grades a finding.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityInfo    Severity = "info"
)
