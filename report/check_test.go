package report_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/report"
)

// TestCheck breaks one thing in a sealed report, for each invariant, and wants it named. That sound reports pass is seen by
// every test that calls reporttest.Check.
func TestCheck(t *testing.T) {
	type doc = *report.ShutdownReport
	r := func(name string, change func(*report.Resource)) func(doc) {
		return func(d doc) { change(resource(d, name)) }
	}
	a := func(change func(*report.Action)) func(doc) {
		return func(d doc) { change(action(d, "dispose", "postgres")) }
	}
	for name, tc := range map[string]struct {
		build  func() doc
		change func(doc)
		path   string
	}{
		"another schema":         {clean, func(d doc) { d.Schema = "x" }, "schema"},
		"an id that is none":     {clean, func(d doc) { d.ReportID = "42" }, "report_id"},
		"an id in capitals":      {clean, func(d doc) { d.ReportID = "0193A2B4-5C6D-7E8F-9A0B-1C2D3E4F5A6B" }, "report_id"},
		"an id of version 4":     {clean, func(d doc) { d.ReportID = "0193a2b4-5c6d-4e8f-9a0b-1c2d3e4f5a6b" }, "report_id"},
		"not sealed":             {clean, func(d doc) { d.Digest = "" }, "digest"},
		"nobody's":               {clean, func(d doc) { d.Service.Name = "" }, "service.name"},
		"no time":                {clean, func(d doc) { d.Trigger.At = report.Time{} }, "trigger.at"},
		"a time too fine":        {clean, func(d doc) { d.Trigger.At.Time = d.Trigger.At.Add(time.Nanosecond) }, "trigger.at"},
		"completion":             {closerError, func(d doc) { d.Completion = report.GracefulCompleted }, "completion"},
		"success":                {closerError, func(d doc) { d.Success = true }, "success"},
		"exit code":              {closerError, func(d doc) { d.ExitCode = 0 }, "exit_code"},
		"exit reason":            {closerError, func(d doc) { d.ExitReason = report.ReasonClean }, "exit_reason"},
		"verdict":                {deadline, func(d doc) { d.Messages.Verdict = report.VerdictClean }, "messages.verdict"},
		"accounted":              {clean, func(d doc) { d.CoordinatorAccounted = false }, "coordinator_accounted"},
		"complete":               {closerHang, func(d doc) { d.CoordinatorComplete = true }, "coordinator_complete"},
		"drain reconciled":       {lateOutcome, func(d doc) { d.QueueDrainReconciled = true }, "queue_drain_reconciled"},
		"close reconciled":       {lateOutcome, func(d doc) { d.QueueCloseReconciled = true }, "queue_close_reconciled"},
		"conserved":              {clean, func(d doc) { d.Subscriptions[0].SinceStart.Conserved = false }, "subscriptions[0].since_start.conserved"},
		"a finding kept back":    {closerError, func(d doc) { d.Findings = []report.Finding{} }, "findings: number"},
		"no error finding":       {closerError, func(d doc) { d.Findings[0].Severity = report.SeverityWarning }, "findings"},
		"deadlines out of order": {clean, func(d doc) { d.Budget.CloseTUS = 1 }, "budget.graceful_t_us"},
		"dispose before close":   {clean, func(d doc) { d.Budget.DisposeTUS = d.Budget.CloseTUS - 1 }, "budget.close_t_us"},
		"hard before dispose":    {clean, func(d doc) { d.Budget.HardTUS = d.Budget.DisposeTUS - 1 }, "budget.dispose_t_us"},
		"hard after the total":   {clean, func(d doc) { d.Budget.HardTUS++ }, "budget.hard_t_us"},
		"reserve over the total": {clean, func(d doc) { d.Budget.ReserveUS = 31 * second }, "budget.reserve_us"},
		"a negative reserve":     {clean, func(d doc) { d.Budget.ReserveUS = -1 }, "budget.reserve_us"},
		"a negative graceful":    {clean, func(d doc) { d.Budget.GracefulTUS = -1 }, "budget.graceful_t_us"},
		"a negative window":      {clean, func(d doc) { d.Budget.ForceWindowUS = -1 }, "budget.force_window_us"},
		"a negative elapsed":     {clean, func(d doc) { d.Budget.ElapsedUS = -1 }, "budget.elapsed_us"},
		"an overrun kept back":   {clean, func(d doc) { d.Budget.ElapsedUS = 31 * second }, "budget.overrun_us"},
		"force without cause":    {deadline, func(d doc) { d.Force.Cause = "" }, "force.cause"},
		"force without instant":  {deadline, func(d doc) { d.Force.TUS = nil }, "force.t_us"},
		"force without end":      {deadline, func(d doc) { d.Budget.ForceTUS = nil }, "budget.force_t_us"},
		"an end without force":   {clean, func(d doc) { d.Budget.ForceTUS = ref(int64(1)) }, "budget.force_t_us"},
		"force over before":      {deadline, func(d doc) { d.Budget.ForceTUS = ref(int64(1)) }, "budget.force_t_us"},
		"force after close":      {deadline, func(d doc) { *d.Budget.ForceTUS = d.Budget.CloseTUS + 1 }, "budget.force_t_us"},
		"forced by no signal":    {operatorForce, func(d doc) { d.Triggers = d.Triggers[:1] }, "force.cause"},
		"forced by no call":      {operatorForce, func(d doc) { d.Force.Cause = report.ForceAPI }, "force.cause"},
		"triggers out of order":  {operatorForce, func(d doc) { d.Triggers[1].TUS = -1 }, "triggers[1]"},
		"another first trigger":  {clean, func(d doc) { d.Trigger.Detail = "SIGINT" }, "triggers[0]"},
		"an unknown phase":       {clean, func(d doc) { d.Phases[0].Phase = "warm_up" }, "phases[0].phase"},
		"a phase repeated":       {clean, func(d doc) { d.Phases[1].Phase = "close_admission" }, "phases[1].phase"},
		"phases out of order":    {clean, func(d doc) { d.Phases[1].BeganTUS = 0 }, "phases[1].began_t_us"},
		"a negative phase":       {clean, func(d doc) { d.Phases[1].ElapsedUS = -1 }, "phases[1].elapsed_us"},
		"the illegal outcome":    {clean, a(func(a *report.Action) { a.Graceful = report.GracefulNotStarted }), "phases[3].actions[0]"},
		"a nameless action":      {clean, a(func(a *report.Action) { a.Name = "" }), "phases[3].actions[0].name"},
		"a negative action":      {clean, a(func(a *report.Action) { a.ElapsedUS = -1 }), "phases[3].actions[0].elapsed_us"},
		"a panic kept back":      {closerPanic, a(func(a *report.Action) { a.Panicked = false }), "phases[3].actions[0].panicked"},
		"a panic made up":        {clean, a(func(a *report.Action) { a.Panicked = true }), "phases[3].actions[0].panicked"},

		"succeeded, not terminal":     {clean, r("postgres", func(r *report.Resource) { r.Terminal = false }), "resources[1].succeeded"},
		"terminal, not started":       {clean, r("postgres", func(r *report.Resource) { r.Started = false }), "resources[1].terminal"},
		"started, not owned":          {clean, r("postgres", func(r *report.Resource) { r.Owned = false }), "resources[1].started"},
		"withheld and started":        {clean, r("postgres", func(r *report.Resource) { r.WithheldBy = "a handler" }), "resources[1].withheld_by"},
		"borrowed and withheld":       {clean, r("config", func(r *report.Resource) { r.WithheldBy = "a handler" }), "resources[0].withheld_by"},
		"panicked and succeeded":      {clean, r("postgres", func(r *report.Resource) { r.Panicked = true }), "resources[1].panicked"},
		"an error and succeeded":      {clean, r("postgres", func(r *report.Resource) { r.Error = &report.Error{} }), "resources[1].error"},
		"a nameless resource":         {clean, r("postgres", func(r *report.Resource) { r.Name = "" }), "resources[1].name"},
		"a negative resource":         {clean, r("postgres", func(r *report.Resource) { r.ElapsedUS = -1 }), "resources[1].elapsed_us"},
		"a close-ok nobody saw":       {clean, r("amqp-connection:1", func(r *report.Resource) { r.Evidence = r.Evidence[:1] }), "resources[2].succeeded"},
		"an end nobody saw":           {lateOutcome, r("amqp-connection:1", func(r *report.Resource) { r.Evidence = []report.Evidence{} }), "resources[2].terminal"},
		"a connection's consumer":     {lateOutcome, r("amqp-connection:1", func(r *report.Resource) { r.Evidence[1].Kind = "consumer_cancelled" }), "resources[2].terminal"},
		"runtime joined, its end not": {thirdSignal, func(d doc) { d.RuntimeJoined = true }, "resources[6].terminal"},
		"runtime joined, a loop not":  {clean, func(d doc) { d.Subscriptions[0].LoopJoined = false }, "subscriptions[0].loop_joined"},
		"a panic not counted":         {closerPanic, func(d doc) { d.Counts.Panics = 0 }, "counts.panics"},
		"an error not counted":        {closerError, func(d doc) { d.Counts.Errors = 0 }, "counts.errors"},
		"negative counts":             {clean, func(d doc) { d.Counts.Errors = -1 }, "counts"},

		"received, nowhere to be found": {clean, func(d doc) { d.Subscriptions[0].InShutdown.Received++ }, "subscriptions[0].in_shutdown"},
		"still in flight":               {clean, func(d doc) { d.Deliveries.SinceStart.InFlight, d.Deliveries.SinceStart.Received = 1, 84_212 }, "deliveries.since_start"},
		"acked, never started":          {clean, func(d doc) { d.Deliveries.InShutdown.Started = 3 }, "deliveries.in_shutdown.started"},
		"handed back and started":       {clean, func(d doc) { d.Deliveries.InShutdown.Started = 5 }, "deliveries.in_shutdown.started"},
		"a cohort beyond all":           {clean, func(d doc) { d.Subscriptions[0].InShutdown.LateResults = 1 }, "subscriptions[0].in_shutdown"},
		"a bucket beyond all":           {clean, func(d doc) { s := &d.Subscriptions[0].SinceStart; s.Acked, s.HandedBack = s.Acked+1, s.HandedBack-1 }, "subscriptions[0].in_shutdown"},
		"more at the trigger":           {clean, func(d doc) { d.Subscriptions[0].AtTrigger.Settling = 1 }, "subscriptions[0].at_trigger"},
		"a cohort that does not add up": {clean, func(d doc) { d.Deliveries.InShutdown.Malformed = 1 }, "deliveries.in_shutdown: sum of the subscriptions"},
		"a total that does not add up":  {clean, func(d doc) { d.Deliveries.SinceStart.Malformed = 1 }, "deliveries.since_start: sum of the subscriptions"},
		"a trigger that does not":       {clean, func(d doc) { d.Deliveries.AtTrigger.Started = 1 }, "deliveries.at_trigger: sum of the subscriptions"},
		"a subscription to nothing":     {clean, func(d doc) { d.Subscriptions[0].Queue = "" }, "subscriptions[0].queue"},
		"a negative quiet":              {clean, func(d doc) { d.Deliveries.Proof.QuietUS = -1 }, "deliveries.proof.quiet_us"},

		"a tag that is none":       {abandonedHandler, func(d doc) { d.Unsettled[0].DeliveryTag = "-1" }, "unsettled[0].delivery_tag"},
		"a stack that is not":      {abandonedHandler, func(d doc) { d.Unsettled[0].Stack = 1 }, "unsettled[0].stack"},
		"a stack before the first": {abandonedHandler, func(d doc) { d.Unsettled[0].Stack = -2 }, "unsettled[0].stack"},
		"a negative wait":          {abandonedHandler, func(d doc) { d.Unsettled[0].BufferedUS = -1 }, "unsettled[0]"},
		"a negative omission":      {clean, func(d doc) { d.UnsettledOmitted = -1 }, "unsettled_omitted"},
		"one kept back":            {abandonedHandler, func(d doc) { d.Unsettled = d.Unsettled[:0] }, "unsettled"},
		"one made up":              {clean, func(d doc) { d.UnsettledOmitted = 1 }, "unsettled"},
		"one in another bucket":    {abandonedHandler, func(d doc) { d.Unsettled[0].Bucket = report.BucketUnresolved }, "unsettled"},

		"sessions out of order": {recoveredSession, func(d doc) { d.Sessions[1].N = 1 }, "sessions[1].n"},
		"an end without time":   {clean, func(d doc) { d.Sessions[0].EndedAt = nil }, "sessions[0].end"},
		"ended before opened":   {clean, func(d doc) { d.Sessions[0].OpenedAt = after(second) }, "sessions[0].ended_at"},

		"warnings before errors":  {deadline, func(d doc) { d.Findings[1].Severity = report.SeverityError }, "findings[1].severity"},
		"a severity of no rank":   {deadline, func(d doc) { d.Findings[1].Severity, d.Findings[0].Severity = "info", "grave" }, "findings[1].severity"},
		"a code with capitals":    {deadline, func(d doc) { d.Findings[0].Code = "DrainCut" }, "findings[0].code"},
		"a finding without text":  {deadline, func(d doc) { d.Findings[0].Text = "" }, "findings[0].text"},
		"a finding said twice":    {deadline, func(d doc) { d.Findings[1] = d.Findings[0] }, "findings[1]"},
		"evidence of nothing":     {deadline, func(d doc) { d.Findings[0].Evidence = []string{"unsettled[7]"} }, "findings[0].evidence[0]"},
		"evidence of no field":    {deadline, func(d doc) { d.Findings[0].Evidence = []string{"force.mood"} }, "findings[0].evidence[0]"},
		"evidence of no list":     {deadline, func(d doc) { d.Findings[0].Evidence = []string{"force[0]"} }, "findings[0].evidence[0]"},
		"evidence with an accent": {deadline, func(d doc) { d.Findings[0].Evidence = []string{"unsettled[0]x"} }, "findings[0].evidence[0]"},
		"evidence below null":     {deadline, func(d doc) { d.Findings[0].Evidence = []string{"journal.head"} }, "findings[0].evidence[0]"},

		"an escape in a name":     {clean, func(d doc) { d.Subscriptions[0].Queue = "\x1b[2J" }, "subscriptions[0].queue"},
		"an escape in a label":    {clean, func(d doc) { d.Service.Labels["deploy"] = "\a" }, "service.labels.deploy"},
		"an escape in a stack":    {abandonedHandler, func(d doc) { d.Stacks[0] = "\r" }, "stacks[0]"},
		"broken UTF-8":            {clean, func(d doc) { d.Service.Version = "\xff" }, "service.version"},
		"a number no double has":  {clean, func(d doc) { d.Deliveries.Proof.Window = 1 << 53 }, "deliveries.proof.window"},
		"a negative one":          {clean, func(d doc) { d.Phases[0].BeganTUS = -1 << 53 }, "phases[0].began_t_us"},
		"null where a list is":    {clean, func(d doc) { d.Stacks = nil }, "stacks"},
		"null where an object is": {clean, func(d doc) { d.Service.Labels = nil }, "service.labels"},
	} {
		t.Run(name, func(t *testing.T) {
			d := tc.build()
			mustSeal(t, d)
			if errs := report.Check(d); errs != nil {
				t.Fatalf("before the change: %v", errs)
			}
			tc.change(d)
			var paths []string
			for _, err := range report.Check(d) {
				invariant, ok := errors.AsType[*report.InvariantError](err)
				if !ok {
					t.Fatalf("%T is no *InvariantError", err)
				}
				paths = append(paths, invariant.Path)
			}
			if !slices.Contains(paths, tc.path) {
				t.Errorf("named %q, want %q", paths, tc.path)
			}
		})
	}
}

// TestEvidenceResolves names one of everything that findings may point at.
func TestEvidenceResolves(t *testing.T) {
	d := abandonedHandler()
	d.Findings = []report.Finding{report.NewFinding("made_up", "", "text", "trigger", "budget.force_t_us", "phases[1].actions[0].graceful", "resources[2].evidence[1].t_us",
		"unsettled[0]", "stacks[0]", "service.labels.deploy", "deliveries.in_shutdown.abandoned", "subscriptions[0].requeue_causes[1].class", "config.platform_grace_us")}
	mustSeal(t, d)
	for _, err := range report.Check(d) {
		t.Error(err)
	}
}
