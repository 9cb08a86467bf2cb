package report

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"
)

// InvariantError is one way in which a document contradicts itself.
type InvariantError struct {
	Path    string // where, as a path into the document
	Problem string
}

// Error is "path: problem".
func (e *InvariantError) Error() string { return e.Path + ": " + e.Problem }

// Check holds a sealed document against every invariant of its schema that a JSON Schema cannot say, and returns each
// *InvariantError; nil means that the document agrees with itself. It does not recompute the digest: see VerifyDigest.
func Check(d *ShutdownReport) []error {
	c := checker{d: d}
	c.identity()
	c.judgement()
	c.time()
	c.force()
	c.triggers()
	c.phases()
	for i := range d.Resources {
		c.resource(&d.Resources[i], index("resources", i))
	}
	c.runtime()
	c.counts()
	c.deliveries()
	c.unsettled()
	c.sessions()
	c.findings()
	c.values(reflect.ValueOf(d).Elem(), "")
	return c.errs
}

type checker struct {
	d    *ShutdownReport
	errs []error
}

func (c *checker) require(ok bool, path, problem string, args ...any) {
	if !ok {
		c.errs = append(c.errs, &InvariantError{Path: path, Problem: fmt.Sprintf(problem, args...)})
	}
}

var (
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	codeForm   = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
)

func (c *checker) identity() {
	d := c.d
	c.require(d.Schema == SchemaID, "schema", "is %q, want %q", d.Schema, SchemaID)
	c.require(idForm.MatchString(d.ReportID), "report_id", "%q is no lower-case UUIDv7", d.ReportID)
	c.require(digestForm.MatchString(d.Digest), "digest", "%q is no SHA-256: the document is not sealed", d.Digest)
	c.require(d.Service.Name != "", "service.name", "is empty")
}

// judgement recomputes what Judge fills in.
func (c *checker) judgement() {
	d, want := c.d, Clone(c.d)
	Judge(want)
	agree(c, "completion", d.Completion, want.Completion)
	agree(c, "success", d.Success, want.Success)
	agree(c, "exit_code", d.ExitCode, want.ExitCode)
	agree(c, "exit_reason", d.ExitReason, want.ExitReason)
	agree(c, "messages.verdict", d.Messages.Verdict, want.Messages.Verdict)
	agree(c, "coordinator_accounted", d.CoordinatorAccounted, want.CoordinatorAccounted)
	agree(c, "coordinator_complete", d.CoordinatorComplete, want.CoordinatorComplete)
	agree(c, "queue_drain_reconciled", d.QueueDrainReconciled, want.QueueDrainReconciled)
	agree(c, "queue_close_reconciled", d.QueueCloseReconciled, want.QueueCloseReconciled)
	agree(c, "findings: number", len(d.Findings), len(want.Findings))
	var conserved []bool
	want.sheets(func(_ string, s *Sheet) { conserved = append(conserved, s.Conserved) })
	d.sheets(func(path string, s *Sheet) {
		agree(c, path+".conserved", s.Conserved, conserved[0])
		conserved = conserved[1:]
	})
}

func agree[T comparable](c *checker, path string, got, want T) {
	c.require(got == want, path, "is %v, but the document says %v", got, want)
}

func (c *checker) time() {
	b := c.d.Budget
	c.require(!c.d.Trigger.At.IsZero() || c.d.Recovered, "trigger.at", "is the zero time")
	for _, pair := range []struct {
		path        string
		early, late int64
	}{
		{"budget.graceful_t_us", b.GracefulTUS, b.CloseTUS},
		{"budget.close_t_us", b.CloseTUS, b.DisposeTUS},
		{"budget.dispose_t_us", b.DisposeTUS, b.HardTUS},
		{"budget.hard_t_us", b.HardTUS, b.TotalUS},
		{"budget.reserve_us", b.ReserveUS, b.TotalUS},
		{"budget.graceful_t_us", 0, b.GracefulTUS},
		{"budget.reserve_us", 0, b.ReserveUS},
		{"budget.force_window_us", 0, b.ForceWindowUS},
		{"budget.elapsed_us", 0, b.ElapsedUS},
	} {
		c.require(pair.early <= pair.late, pair.path, "the order is broken: %d is greater than %d", pair.early, pair.late)
	}
	agree(c, "budget.overrun_us", b.OverrunUS, max(b.ElapsedUS-b.HardTUS, 0))
}

func (c *checker) force() {
	f, d := c.d.Force, c.d
	c.require(f.Used == (f.Cause != ""), "force.cause", "is %q, with force.used %t", f.Cause, f.Used)
	c.require(f.Used == (f.TUS != nil), "force.t_us", "is set only if force was used")
	c.require(f.Used == (d.Budget.ForceTUS != nil), "budget.force_t_us", "is set only if force was used")
	if f.Used && f.TUS != nil && d.Budget.ForceTUS != nil {
		c.require(*f.TUS <= *d.Budget.ForceTUS && *d.Budget.ForceTUS <= d.Budget.CloseTUS, "budget.force_t_us",
			"the order is broken: notice %d, end %d, close %d", *f.TUS, *d.Budget.ForceTUS, d.Budget.CloseTUS)
	}
	asked := func(kind TriggerKind) bool {
		return slices.ContainsFunc(d.Triggers, func(t TriggerEvent) bool { return t.Kind == kind && t.Effect == EffectForce })
	}
	c.require(f.Cause != ForceSignal || asked(TriggerSignal), "force.cause", "is signal, and no trigger of that kind has the effect force")
	c.require(f.Cause != ForceAPI || asked(TriggerAPI), "force.cause", "is api, and no trigger of that kind has the effect force")
}

func (c *checker) triggers() {
	d := c.d
	for i := range d.Triggers {
		if i > 0 {
			c.require(d.Triggers[i-1].TUS <= d.Triggers[i].TUS, index("triggers", i), "is earlier than the one before it")
		}
	}
	if len(d.Triggers) > 0 && d.Trigger.Kind != TriggerStartup && !d.Recovered {
		first := d.Triggers[0]
		c.require(first.Kind == d.Trigger.Kind && first.Detail == d.Trigger.Detail, "triggers[0]", "is %s %q, but trigger is %s %q",
			first.Kind, first.Detail, d.Trigger.Kind, d.Trigger.Detail)
	}
}

// phaseNames are the phases in the order in which they run.
var phaseNames = []string{"close_admission", "drain", "force", "close_evidence", "dispose", "publish"}

func (c *checker) phases() {
	last := -1
	var began int64
	for i := range c.d.Phases {
		p, path := &c.d.Phases[i], index("phases", i)
		at := slices.Index(phaseNames, p.Phase)
		c.require(at > last, path+".phase", "%q is unknown, repeated or out of order", p.Phase)
		c.require(i == 0 || p.BeganTUS >= began, path+".began_t_us", "is earlier than that of the phase before it")
		c.require(p.ElapsedUS >= 0, path+".elapsed_us", "is negative")
		last, began = max(last, at), p.BeganTUS
		for j := range p.Actions {
			a, path := &p.Actions[j], index(path+".actions", j)
			c.require(a.accounted(), path, "the outcome {%s, %s} is illegal", a.Graceful, a.Forced)
			c.require(a.Name != "", path+".name", "is empty")
			c.require(a.ElapsedUS >= 0, path+".elapsed_us", "is negative")
			panicked := a.Graceful == GracefulPanicked || a.Forced == ForcedPanicked
			c.require(a.Panicked == panicked, path+".panicked", "is %t, but the outcome is {%s, %s}", a.Panicked, a.Graceful, a.Forced)
		}
	}
}

func (c *checker) resource(r *Resource, path string) {
	c.require(r.Name != "", path+".name", "is empty")
	c.require(!r.Succeeded || r.Terminal, path+".succeeded", "is true without terminal")
	c.require(!r.Terminal || r.Started, path+".terminal", "is true without started")
	c.require(!r.Started || r.Owned, path+".started", "is true without owned")
	c.require(r.WithheldBy == "" || r.Owned && !r.Started, path+".withheld_by", "is set, and the resource was borrowed or its end began")
	c.require(!r.Panicked || !r.Succeeded, path+".panicked", "is true with succeeded")
	c.require(r.Error == nil || !r.Succeeded, path+".error", "is set with succeeded")
	c.require(r.ElapsedUS >= 0, path+".elapsed_us", "is negative")
	if !r.isBroker() {
		return
	}
	closed := r.has(evidenceCloseOK) || r.has(evidenceConnectionCloseOK)
	ended := closed || r.has(evidencePeerClose) || r.has(evidencePeerReset) || r.Kind == kindChannel && r.has(evidenceConsumerCancelled)
	c.require(!r.Succeeded || closed, path+".succeeded", "is true without the evidence of a close-ok")
	c.require(!r.Terminal || ended, path+".terminal", "is true without the evidence of an end")
}

func (c *checker) runtime() {
	for i := range c.d.Resources {
		if r := &c.d.Resources[i]; r.Kind == kindRuntime {
			c.require(r.Terminal == c.d.RuntimeJoined, index("resources", i)+".terminal", "is %t, but runtime_joined is %t", r.Terminal, c.d.RuntimeJoined)
		}
	}
	for i := range c.d.Subscriptions {
		c.require(!c.d.RuntimeJoined || c.d.Subscriptions[i].LoopJoined, index("subscriptions", i)+".loop_joined", "is false, but runtime_joined is true")
	}
}

// counts holds the counts against what is recorded one by one; they may be higher, for loops are not.
func (c *checker) counts() {
	panicked := anyAction(c.d, func(a *Action) bool { return !a.Advisory && a.Panicked })
	failed := anyAction(c.d, func(a *Action) bool {
		return !a.Advisory && (a.Graceful == GracefulFailed || a.Forced == ForcedFailed)
	})
	for i := range c.d.Resources {
		r := &c.d.Resources[i]
		panicked = panicked || r.counts() && r.Panicked
		failed = failed || r.counts() && r.Kind == kindTask && r.bad() && !r.Panicked
	}
	n := c.d.Counts
	c.require(n.Errors >= 0 && n.Panics >= 0, "counts", "are negative")
	c.require(!panicked || n.Panics > 0, "counts.panics", "is 0, but something panicked")
	c.require(!failed || n.Errors+n.Panics > 0, "counts.errors", "is 0, but something ended with an error")
}

func (c *checker) deliveries() {
	d := c.d
	var cohort, all Sheet
	var atTrigger AtTrigger
	for i := range d.Subscriptions {
		s, path := &d.Subscriptions[i], index("subscriptions", i)
		cohort.Add(s.InShutdown)
		all.Add(s.SinceStart)
		atTrigger.Add(s.AtTrigger)
		c.sheetPair(path, s.InShutdown, s.SinceStart, s.AtTrigger)
		c.require(s.Queue != "", path+".queue", "is empty")
	}
	c.sheetPair("deliveries", d.Deliveries.InShutdown, d.Deliveries.SinceStart, d.Deliveries.AtTrigger)
	cohort.Conserved, all.Conserved = d.Deliveries.InShutdown.Conserved, d.Deliveries.SinceStart.Conserved
	agree(c, "deliveries.in_shutdown: sum of the subscriptions", d.Deliveries.InShutdown, cohort)
	agree(c, "deliveries.since_start: sum of the subscriptions", d.Deliveries.SinceStart, all)
	agree(c, "deliveries.at_trigger: sum of the subscriptions", d.Deliveries.AtTrigger, atTrigger)
	proof := d.Deliveries.Proof
	c.require(proof.QuietUS >= 0, "deliveries.proof.quiet_us", "is negative")
}

// sheetPair checks the two sheets at path, and each against the other.
func (c *checker) sheetPair(path string, cohort, all Sheet, at AtTrigger) {
	for _, s := range []struct {
		name  string
		sheet Sheet
	}{{".in_shutdown", cohort}, {".since_start", all}} {
		c.require(s.sheet.Conserves(), path+s.name, "received %d, placed %d, in flight %d", s.sheet.Received, s.sheet.Placed(), s.sheet.InFlight)
		started, unstarted := s.sheet.Acked+s.sheet.Interrupted+s.sheet.Abandoned, s.sheet.HandedBack+s.sheet.Released
		c.require(started <= s.sheet.Started, path+s.name+".started", "is %d, but %d ended as only started ones can", s.sheet.Started, started)
		c.require(s.sheet.Started+unstarted <= s.sheet.Received, path+s.name+".started", "is %d of %d, but %d were never started",
			s.sheet.Started, s.sheet.Received, unstarted)
	}
	within := cohort.Received <= all.Received && cohort.Started <= all.Started && cohort.LateResults <= all.LateResults &&
		cohort.HandlerPanics <= all.HandlerPanics && cohort.Malformed <= all.Malformed
	some, every := cohort.buckets(), all.buckets()
	for i := range some {
		within = within && some[i].count <= every[i].count
	}
	c.require(within, path+".in_shutdown", "a count is greater than since the start")
	c.require(at.Started+at.Buffered+at.Settling <= cohort.Received, path+".at_trigger", "is more than the cohort received")
}

func (c *checker) unsettled() {
	d := c.d
	cohort, all := &d.Deliveries.InShutdown, &d.Deliveries.SinceStart
	listed := make(map[string]uint64)
	for i := range d.Unsettled {
		u, path := &d.Unsettled[i], index("unsettled", i)
		listed[u.Bucket]++
		_, err := strconv.ParseUint(u.DeliveryTag, 10, 64)
		c.require(err == nil, path+".delivery_tag", "%q is no 64-bit number", u.DeliveryTag)
		c.require(u.Stack >= -1 && u.Stack < len(d.Stacks), path+".stack", "%d is no index into %d stacks, nor -1", u.Stack, len(d.Stacks))
		c.require(u.BufferedUS >= 0 && u.HandlerUS >= 0, path, "a duration is negative")
	}
	c.require(d.UnsettledOmitted >= 0, "unsettled_omitted", "is negative")
	for bucket, most := range map[string]uint64{BucketAbandoned: all.Abandoned, BucketUnresolved: all.Unresolved, BucketInterrupted: all.Interrupted} {
		c.require(listed[bucket] <= most, "unsettled", "names %d %s, but there were %d", listed[bucket], bucket, most)
	}
	named := uint64(len(d.Unsettled) + max(d.UnsettledOmitted, 0))
	least := cohort.Abandoned + cohort.Unresolved + cohort.Interrupted
	most := all.Abandoned + all.Unresolved + all.Interrupted
	c.require(least <= named && named <= most, "unsettled", "names or omits %d, but there were %d in the shutdown and %d in all", named, least, most)
}

func (c *checker) sessions() {
	n := make(map[string]uint64)
	for i := range c.d.Sessions {
		s, path := &c.d.Sessions[i], index("sessions", i)
		c.require(s.N > n[s.Transport], path+".n", "%d does not rise", s.N)
		n[s.Transport] = s.N
		c.require((s.EndedAt == nil) == (s.End == ""), path+".end", "is %q, and ended_at does not agree", s.End)
		c.require(s.EndedAt == nil || !s.EndedAt.Before(s.OpenedAt.Time), path+".ended_at", "is before opened_at")
	}
}

func (c *checker) findings() {
	rank, errors := 0, 0
	seen := make(map[findingKey]bool)
	for i := range c.d.Findings {
		f, path := &c.d.Findings[i], index("findings", i)
		c.require(f.Severity.rank() >= rank, path+".severity", "%s stands after one that weighs less", f.Severity)
		rank = max(rank, f.Severity.rank())
		c.require(codeForm.MatchString(f.Code), path+".code", "%q is no lower_snake word", f.Code)
		c.require(f.Text != "", path+".text", "is empty")
		key := findingKey{f.Code, f.Subject}
		c.require(!seen[key], path, "says %s of %q again", f.Code, f.Subject)
		seen[key] = true
		if f.Severity == SeverityError {
			errors++
		}
		for j, p := range f.Evidence {
			c.require(resolves(c.d, p), index(path+".evidence", j), "%q names nothing", p)
		}
	}
	c.require(c.d.Success || errors > 0, "findings", "none of severity error says why it is no success")
}

// maxNumber is the greatest integer that RFC 8785, whose numbers are doubles, keeps whole.
const maxNumber = 1<<53 - 1

// values checks every string, number and time of the document.
func (c *checker) values(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		lines := len(path) > len("stacks[") && path[:len("stacks[")] == "stacks["
		c.require(utf8.ValidString(v.String()) && neutralise(v.String(), lines) == v.String(), path, "%q could act on a terminal", v.String())
	case reflect.Int, reflect.Int64:
		c.require(v.Int() <= maxNumber && v.Int() >= -maxNumber, path, "%d does not survive as a JSON number", v.Int())
	case reflect.Uint64:
		c.require(v.Uint() <= maxNumber, path, "%d does not survive as a JSON number", v.Uint())
	case reflect.Pointer:
		if !v.IsNil() {
			c.values(v.Elem(), path)
		}
	case reflect.Slice:
		c.require(!v.IsNil(), path, "is null")
		for i := range v.Len() {
			c.values(v.Index(i), index(path, i))
		}
	case reflect.Map:
		c.require(!v.IsNil(), path, "is null")
		for it := v.MapRange(); it.Next(); {
			c.values(it.Key(), path)
			c.values(it.Value(), path+"."+it.Key().String())
		}
	case reflect.Struct:
		if t, ok := v.Interface().(Time); ok {
			c.require(t.Equal(At(t.Time).Time), path, "%v is finer than a microsecond", t.Time)
			return
		}
		for i := range v.NumField() {
			name := jsonName(v.Type().Field(i))
			if path != "" {
				name = path + "." + name
			}
			c.values(v.Field(i), name)
		}
	}
}
