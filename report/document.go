package report

// SchemaID names version 1 of the document. Version 1 only ever grows; readers ignore unknown fields.
const SchemaID = "lastcall.shutdown-report/v1"

// ShutdownReport is the whole document. It is plain data: copy it with Clone, serialise it with JSON, never share its slices.
// Durations are integer microseconds (_us), t_us is the monotonic offset from the trigger, times are RFC 3339 UTC with
// microseconds.
type ShutdownReport struct {
	Schema     string       `json:"schema"`
	ReportID   string       `json:"report_id"` // UUIDv7
	Service    Service      `json:"service"`
	Config     ConfigInfo   `json:"config"`
	Broker     Broker       `json:"broker"`
	Trigger    Trigger      `json:"trigger"`
	Completion Completion   `json:"completion"`
	Success    bool         `json:"success"`
	ExitCode   int          `json:"exit_code"`
	ExitReason ExitReason   `json:"exit_reason"`
	Messages   MessagesInfo `json:"messages"`
	Counts     Counts       `json:"counts"`
	Budget     Budget       `json:"budget"`
	Force      Force        `json:"force"`

	// RuntimeJoined: every goroutine of Lastcall's own was joined (handlers are not its own).
	RuntimeJoined bool `json:"runtime_joined"`
	// CoordinatorAccounted: every registered action has an outcome.
	CoordinatorAccounted bool `json:"coordinator_accounted"`
	// CoordinatorComplete: every registered action, advisory ones included, completed, gracefully or by force.
	CoordinatorComplete bool `json:"coordinator_complete"`
	// QueueDrainReconciled: every cohort delivery has a bucket by observation, none abandoned or unresolved, every delivery
	// loop joined.
	QueueDrainReconciled bool `json:"queue_drain_reconciled"`
	// QueueCloseReconciled: QueueDrainReconciled, and close-ok for every channel and connection alive at the trigger.
	QueueCloseReconciled bool `json:"queue_close_reconciled"`

	Triggers      []TriggerEvent `json:"triggers"`
	Phases        []Phase        `json:"phases"`
	Resources     []Resource     `json:"resources"`
	Deliveries    Deliveries     `json:"deliveries"`
	Subscriptions []Subscription `json:"subscriptions"`
	Sessions      []Session      `json:"sessions"`
	Unsettled     []Unsettled    `json:"unsettled"`
	// UnsettledOmitted counts entries beyond the cap of Unsettled.
	UnsettledOmitted int       `json:"unsettled_omitted"`
	Stacks           []string  `json:"stacks"`
	Findings         []Finding `json:"findings"`
	Recovered        bool      `json:"recovered"`
	Journal          *Journal  `json:"journal"`
	// Digest is "sha256:" and the SHA-256 of the RFC 8785 form of the document without this field.
	Digest string `json:"digest"`
}

// Service says whose report this is.
type Service struct {
	Name     string            `json:"name"`
	Version  string            `json:"version"`
	Instance string            `json:"instance"`
	PID      int               `json:"pid"`
	Labels   map[string]string `json:"labels"`
	Go       string            `json:"go"`
	Lastcall string            `json:"lastcall"`
}

// ConfigInfo identifies the configuration without repeating it.
type ConfigInfo struct {
	Digest          string `json:"digest"`
	PlatformGraceUS *int64 `json:"platform_grace_us"`
}

// Broker is what the default transport connected to; for a transport that never connected only Kind is set.
type Broker struct {
	Kind           string `json:"kind"`
	Product        string `json:"product"`
	Version        string `json:"version"`
	Node           string `json:"node"`
	VHost          string `json:"vhost"`
	ConnectionName string `json:"connection_name"`
	LocalAddr      string `json:"local_addr"`
}

// Trigger is why the shutdown began. For a startup trigger Detail is one of the StartupX constants or another short word.
type Trigger struct {
	Kind   TriggerKind `json:"kind"`
	Detail string      `json:"detail"`
	At     Time        `json:"at"`
}

// Details of a startup trigger that have an exit code of their own.
const (
	StartupBrokerUnavailable = "broker_unavailable" // exit code 69
	StartupConfiguration     = "configuration"      // exit code 78
)

// MessagesInfo is the verdict on the messages alone.
type MessagesInfo struct {
	Verdict Verdict `json:"verdict"`
}

// Counts counts errors and panics of actions, closers, tasks and loops; never of handlers, and never of what is advisory.
type Counts struct {
	Errors int `json:"errors"`
	Panics int `json:"panics"`
}

// Budget is the plan and what became of it. ForceTUS is when the force phase had to be over, nil while force was not used.
type Budget struct {
	TotalUS       int64  `json:"total_us"`
	ReserveUS     int64  `json:"reserve_us"`
	ForceWindowUS int64  `json:"force_window_us"`
	GracefulTUS   int64  `json:"graceful_t_us"`
	ForceTUS      *int64 `json:"force_t_us"`
	CloseTUS      int64  `json:"close_t_us"`
	DisposeTUS    int64  `json:"dispose_t_us"`
	HardTUS       int64  `json:"hard_t_us"`
	ElapsedUS     int64  `json:"elapsed_us"`
	OverrunUS     int64  `json:"overrun_us"`
}

// Force says whether the force notice was given while something was unfinished, by what, and when.
type Force struct {
	Used  bool       `json:"used"`
	Cause ForceCause `json:"cause"`
	TUS   *int64     `json:"t_us"`
}

// TriggerEvent is one request to end, with what it changed.
type TriggerEvent struct {
	Kind   TriggerKind `json:"kind"`
	Detail string      `json:"detail"`
	Effect Effect      `json:"effect"`
	TUS    int64       `json:"t_us"`
}

// Phase is one phase as it ran.
type Phase struct {
	Phase     string   `json:"phase"` // close_admission, drain, force, close_evidence, dispose, publish
	BeganTUS  int64    `json:"began_t_us"`
	ElapsedUS int64    `json:"elapsed_us"`
	Actions   []Action `json:"actions"`
}

// Action is one thing a phase ran, with the outcome of each half.
type Action struct {
	Name      string          `json:"name"`
	Graceful  GracefulOutcome `json:"graceful"`
	Forced    ForcedOutcome   `json:"forced"`
	Advisory  bool            `json:"advisory"`
	BeganTUS  int64           `json:"began_t_us"`
	ElapsedUS int64           `json:"elapsed_us"`
	Panicked  bool            `json:"panicked"`
	Error     *Error          `json:"error"`
}

// Error is an error as data: its text, redacted and capped, and a class that machines may group by (the Go type of the
// innermost error, or a sentinel's name).
type Error struct {
	Class string `json:"class"`
	Text  string `json:"text"`
}

// Resource is one thing that was owned or borrowed, with the four flags.
type Resource struct {
	Name       string     `json:"name"`
	Kind       string     `json:"kind"`
	Owned      bool       `json:"owned"`
	Started    bool       `json:"started"`
	Terminal   bool       `json:"terminal"`
	Succeeded  bool       `json:"succeeded"`
	Advisory   bool       `json:"advisory"`
	WithheldBy string     `json:"withheld_by"`
	Panicked   bool       `json:"panicked"`
	BeganTUS   int64      `json:"began_t_us"`
	ElapsedUS  int64      `json:"elapsed_us"`
	Error      *Error     `json:"error"`
	Evidence   []Evidence `json:"evidence"`
}

// Evidence is one timed observation.
type Evidence struct {
	Kind   string `json:"kind"`
	TUS    int64  `json:"t_us"`
	Detail string `json:"detail,omitempty"`
}

// Sheet is a place for every delivery: Received is the sum of the buckets, and InFlight is 0 once the report is sealed.
// Started counts the deliveries whose handler was called.
type Sheet struct {
	Received    uint64 `json:"received"`
	Started     uint64 `json:"started"`
	Acked       uint64 `json:"acked"`
	Requeued    uint64 `json:"requeued"`
	Rejected    uint64 `json:"rejected"`
	HandedBack  uint64 `json:"handed_back"`
	Released    uint64 `json:"released"`
	Interrupted uint64 `json:"interrupted"`
	Unresolved  uint64 `json:"unresolved"`
	Abandoned   uint64 `json:"abandoned"`
	InFlight    uint64 `json:"in_flight"`
	Conserved   bool   `json:"conserved"`

	LateResults   uint64 `json:"late_results"`
	HandlerPanics uint64 `json:"handler_panics"`
	Malformed     uint64 `json:"malformed"`
}

// AtTrigger is what was in flight when the shutdown began. Settling counts deliveries whose settlement was sent and not yet
// proven.
type AtTrigger struct {
	Started  uint64 `json:"started"`
	Buffered uint64 `json:"buffered"`
	Settling uint64 `json:"settling"`
}

// Proof counts how the settlements of the cohort were proven: by the prefetch window, by a reply on the same channel.
// QuietUS is the quiet period spent before the close.
type Proof struct {
	Window  uint64 `json:"window"`
	Barrier uint64 `json:"barrier"`
	QuietUS int64  `json:"quiet_us"`
}

// Deliveries holds both sheets. InShutdown is the cohort the shutdown answers for; SinceStart is cumulative.
type Deliveries struct {
	InShutdown Sheet     `json:"in_shutdown"`
	SinceStart Sheet     `json:"since_start"`
	AtTrigger  AtTrigger `json:"at_trigger"`
	Proof      Proof     `json:"proof"`
}

// Subscription is one subscription with its own sheets.
type Subscription struct {
	Queue       string `json:"queue"`
	ConsumerTag string `json:"consumer_tag"`
	Prefetch    int    `json:"prefetch"`
	Concurrency int    `json:"concurrency"`
	Drain       string `json:"drain"`
	State       string `json:"state"`
	// LoopJoined: no goroutine of the delivery loop is left; also true if none was started.
	LoopJoined    bool           `json:"loop_joined"`
	InShutdown    Sheet          `json:"in_shutdown"`
	SinceStart    Sheet          `json:"since_start"`
	AtTrigger     AtTrigger      `json:"at_trigger"`
	HandlerUS     HandlerTimes   `json:"handler_us"`
	RequeueCauses []RequeueCause `json:"requeue_causes"`
	QueueAtEnd    *QueueAtEnd    `json:"queue_at_end"`
}

// HandlerTimes summarises how long handlers took, in microseconds.
type HandlerTimes struct {
	P50   int64  `json:"p50"`
	P95   int64  `json:"p95"`
	Max   int64  `json:"max"`
	Count uint64 `json:"count"`
}

// RequeueCause counts requeues by the class of their cause.
type RequeueCause struct {
	Class string `json:"class"`
	Count uint64 `json:"count"`
}

// QueueAtEnd is what the broker said of the queue at the end; quorum counters lag by seconds.
type QueueAtEnd struct {
	Ready     uint64 `json:"ready"`
	Consumers uint64 `json:"consumers"`
	TUS       int64  `json:"t_us"`
}

// Session is one incarnation of a broker connection. End is the transport's word for how it ended ("close_ok", "peer_close",
// "peer_reset", "cut", "silent", "protocol"), empty while EndedAt is nil; By is "us", "peer" or "".
type Session struct {
	N          uint64 `json:"n"`
	Transport  string `json:"transport"`
	OpenedAt   Time   `json:"opened_at"`
	EndedAt    *Time  `json:"ended_at"`
	End        string `json:"end"`
	Code       int    `json:"code"`
	Text       string `json:"text"`
	By         string `json:"by"`
	Unresolved uint64 `json:"unresolved"`
	Released   uint64 `json:"released"`
}

// Unsettled is one delivery that did not end in a settlement as its handler said: abandoned, unresolved or interrupted. The
// list is oldest first and may hold deliveries from before the trigger.
type Unsettled struct {
	Queue       string `json:"queue"`
	Session     uint64 `json:"session"`
	DeliveryTag string `json:"delivery_tag"`
	MessageID   string `json:"message_id"`
	Redelivered bool   `json:"redelivered"`
	Bucket      string `json:"bucket"`
	BufferedUS  int64  `json:"buffered_us"`
	HandlerUS   int64  `json:"handler_us"`
	// Settlement is what was sent: "none", "written", "failed".
	Settlement string `json:"settlement"`
	Detail     string `json:"detail"`
	// Stack is an index into Stacks, or -1.
	Stack int `json:"stack"`
}

// Finding is one thing a reader should know, with pointers to its evidence (paths into the document).
type Finding struct {
	Severity Severity `json:"severity"` // error, warning, info
	Code     string   `json:"code"`
	Subject  string   `json:"subject"`
	Text     string   `json:"text"`
	Evidence []string `json:"evidence"`
}

// Journal ties a report to its journal: the head before the seal and the number of records.
type Journal struct {
	Head    string `json:"head"`
	Records uint64 `json:"records"`
}
