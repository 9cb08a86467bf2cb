package report_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lastcall-go/lastcall/report"
)

// TestFindings has what the walk-through has not: each change of the clean report, and the findings it gives.
func TestFindings(t *testing.T) {
	type doc = *report.ShutdownReport
	channel := func(kinds ...string) func(doc) {
		return func(d doc) {
			r := resource(d, "amqp-channel:orders")
			r.Evidence = nil
			for _, kind := range kinds {
				r.Evidence = append(r.Evidence, report.Evidence{Kind: kind, Detail: "why " + kind})
			}
		}
	}
	flags := func(name string, terminal bool) func(doc) {
		return func(d doc) { r := resource(d, name); r.Terminal, r.Succeeded = terminal, false }
	}
	finding := func(code, subject, detail string, evidence ...string) []report.Finding {
		return []report.Finding{report.NewFinding(code, subject, detail, evidence...)}
	}
	for name, tc := range map[string]struct {
		change func(doc)
		want   []report.Finding
	}{
		"nothing": {func(doc) {}, nil},
		"a fault": {func(d doc) { d.Trigger.Kind, d.Trigger.Detail = report.TriggerFault, "task reaper failed" },
			finding("fault", "orders", "task reaper failed", "trigger")},
		"an overrun":     {func(d doc) { d.Budget.OverrunUS = 1_500 }, finding("deadline_overrun", "orders", "by 1.5 ms", "budget.overrun_us")},
		"task abandoned": {flags("reaper", false), finding("task_abandoned", "reaper", "", "resources[4]")},
		"task failed":    {flags("reaper", true), finding("task_failed", "reaper", "", "resources[4]")},
		"connection closed by the peer": {func(d doc) {
			r := resource(d, "amqp-connection:1")
			r.Succeeded, r.Evidence = false, []report.Evidence{{Kind: "peer_close", Detail: "320 CONNECTION_FORCED"}}
		}, finding("connection_peer_closed", "amqp-connection:1", "320 CONNECTION_FORCED", "resources[2]")},
		"channel closed by the peer": {func(d doc) {
			r := resource(d, "amqp-channel:orders")
			r.Succeeded, r.Evidence = false, []report.Evidence{{Kind: "peer_close", Detail: "406 PRECONDITION_FAILED"}}
		}, finding("channel_peer_closed", "amqp-channel:orders", "406 PRECONDITION_FAILED", "resources[3]")},
		"channel failed otherwise": {func(d doc) {
			channel()(d)
			flags("amqp-channel:orders", true)(d)
		}, finding("resource_failed", "amqp-channel:orders", "", "resources[3]")},
		"channel close unanswered": {channel("close_written", "connection_close_ok"),
			finding("channel_close_unanswered", "amqp-channel:orders", "", "resources[3].evidence[0]", "resources[3].evidence[1]")},
		"channel close never asked for":        {channel("connection_close_ok"), nil},
		"cancel unanswered":                    {channel("cancel_written", "close_ok"), finding("cancel_unanswered", "amqp-channel:orders", "", "resources[3].evidence[0]")},
		"unproven":                             {channel("unproven", "close_ok"), finding("ack_unproven", "amqp-channel:orders", "why unproven", "resources[3].evidence[0]")},
		"cancelled by the broker":              {channel("consumer_cancelled", "close_ok"), finding("consumer_cancelled", "amqp-channel:orders", "why consumer_cancelled", "resources[3].evidence[0]")},
		"blocked":                              {channel("unblocked", "blocked", "close_ok"), finding("connection_blocked", "amqp-channel:orders", "why blocked", "resources[3].evidence[1]")},
		"blocked, no longer":                   {channel("blocked", "unblocked", "close_ok"), nil},
		"an advisory resource that ended well": {func(d doc) { resource(d, "postgres").Advisory = true }, nil},
		"a borrowed resource":                  {func(d doc) { resource(d, "config").Error = &report.Error{} }, nil},
		"runtime, without a resource": {func(d doc) {
			d.RuntimeJoined, d.Subscriptions[0].LoopJoined = false, false
			d.Resources = d.Resources[:6]
		}, finding("runtime_not_joined", "orders", "", "runtime_joined", "subscriptions[0].loop_joined")},
		"an action like its resource": {func(d doc) {
			flags("postgres", false)(d)
			action(d, "dispose", "postgres").Graceful = report.GracefulTimedOut
		}, finding("resource_hung", "postgres", "", "resources[1]")},
		"an action twice": {func(d doc) {
			action(d, "close_admission", "orders").Graceful = report.GracefulTimedOut
			action(d, "drain", "orders").Graceful = report.GracefulTimedOut
		}, finding("action_unconfirmed", "orders", "in close_admission, timed_out", "phases[0].actions[0]", "phases[1].actions[0]")},
		"an advisory action": {func(d doc) {
			a := action(d, "drain", "orders")
			a.Graceful, a.Advisory, a.Error = report.GracefulFailed, true, &report.Error{Text: "no"}
		}, finding("advisory_failed", "orders", "in drain, failed: no", "phases[1].actions[0]")},
		"unplaced": {func(d doc) { d.Subscriptions[0].InShutdown.Received += 2; d.Deliveries.InShutdown.Received += 2 },
			finding("delivery_unplaced", "orders", "2 deliveries", "subscriptions[0].in_shutdown")},
		"in flight": {func(d doc) { s := &d.Subscriptions[0].SinceStart; s.Received++; s.InFlight++ },
			finding("delivery_unplaced", "orders", "1 delivery", "subscriptions[0].since_start")},
		"placed, never received": {func(d doc) { d.Subscriptions[0].InShutdown.Received-- },
			finding("delivery_unplaced", "orders", "1 delivery", "subscriptions[0].in_shutdown")},
		"in the total alone": {func(d doc) { d.Deliveries.InShutdown.Abandoned = 1; d.Deliveries.InShutdown.Acked-- },
			finding("delivery_abandoned", "orders", "1 delivery", "deliveries.in_shutdown.abandoned")},
	} {
		t.Run(name, func(t *testing.T) {
			d := clean()
			tc.change(d)
			if diff := cmp.Diff(tc.want, report.Findings(d), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindingsMerge(t *testing.T) {
	d := closerError()
	d.Findings = []report.Finding{
		report.NewFinding("memory_broker_left", "orders", "3 messages"),
		report.NewFinding("resource_failed", "postgres", "as the builder saw it", "resources[1].error"),
		report.NewFinding("memory_broker_left", "orders", "again", "subscriptions[0]"),
		report.NewFinding("not_in_the_list", "orders", "a text of its own"),
		report.NewFinding("late_result", "orders", ""),
	}
	report.Judge(d)
	want := []report.Finding{
		{Severity: "error", Code: "resource_failed", Subject: "postgres", Text: "it ended with an error: as the builder saw it",
			Evidence: []string{"resources[1].error", "resources[1]"}},
		{Severity: "warning", Code: "memory_broker_left", Subject: "orders", Text: "messages were left in the in-process broker and are gone with the process: 3 messages",
			Evidence: []string{"subscriptions[0]"}},
		{Severity: "warning", Code: "not_in_the_list", Subject: "orders", Text: "a text of its own"},
		{Severity: "info", Code: "late_result", Subject: "orders", Text: "results that came after their delivery had ended were recorded and not sent"},
	}
	if diff := cmp.Diff(want, d.Findings, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCodes(t *testing.T) {
	var names []string
	last := 0
	rank := map[report.Severity]int{report.SeverityError: 1, report.SeverityWarning: 2, report.SeverityInfo: 3}
	for _, c := range report.Codes() {
		if rank[c.Severity] < last {
			t.Errorf("%s: %s stands after one that weighs less", c.Code, c.Severity)
		}
		last = rank[c.Severity]
		if c.Sentence == "" || slices.Contains(names, c.Code) {
			t.Errorf("%s has no sentence, or is there twice", c.Code)
		}
		names = append(names, c.Code)
	}
	report.Codes()[0].Code = "changed"
	if report.Codes()[0].Code == "changed" {
		t.Error("Codes gives its own list away")
	}
}
