package report

import (
	"cmp"
	"slices"
)

// The codes of findings. Each has one severity and one sentence, see Codes; a finding's text is the sentence and, after a
// colon, what is particular to it. Those marked (builder) cannot be seen in the document and come from whoever builds it.
const (
	// Why it is not a success, or may not be.
	CodeStartFailed               = "start_failed"
	CodeFault                     = "fault"
	CodeDeliveryAbandoned         = "delivery_abandoned"
	CodeDeliveryUnresolved        = "delivery_unresolved"
	CodeDeliveryUnplaced          = "delivery_unplaced"
	CodeRuntimeNotJoined          = "runtime_not_joined"
	CodeTaskAbandoned             = "task_abandoned"
	CodeTaskFailed                = "task_failed"
	CodeResourceHung              = "resource_hung"
	CodeResourceFailed            = "resource_failed"
	CodeResourceWithheld          = "resource_withheld"
	CodeActionUnconfirmed         = "action_unconfirmed"
	CodeActionFailed              = "action_failed"
	CodeConnectionCloseUnanswered = "connection_close_unanswered"
	CodeConnectionPeerClosed      = "connection_peer_closed"
	CodeConnectionPeerReset       = "connection_peer_reset"
	CodeChannelEndUnobserved      = "channel_end_unobserved"
	CodeChannelPeerClosed         = "channel_peer_closed"

	// What is accounted for, and should be known.
	CodeDrainCutShort           = "drain_cut_short"
	CodeDeadlineOverrun         = "deadline_overrun"
	CodePanics                  = "panics"
	CodeDeliveryInterrupted     = "delivery_interrupted"
	CodeUnresolvedBeforeTrigger = "unresolved_before_trigger"
	CodeAckUnproven             = "ack_unproven"
	CodeCancelUnanswered        = "cancel_unanswered"
	CodeChannelCloseUnanswered  = "channel_close_unanswered"
	CodeConsumerCancelled       = "consumer_cancelled"
	CodeConnectionBlocked       = "connection_blocked"
	CodeSessionLost             = "session_lost"
	CodeResourceNotEnded        = "resource_not_ended"
	CodeAdvisoryFailed          = "advisory_failed"
	CodeHandlerPanicked         = "handler_panicked"
	CodeHandlerNoOutcome        = "handler_no_outcome"   // builder
	CodeSettleRefused           = "settle_refused"       // builder
	CodePlatformGraceShort      = "platform_grace_short" // builder
	CodeMemoryBrokerLeft        = "memory_broker_left"   // builder
	CodeLogLinesDropped         = "log_lines_dropped"    // builder
	CodeReportNotStored         = "report_not_stored"    // builder, where a report was stored before

	CodeLateResult       = "late_result"
	CodeMessageMalformed = "message_malformed"
)

// CodeInfo is what is fixed about a code.
type CodeInfo struct {
	Code     string
	Severity Severity
	Sentence string
}

// Codes lists every code with its severity and its sentence, errors first.
func Codes() []CodeInfo { return slices.Clone(codes) }

var codes = []CodeInfo{
	{CodeStartFailed, SeverityError, "the start failed, and what had been started was rolled back"},
	{CodeFault, SeverityError, "a fault ended the run"},
	{CodeDeliveryAbandoned, SeverityError, "the handler did not come back; the message may be handled twice"},
	{CodeDeliveryUnresolved, SeverityError, "a settlement was due and is not proven; the message may be handled twice"},
	{CodeDeliveryUnplaced, SeverityError, "deliveries were received and their end is not known"},
	{CodeRuntimeNotJoined, SeverityError, "goroutines of Lastcall were still running when the report was sealed"},
	{CodeTaskAbandoned, SeverityError, "the task did not come back"},
	{CodeTaskFailed, SeverityError, "the task ended with an error"},
	{CodeResourceHung, SeverityError, "its end began and was not observed"},
	{CodeResourceFailed, SeverityError, "it ended with an error"},
	{CodeResourceWithheld, SeverityError, "it was not closed, because running code may still use it"},
	{CodeActionUnconfirmed, SeverityError, "the action was not seen to end"},
	{CodeActionFailed, SeverityError, "the action failed"},
	{CodeConnectionCloseUnanswered, SeverityError, "the broker did not answer the close of the connection"},
	{CodeConnectionPeerClosed, SeverityError, "the broker closed the connection"},
	{CodeConnectionPeerReset, SeverityError, "the peer dropped the connection without a word"},
	{CodeChannelEndUnobserved, SeverityError, "the end of the channel was not observed"},
	{CodeChannelPeerClosed, SeverityError, "the channel did not end by our close"},

	{CodeDrainCutShort, SeverityWarning, "work was unfinished when the force notice was given"},
	{CodeDeadlineOverrun, SeverityWarning, "the shutdown took longer than its budget"},
	{CodePanics, SeverityWarning, "something other than a handler panicked"},
	{CodeDeliveryInterrupted, SeverityWarning, "the handler was told to stop and came back without an outcome; the message will be handled again"},
	{CodeUnresolvedBeforeTrigger, SeverityWarning, "before the shutdown, settlements were lost with their session; those messages may have been handled twice"},
	{CodeAckUnproven, SeverityWarning, "the broker did not prove the last settlements before the channel ended"},
	{CodeCancelUnanswered, SeverityWarning, "the broker did not answer the cancel of the consumer"},
	{CodeChannelCloseUnanswered, SeverityWarning, "the broker did not answer the close of the channel, only that of its connection"},
	{CodeConsumerCancelled, SeverityWarning, "the broker cancelled the consumer"},
	{CodeConnectionBlocked, SeverityWarning, "the broker was blocking the connection"},
	{CodeSessionLost, SeverityWarning, "before the shutdown, a broker session was lost"},
	{CodeResourceNotEnded, SeverityWarning, "it is owned, and its end never began"},
	{CodeAdvisoryFailed, SeverityWarning, "it did not end as it should; it is advisory and does not count"},
	{CodeHandlerPanicked, SeverityWarning, "handlers panicked; their messages were settled by on_error"},
	{CodeHandlerNoOutcome, SeverityWarning, "the handler returned the zero Outcome, which counts as an error"},
	{CodeSettleRefused, SeverityWarning, "a delivery was to be settled twice; the second time was refused"},
	{CodePlatformGraceShort, SeverityWarning, "the platform grants less time than is configured; the shutdown was planned inside what it grants"},
	{CodeMemoryBrokerLeft, SeverityWarning, "messages were left in the in-process broker and are gone with the process"},
	{CodeLogLinesDropped, SeverityWarning, "log lines were dropped because their reader was too slow"},
	{CodeReportNotStored, SeverityWarning, "an earlier report could not be stored"},

	{CodeLateResult, SeverityInfo, "results that came after their delivery had ended were recorded and not sent"},
	{CodeMessageMalformed, SeverityInfo, "messages could not be decoded or were too large"},
}

// NewFinding returns the finding of a code, with the severity and the sentence that belong to it. detail is what is particular
// to it, empty if nothing is. evidence are paths into the document, such as "unsettled[0]". A code that is not in Codes is a
// warning whose text is its detail.
func NewFinding(code, subject, detail string, evidence ...string) Finding {
	f := Finding{Severity: SeverityWarning, Code: code, Subject: subject, Text: detail, Evidence: evidence}
	if i := slices.IndexFunc(codes, func(c CodeInfo) bool { return c.Code == code }); i >= 0 {
		f.Severity, f.Text = codes[i].Severity, codes[i].Sentence
		if detail != "" {
			f.Text += ": " + detail
		}
	}
	return f
}

// maxPointers caps the evidence of one finding.
const maxPointers = 16

// findingList collects findings; what says the same of the same subject becomes one, with the evidence of all.
type findingList struct {
	list []Finding
	at   map[findingKey]int
}

type findingKey struct{ code, subject string }

func (l *findingList) add(f Finding) {
	key := findingKey{f.Code, f.Subject}
	if i, ok := l.at[key]; ok {
		l.list[i].Evidence = joinPointers(l.list[i].Evidence, f.Evidence)
		return
	}
	if l.at == nil {
		l.at = make(map[findingKey]int)
	}
	l.at[key] = len(l.list)
	f.Evidence = joinPointers(nil, f.Evidence)
	l.list = append(l.list, f)
}

func joinPointers(have, more []string) []string {
	for _, p := range more {
		if len(have) < maxPointers && !slices.Contains(have, p) {
			have = append(have, p)
		}
	}
	return have
}

// mergeFindings puts given before derived, makes one of what says the same of the same subject, and puts errors first.
func mergeFindings(given, derived []Finding) []Finding {
	var l findingList
	for _, f := range slices.Concat(given, derived) {
		l.add(f)
	}
	slices.SortStableFunc(l.list, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	return l.list
}

// rank orders severities: errors first, what is unknown last.
func (s Severity) rank() int {
	switch s {
	case SeverityError:
		return 0
	case SeverityWarning:
		return 1
	case SeverityInfo:
		return 2
	}
	return 3
}
