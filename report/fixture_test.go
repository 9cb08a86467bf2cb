package report_test

import (
	"strconv"
	"time"

	"github.com/lastcall-go/lastcall/report"
)

const ms, second = int64(1000), int64(1000 * 1000)

var start = time.Date(2026, 11, 30, 17, 48, 1, 123456000, time.UTC)

func after(us int64) report.Time { return report.At(start.Add(time.Duration(us) * time.Microsecond)) }

func ref[T any](v T) *T { return &v }

// clean is the report of the design: 20 deliveries in hand, 4 of them started, an idle broker, 153 ms.
func clean() *report.ShutdownReport {
	cohort := report.Sheet{Received: 20, Started: 4, Acked: 4, HandedBack: 16}
	all := report.Sheet{Received: 84_211, Started: 84_195, Acked: 84_150, Requeued: 40, Rejected: 5, HandedBack: 16}
	at := report.AtTrigger{Started: 4, Buffered: 16}
	return &report.ShutdownReport{
		Schema: report.SchemaID, ReportID: "0193a2b4-5c6d-7e8f-9a0b-1c2d3e4f5a6b",
		Service: report.Service{Name: "orders", Version: "v2.14.0", Instance: "orders-7d9f4c-x2x8p", PID: 71,
			Labels: map[string]string{"deploy": "4711"}, Go: "go1.26.8", Lastcall: "v1.0.0"},
		Config: report.ConfigInfo{Digest: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
		Broker: report.Broker{Kind: "rabbitmq", Product: "RabbitMQ", Version: "3.10.8", Node: "rabbit@mq-1", VHost: "/",
			ConnectionName: "orders@orders-7d9f4c-x2x8p#71", LocalAddr: "10.1.4.22:51514"},
		Trigger: report.Trigger{Kind: report.TriggerSignal, Detail: "SIGTERM", At: after(0)},
		Budget: report.Budget{TotalUS: 30 * second, ReserveUS: 2 * second, ForceWindowUS: second, GracefulTUS: 28 * second,
			CloseTUS: 29_375_000, DisposeTUS: 29_750_000, HardTUS: 30 * second, ElapsedUS: 153_211},
		RuntimeJoined: true,
		Triggers:      []report.TriggerEvent{{Kind: report.TriggerSignal, Detail: "SIGTERM", Effect: report.EffectGraceful}},
		Phases: []report.Phase{
			{Phase: "close_admission", BeganTUS: 12, ElapsedUS: 29, Actions: []report.Action{done("orders", 12, 29)}},
			{Phase: "drain", BeganTUS: 41, ElapsedUS: 150_233, Actions: []report.Action{done("orders", 41, 150_120), done("reaper", 41, 7_410)}},
			{Phase: "close_evidence", BeganTUS: 150_290, ElapsedUS: 2_400, Actions: []report.Action{
				done("amqp-channel:orders", 150_300, 1_200), done("amqp-connection:1", 151_510, 1_100)}},
			{Phase: "dispose", BeganTUS: 152_700, ElapsedUS: 430, Actions: []report.Action{done("postgres", 152_700, 420)}},
		},
		Resources: []report.Resource{
			{Name: "config", Kind: "other"},
			ended("postgres", "pool", 152_700, 420),
			ended("amqp-connection:1", "connection", 151_510, 1_100, "close_written", "close_ok"),
			ended("amqp-channel:orders", "channel", 150_300, 1_200, "cancel_written", "cancel_ok", "barrier", "close_written", "close_ok"),
			ended("reaper", "task", 41, 7_410),
			ended("signals", "monitor", 153_150, 20),
			ended("runtime", "runtime", 153_180, 10),
		},
		Deliveries: report.Deliveries{InShutdown: cohort, SinceStart: all, AtTrigger: at, Proof: report.Proof{Barrier: 4}},
		Subscriptions: []report.Subscription{{Queue: "orders", ConsumerTag: "orders@orders-7d9f4c-x2x8p#71-1", Prefetch: 20, Concurrency: 4,
			Drain: "auto", State: "ready", LoopJoined: true, InShutdown: cohort, SinceStart: all, AtTrigger: at,
			HandlerUS:     report.HandlerTimes{P50: 11_900, P95: 48_200, Max: 151_000, Count: 84_195},
			RequeueCauses: []report.RequeueCause{{Class: "*pgconn.PgError", Count: 31}, {Class: "context.DeadlineExceeded", Count: 9}},
			QueueAtEnd:    &report.QueueAtEnd{Ready: 16, Consumers: 1, TUS: 150_900}}},
		Sessions: []report.Session{{N: 1, Transport: "rabbitmq", OpenedAt: after(-5 * 3600 * second), EndedAt: ref(after(152_610)), End: "close_ok", By: "us"}},
	}
}

func done(name string, began, elapsed int64) report.Action {
	return report.Action{Name: name, Graceful: report.GracefulDone, Forced: report.ForcedNotNeeded, BeganTUS: began, ElapsedUS: elapsed}
}

func ended(name, kind string, began, elapsed int64, evidence ...string) report.Resource {
	r := report.Resource{Name: name, Kind: kind, Owned: true, Started: true, Terminal: true, Succeeded: true, BeganTUS: began, ElapsedUS: elapsed}
	for i, kind := range evidence {
		r.Evidence = append(r.Evidence, report.Evidence{Kind: kind, TUS: began + int64(i+1)*elapsed/int64(len(evidence))})
	}
	return r
}

func resource(d *report.ShutdownReport, name string) *report.Resource {
	for i := range d.Resources {
		if d.Resources[i].Name == name {
			return &d.Resources[i]
		}
	}
	panic("no resource " + name)
}

func phase(d *report.ShutdownReport, name string) *report.Phase {
	for i := range d.Phases {
		if d.Phases[i].Phase == name {
			return &d.Phases[i]
		}
	}
	panic("no phase " + name)
}

func action(d *report.ShutdownReport, in, name string) *report.Action {
	p := phase(d, in)
	for i := range p.Actions {
		if p.Actions[i].Name == name {
			return &p.Actions[i]
		}
	}
	panic("no action " + name)
}

// sheets sets the cohort, of the one subscription and in total, and makes the sheet since the start contain it.
func sheets(d *report.ShutdownReport, cohort report.Sheet) {
	all := report.Sheet{Received: 84_191, Started: 84_191, Acked: 84_146, Requeued: 40, Rejected: 5}
	all.Add(cohort)
	s := &d.Subscriptions[0]
	s.InShutdown, s.SinceStart = cohort, all
	d.Deliveries.InShutdown, d.Deliveries.SinceStart = cohort, all
}

// later moves everything from close_evidence on by us.
func later(d *report.ShutdownReport, us int64) {
	for i := range d.Phases {
		p := &d.Phases[i]
		if p.BeganTUS < 150*ms || p.Phase == "force" {
			continue
		}
		p.BeganTUS += us
		for j := range p.Actions {
			p.Actions[j].BeganTUS += us
		}
	}
	for i := range d.Resources {
		r := &d.Resources[i]
		if r.BeganTUS < 150*ms {
			continue
		}
		r.BeganTUS += us
		for j := range r.Evidence {
			r.Evidence[j].TUS += us
		}
	}
	d.Sessions[0].EndedAt = ref(after(152_610 + us))
	d.Subscriptions[0].QueueAtEnd.TUS += us
	d.Budget.ElapsedUS += us
}

// force makes d one whose force notice was given at us, by cause, and over at end; the work in hand came back without outcome
// where interrupted says so.
func force(d *report.ShutdownReport, cause report.ForceCause, us, end int64, interrupted uint64) {
	d.Force = report.Force{Used: true, Cause: cause, TUS: ref(us)}
	d.Budget.ForceTUS = ref(end)
	phase(d, "drain").ElapsedUS = us - 41
	a := action(d, "drain", "orders")
	a.Graceful, a.Forced, a.ElapsedUS = report.GracefulCutByForce, report.ForcedDone, us+212*ms-41
	d.Phases = append(d.Phases[:2:2], append([]report.Phase{{Phase: "force", BeganTUS: us, ElapsedUS: 212 * ms}}, d.Phases[2:]...)...)
	later(d, us+212*ms-150_290)
	sheets(d, report.Sheet{Received: 20, Started: 4, Acked: 4 - interrupted, HandedBack: 16, Interrupted: interrupted})
	for i := range interrupted {
		d.Unsettled = append(d.Unsettled, report.Unsettled{Queue: "orders", Session: 1, DeliveryTag: strconv.FormatUint(84192+i, 10), MessageID: "order-" + strconv.FormatUint(998172+i, 10),
			Bucket: report.BucketInterrupted, BufferedUS: 310, HandlerUS: us - 120*ms, Settlement: "written", Detail: "came back without an outcome", Stack: -1})
	}
}

// explicit shortens the root as an explicit force at us does.
func explicit(d *report.ShutdownReport, us int64) {
	hard := us + 2*second
	d.Budget.GracefulTUS, d.Budget.CloseTUS, d.Budget.DisposeTUS, d.Budget.HardTUS = us, hard-625*ms, hard-250*ms, hard
}

func deadline() *report.ShutdownReport {
	d := clean()
	force(d, report.ForceDeadline, 28*second, 29*second, 2)
	return d
}

func operatorForce() *report.ShutdownReport {
	d := clean()
	explicit(d, 4*second)
	force(d, report.ForceSignal, 4*second, 5*second, 1)
	d.Triggers = append(d.Triggers, report.TriggerEvent{Kind: report.TriggerSignal, Detail: "SIGTERM", Effect: report.EffectForce, TUS: 4 * second})
	return d
}

func lateSecondSignal() *report.ShutdownReport {
	d := clean()
	d.Triggers = append(d.Triggers,
		report.TriggerEvent{Kind: report.TriggerSignal, Detail: "SIGTERM", Effect: report.EffectDuplicate, TUS: 4 * ms},
		report.TriggerEvent{Kind: report.TriggerSignal, Detail: "SIGTERM", Effect: report.EffectTooLate, TUS: 151 * ms})
	return d
}

func abandonedHandler() *report.ShutdownReport {
	d := clean()
	force(d, report.ForceDeadline, 28*second, 29*second, 0)
	sheets(d, report.Sheet{Received: 20, Started: 4, Acked: 3, HandedBack: 16, Abandoned: 1})
	a := action(d, "drain", "orders")
	a.Forced, a.ElapsedUS = report.ForcedTimedOut, 29*second-41
	phase(d, "force").ElapsedUS = second
	later(d, second-212*ms)
	d.Stacks = []string{"goroutine 88 [select (no cases), 28 minutes]:\nmain.(*gateway).wait(...)\n\t/src/orders/gateway.go:88\n" +
		"main.handle({0x1a2b3c0, 0xc000114000}, 0xc0002a8000)\n\t/src/orders/main.go:141 +0x1a5"}
	d.Unsettled = []report.Unsettled{{Queue: "orders", Session: 1, DeliveryTag: "84195", MessageID: "order-998174", Bucket: report.BucketAbandoned,
		BufferedUS: 120, HandlerUS: 31 * second, Settlement: "none", Detail: "handler did not return", Stack: 0}}
	*resource(d, "postgres") = report.Resource{Name: "postgres", Kind: "pool", Owned: true, WithheldBy: "handler of orders, delivery 84195"}
	*action(d, "dispose", "postgres") = report.Action{Name: "postgres", Graceful: report.GracefulNotStarted, Forced: report.ForcedUnavailable, BeganTUS: 29_003_000}
	return d
}

func closerError() *report.ShutdownReport {
	d := clean()
	failure := report.NewError(errorOf("close: 2 connections were never given back"))
	a, r := action(d, "dispose", "postgres"), resource(d, "postgres")
	a.Graceful, a.Error = report.GracefulFailed, failure
	r.Succeeded, r.Error = false, failure
	d.Counts.Errors = 1
	return d
}

func closerHang() *report.ShutdownReport {
	d := clean()
	a, r := action(d, "dispose", "postgres"), resource(d, "postgres")
	a.Graceful, a.Forced, a.ElapsedUS = report.GracefulTimedOut, report.ForcedUnavailable, 5*second
	r.Terminal, r.Succeeded, r.ElapsedUS = false, false, 5*second
	r.Error = &report.Error{Class: "context.DeadlineExceeded", Text: "the closer did not return within 5s"}
	d.Counts.Errors = 1
	phase(d, "dispose").ElapsedUS = 5*second + 20
	d.Budget.ElapsedUS = 5*second + 153_300
	return d
}

func closerPanic() *report.ShutdownReport {
	d := closerError()
	a, r := action(d, "dispose", "postgres"), resource(d, "postgres")
	a.Graceful, a.Panicked, r.Panicked = report.GracefulPanicked, true, true
	r.Error = &report.Error{Class: "runtime.boundsError", Text: "index out of range [3] with length 2"}
	a.Error = r.Error
	d.Counts = report.Counts{Panics: 1}
	return d
}

func collectorHang() *report.ShutdownReport {
	d := clean()
	a, r := done("otel-traces", 153_120, 2*second), ended("otel-traces", "provider", 153_120, 2*second)
	a.Advisory, a.Graceful, a.Forced = true, report.GracefulTimedOut, report.ForcedUnavailable
	r.Advisory, r.Terminal, r.Succeeded = true, false, false
	p := phase(d, "dispose")
	p.Actions, p.ElapsedUS = append(p.Actions, a), 2*second+420
	d.Resources = append(d.Resources[:1:1], append([]report.Resource{r}, d.Resources[1:]...)...)
	d.Budget.ElapsedUS = 2*second + 153_600
	return d
}

func recoveredSession() *report.ShutdownReport {
	d := clean()
	lost := report.Session{N: 1, Transport: "rabbitmq", OpenedAt: after(-5 * 3600 * second), EndedAt: ref(after(-2 * 3600 * second)), End: "peer_close",
		Code: 320, Text: "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'", By: "peer", Released: 12, Unresolved: 3}
	d.Sessions[0].N, d.Sessions[0].OpenedAt = 2, after(-2*3600*second+4*second)
	d.Sessions = append([]report.Session{lost}, d.Sessions...)
	for _, s := range []*report.Sheet{&d.Subscriptions[0].SinceStart, &d.Deliveries.SinceStart} {
		s.Add(report.Sheet{Received: 15, Started: 3, Released: 12, Unresolved: 3, LateResults: 3})
	}
	d.UnsettledOmitted = 3
	return d
}

func lateOutcome() *report.ShutdownReport {
	d := clean()
	sheets(d, report.Sheet{Received: 20, Started: 4, Acked: 2, Released: 16, Unresolved: 2, LateResults: 2})
	for _, name := range []string{"amqp-channel:orders", "amqp-connection:1"} {
		r := resource(d, name)
		r.Succeeded, r.BeganTUS, r.ElapsedUS = false, 64*ms, 0
		r.Evidence = []report.Evidence{{Kind: "cancel_written", TUS: 52}, {Kind: "peer_reset", TUS: 64 * ms, Detail: "read tcp 10.1.4.22:51514->10.1.0.9:5672: connection reset by peer"}}
		r.Error = &report.Error{Class: "syscall.Errno", Text: r.Evidence[1].Detail}
	}
	resource(d, "amqp-connection:1").Evidence[0] = report.Evidence{Kind: "blocked", TUS: -2 * second, Detail: "low on memory"}
	d.Counts.Errors = 1
	d.Subscriptions[0].QueueAtEnd = nil
	d.Sessions[0].End, d.Sessions[0].By, d.Sessions[0].Unresolved, d.Sessions[0].Released = "peer_reset", "peer", 2, 16
	d.Sessions[0].EndedAt = ref(after(64 * ms))
	for _, tag := range []string{"84194", "84195"} {
		d.Unsettled = append(d.Unsettled, report.Unsettled{Queue: "orders", Session: 1, DeliveryTag: tag, MessageID: "order-9981" + tag[3:], Redelivered: true,
			Bucket: report.BucketUnresolved, BufferedUS: 95, HandlerUS: 151 * ms, Settlement: "none", Detail: "ack came after the session was lost", Stack: -1})
	}
	return d
}

func disconnected() *report.ShutdownReport {
	d := clean()
	sheets(d, report.Sheet{})
	d.Deliveries.AtTrigger, d.Subscriptions[0].AtTrigger, d.Deliveries.Proof = report.AtTrigger{}, report.AtTrigger{}, report.Proof{}
	d.Subscriptions[0].State, d.Subscriptions[0].QueueAtEnd = "recovering", nil
	d.Resources = append(d.Resources[:2:2], d.Resources[4:]...)
	phase(d, "close_evidence").Actions = nil
	d.Sessions[0].EndedAt, d.Sessions[0].End, d.Sessions[0].By = ref(after(-90*second)), "silent", ""
	return d
}

func blackHole() *report.ShutdownReport {
	d := clean()
	cut := 150_290 + 2*second
	for _, name := range []string{"amqp-channel:orders", "amqp-connection:1"} {
		r, a := resource(d, name), action(d, "close_evidence", name)
		a.Graceful, a.Forced, a.ElapsedUS = report.GracefulTimedOut, report.ForcedDone, cut-a.BeganTUS
		r.Terminal, r.Succeeded, r.ElapsedUS = false, false, cut-r.BeganTUS
		r.Evidence = []report.Evidence{{Kind: "cancel_written", TUS: 52}, {Kind: "close_written", TUS: r.BeganTUS}, {Kind: "cut", TUS: cut}}
		r.Error = &report.Error{Class: "*transport.Error", Text: "close of " + name + ": no answer within 2s"}
	}
	resource(d, "amqp-connection:1").Evidence = resource(d, "amqp-connection:1").Evidence[1:]
	phase(d, "close_evidence").ElapsedUS = 2 * second
	sheets(d, report.Sheet{Received: 20, Started: 4, Acked: 1, Unresolved: 3, Released: 16})
	d.Counts.Errors, d.UnsettledOmitted = 2, 3
	d.Sessions[0].End, d.Sessions[0].EndedAt, d.Subscriptions[0].QueueAtEnd = "cut", ref(after(cut)), nil
	p := phase(d, "dispose")
	p.BeganTUS += 2 * second
	p.Actions[0].BeganTUS += 2 * second
	d.Budget.ElapsedUS += 2 * second
	return d
}

func thirdSignal() *report.ShutdownReport {
	d := clean()
	explicit(d, 4*second)
	force(d, report.ForceSignal, 4*second, 5*second, 0)
	sheets(d, report.Sheet{Received: 20, Started: 4, Acked: 1, HandedBack: 16, Abandoned: 3})
	d.UnsettledOmitted = 3
	d.RuntimeJoined, d.Subscriptions[0].LoopJoined = false, false
	r := resource(d, "runtime")
	r.Terminal, r.Succeeded = false, false
	for _, name := range []string{"amqp-channel:orders", "amqp-connection:1"} {
		r := resource(d, name)
		*r = report.Resource{Name: r.Name, Kind: r.Kind, Owned: true}
		*action(d, "close_evidence", name) = report.Action{Name: name, Graceful: report.GracefulNotStarted, Forced: report.ForcedUnavailable}
	}
	*resource(d, "postgres") = report.Resource{Name: "postgres", Kind: "pool", Owned: true, WithheldBy: "3 handlers of orders"}
	*action(d, "dispose", "postgres") = report.Action{Name: "postgres", Graceful: report.GracefulNotStarted, Forced: report.ForcedUnavailable}
	d.Triggers = append(d.Triggers,
		report.TriggerEvent{Kind: report.TriggerSignal, Detail: "SIGINT", Effect: report.EffectForce, TUS: 4 * second},
		report.TriggerEvent{Kind: report.TriggerSignal, Detail: "SIGINT", Effect: report.EffectAbandon, TUS: 4*second + 180*ms})
	action(d, "drain", "orders").Forced = report.ForcedTimedOut
	d.Sessions[0].EndedAt, d.Sessions[0].End, d.Sessions[0].By = nil, "", ""
	d.Subscriptions[0].QueueAtEnd = nil
	d.Budget.ElapsedUS = 4*second + 181*ms
	return d
}

func startFailed(detail string) *report.ShutdownReport {
	d := clean()
	d.Trigger = report.Trigger{Kind: report.TriggerStartup, Detail: detail, At: after(0)}
	d.Triggers = nil
	d.Broker = report.Broker{Kind: "rabbitmq"}
	d.Phases = []report.Phase{{Phase: "dispose", BeganTUS: 90, ElapsedUS: 700, Actions: []report.Action{done("postgres", 100, 420)}}}
	d.Resources = []report.Resource{ended("postgres", "pool", 100, 420), ended("runtime", "runtime", 800, 10)}
	d.Deliveries = report.Deliveries{}
	d.Subscriptions = nil
	d.Sessions = nil
	d.Budget.ElapsedUS = 900
	return d
}

func signalDuringStart() *report.ShutdownReport {
	d := startFailed("")
	d.Trigger = report.Trigger{Kind: report.TriggerSignal, Detail: "SIGTERM", At: after(0)}
	d.Triggers = []report.TriggerEvent{{Kind: report.TriggerSignal, Detail: "SIGTERM", Effect: report.EffectGraceful}}
	return d
}

// many has two subscriptions, more actions than a person wants to see, and names that no terminal should obey.
func many() *report.ShutdownReport {
	d := deadline()
	second := d.Subscriptions[0]
	second.Queue, second.ConsumerTag, second.State, second.RequeueCauses = "発送", "ship-1", "recovering", nil
	second.InShutdown = report.Sheet{Received: 26, Started: 26, Acked: 1, Unresolved: 25, HandlerPanics: 1}
	second.SinceStart = report.Sheet{Received: 1_026, Started: 1_026, Acked: 990, Rejected: 9, Unresolved: 27, HandlerPanics: 2, Malformed: 9}
	second.AtTrigger = report.AtTrigger{Started: 26}
	d.Subscriptions = append(d.Subscriptions, second)
	d.Deliveries.InShutdown.Add(second.InShutdown)
	d.Deliveries.SinceStart.Add(second.SinceStart)
	d.Deliveries.AtTrigger.Add(second.AtTrigger)
	for i := range int64(25) {
		d.Unsettled = append(d.Unsettled, report.Unsettled{Queue: "発送", Session: 1, DeliveryTag: strconv.FormatInt(900+i, 10), Bucket: report.BucketUnresolved,
			BufferedUS: 5, HandlerUS: 40 * ms, Settlement: "failed", Detail: "write: broken pipe", Stack: -1})
	}
	drain := phase(d, "drain")
	for i := range int64(14) {
		drain.Actions = append(drain.Actions, done("partition-"+strconv.FormatInt(i, 10), 50, 1_000*ms*(i+1)))
	}
	drain.Actions = append(drain.Actions, report.Action{Name: "a-task-with-a-name-longer-than-any-label-should-be", Graceful: report.GracefulFailed,
		Forced: report.ForcedNotNeeded, BeganTUS: 60, ElapsedUS: 3 * ms, Error: report.NewError(errorOf("amqp://guest:hunter2@mq/: \x1b[31mrefused\x1b[0m"))})
	d.Counts.Errors = 1
	d.Service.Labels["evil"] = "\x1b]0;owned\a"
	return d
}

type errorOf string

func (e errorOf) Error() string { return string(e) }

// walkthrough is the design's, line by line, with what it promises for each.
var walkthrough = []struct {
	name       string
	build      func() *report.ShutdownReport
	completion report.Completion
	code       int
	reason     report.ExitReason
	messages   report.Verdict
	drain      bool // queue_drain_reconciled
	close      bool // queue_close_reconciled
	codes      []string
}{
	{"clean", clean, report.GracefulCompleted, 0, report.ReasonClean, report.VerdictClean, true, true, nil},
	{"deadline", deadline, report.ForcedCompleted, 3, report.ReasonDrainCutShort, report.VerdictDuplicates, true, true,
		[]string{"drain_cut_short", "delivery_interrupted"}},
	{"operator_force", operatorForce, report.ForcedCompleted, 3, report.ReasonDrainCutShort, report.VerdictDuplicates, true, true,
		[]string{"drain_cut_short", "delivery_interrupted"}},
	{"late_second_signal", lateSecondSignal, report.GracefulCompleted, 0, report.ReasonClean, report.VerdictClean, true, true, nil},
	{"abandoned_handler", abandonedHandler, report.Incomplete, 3, report.ReasonDrainCutShort, report.VerdictUnknown, false, false,
		[]string{"delivery_abandoned", "resource_withheld", "drain_cut_short"}},
	{"closer_error", closerError, report.Failed, 1, report.ReasonFailed, report.VerdictClean, true, true, []string{"resource_failed"}},
	{"closer_hang", closerHang, report.Incomplete, 1, report.ReasonIncomplete, report.VerdictClean, true, true, []string{"resource_hung"}},
	{"closer_panic", closerPanic, report.Failed, 2, report.ReasonPanic, report.VerdictClean, true, true, []string{"resource_failed", "panics"}},
	{"collector_hang", collectorHang, report.GracefulCompleted, 0, report.ReasonClean, report.VerdictClean, true, true, []string{"advisory_failed"}},
	{"session_recovered", recoveredSession, report.GracefulCompleted, 0, report.ReasonClean, report.VerdictClean, true, true,
		[]string{"unresolved_before_trigger", "session_lost", "late_result"}},
	{"late_outcome", lateOutcome, report.Incomplete, 1, report.ReasonIncomplete, report.VerdictUnknown, false, false,
		[]string{"delivery_unresolved", "connection_peer_reset", "channel_peer_closed", "connection_blocked", "cancel_unanswered", "late_result"}},
	{"disconnected", disconnected, report.GracefulCompleted, 0, report.ReasonClean, report.VerdictClean, true, true, []string{"session_lost"}},
	{"black_hole", blackHole, report.Incomplete, 1, report.ReasonIncomplete, report.VerdictUnknown, false, false,
		[]string{"delivery_unresolved", "connection_close_unanswered", "channel_end_unobserved", "cancel_unanswered"}},
	{"third_signal", thirdSignal, report.Incomplete, 3, report.ReasonDrainCutShort, report.VerdictUnknown, false, false,
		[]string{"delivery_abandoned", "resource_withheld", "runtime_not_joined", "action_unconfirmed", "drain_cut_short", "resource_not_ended"}},
	{"child_killed", operatorForce, report.ForcedCompleted, 3, report.ReasonDrainCutShort, report.VerdictDuplicates, true, true,
		[]string{"drain_cut_short", "delivery_interrupted"}},
	{"start_broker", func() *report.ShutdownReport { return startFailed(report.StartupBrokerUnavailable) },
		report.Failed, 69, report.ReasonBrokerUnavailable, report.VerdictClean, true, true, []string{"start_failed"}},
	{"start_configuration", func() *report.ShutdownReport { return startFailed(report.StartupConfiguration) },
		report.Failed, 78, report.ReasonConfiguration, report.VerdictClean, true, true, []string{"start_failed"}},
	{"start_other", func() *report.ShutdownReport { return startFailed("setup") },
		report.Failed, 1, report.ReasonStartup, report.VerdictClean, true, true, []string{"start_failed"}},
	{"many", many, report.Incomplete, 3, report.ReasonDrainCutShort, report.VerdictUnknown, false, false,
		[]string{"delivery_unresolved", "action_failed", "drain_cut_short", "delivery_interrupted", "unresolved_before_trigger", "handler_panicked", "message_malformed"}},
	{"signal_during_start", signalDuringStart, report.GracefulCompleted, 0, report.ReasonClean, report.VerdictClean, true, true, nil},
}
