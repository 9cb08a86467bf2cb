package config

import (
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/signals"
	"github.com/lastcall-go/lastcall/transport"
)

// File is one valid configuration as it takes effect: defaults filled in, environment and flags applied. It is plain data.
// config.example.toml explains every key.
type File struct {
	// Name is what the file was called when it was read.
	Name string `toml:"-"`

	Service       Service        `toml:"service"`
	Lifecycle     Lifecycle      `toml:"lifecycle"`
	Signals       Signals        `toml:"signals"`
	Broker        Broker         `toml:"broker"`
	Subscriptions []Subscription `toml:"subscription"`
	Report        Report         `toml:"report"`

	// Digest is "sha256:" and the digest of what is above, without Name, passwords and the values of environment variables
	// that labels name. Equal digests mean equal configurations.
	Digest string `toml:"-"`
	// Warnings are in the order of the file.
	Warnings []Warning `toml:"-"`
}

// Service says whose consumer this is.
type Service struct {
	Name   string            `toml:"name" env:"LASTCALL_SERVICE_NAME"` // empty: the program's name
	Labels map[string]string `toml:"labels"`                           // "env:NAME" has been replaced
}

// Lifecycle is the time budget.
type Lifecycle struct {
	ShutdownTimeout Duration `toml:"shutdown_timeout" seconds:"shutdown_timeout_secs" env:"LASTCALL_SHUTDOWN_TIMEOUT"`
	ForceWindow     Duration `toml:"force_window"`
	PlatformGrace   Duration `toml:"platform_grace" env:"LASTCALL_PLATFORM_GRACE"` // 0: unknown
	PlatformPrestop Duration `toml:"platform_prestop" env:"LASTCALL_PLATFORM_PRESTOP"`
	StartRetry      Duration `toml:"start_retry"` // 0: one try
}

// Deadline is the shutdown's budget as it was asked for.
func (l Lifecycle) Deadline() deadline.Config {
	return deadline.Config{Total: time.Duration(l.ShutdownTimeout), ForceWindow: time.Duration(l.ForceWindow)}
}

// Grace is the platform's side: whether the budget fits, what it needs, and what would fit.
func (l Lifecycle) Grace() deadline.Grace {
	return deadline.Grace{Granted: time.Duration(l.PlatformGrace), PreStop: time.Duration(l.PlatformPrestop)}
}

// Signals says what signals do.
type Signals struct {
	Second string `toml:"second"` // "force" or "ignore"
}

// The kinds of broker.
const (
	RabbitMQ = "rabbitmq"
	Memory   = "memory"
)

// Broker says where the messages come from.
type Broker struct {
	Kind string `toml:"kind"`                          // RabbitMQ or Memory
	URL  URL    `toml:"url" env:"LASTCALL_BROKER_URL"` // empty if URLFile is set
	// URLFile is a file that holds the URL, read at each dial; see [Broker.Address].
	URLFile string `toml:"url_file"`
	// ReconnectMax caps the wait between two tries to connect again, GiveUpAfter is for how long they go on.
	ReconnectMax Duration `toml:"reconnect_max"`
	GiveUpAfter  Duration `toml:"give_up_after"`
}

// Subscription is a queue consumed by a program.
type Subscription struct {
	Queue          string         `toml:"queue"`
	Declare        string         `toml:"declare"` // "passive", "classic" or "quorum"
	Arguments      map[string]any `toml:"arguments"`
	Exclusive      bool           `toml:"exclusive"`
	ConsumerTag    string         `toml:"consumer_tag"` // empty: made unique by Lastcall
	Prefetch       int            `toml:"prefetch"`
	Concurrency    int            `toml:"concurrency"`
	HandlerTimeout Duration       `toml:"handler_timeout"`
	Drain          string         `toml:"drain"`          // "auto", "hand_back", "finish_prefetched" or "ordered"
	MaxBodyBytes   int            `toml:"max_body_bytes"` // 0: no limit of ours
	Exec           []string       `toml:"exec"`
	TermExitZero   string         `toml:"term_exit_zero"`  // "interrupted" or "ack"
	OnError        string         `toml:"on_error"`        // "requeue" or "reject"
	RequeueDelay   Duration       `toml:"requeue_delay"`   // 0: none
	DuplicateStart string         `toml:"duplicate_start"` // "hold", "hand_back" or "allow"
}

// Report says where reports go.
type Report struct {
	Dir  string `toml:"dir" env:"LASTCALL_REPORT_DIR"` // empty: none is written
	Keep int    `toml:"keep"`
}

func defaults() File {
	return File{
		Lifecycle: Lifecycle{ShutdownTimeout: Duration(deadline.DefaultTotal), ForceWindow: Duration(deadline.DefaultForceWindow)},
		Signals:   Signals{Second: "force"},
		Broker:    Broker{Kind: RabbitMQ, ReconnectMax: Duration(managed.DefaultReconnectMax), GiveUpAfter: Duration(managed.DefaultGiveUpAfter)},
		Report:    Report{Keep: 100},
	}
}

// defaultSubscription leaves Prefetch and HandlerTimeout to complete, since they depend on other keys.
func defaultSubscription() Subscription {
	return Subscription{Declare: "passive", Concurrency: 1, Drain: "auto", TermExitZero: "interrupted", OnError: "requeue",
		RequeueDelay: Duration(time.Second), DuplicateStart: "hold"}
}

// complete fills in the defaults that depend on other keys.
func (f *File) complete() {
	for i := range f.Subscriptions {
		s := &f.Subscriptions[i]
		if s.Prefetch == 0 {
			s.Prefetch = min(max(4*s.Concurrency, 16), maxPrefetch)
		}
		if s.HandlerTimeout == 0 {
			s.HandlerTimeout = Duration(f.Lifecycle.graceful())
		}
	}
}

// graceful is the graceful window of the budget that is planned with: the configured one, or what fits into the platform's grace.
func (l Lifecycle) graceful() time.Duration {
	cfg := l.Deadline()
	cfg.Total = l.Grace().Largest(cfg.Total)
	budget, err := deadline.New(cfg)
	if err != nil {
		return 0 // no valid File
	}
	return budget.Graceful()
}

// Values of the enumerations, in the order in which they are offered.
var (
	seconds  = words[signals.Second]{{"force", signals.SecondForce}, {"ignore", signals.SecondIgnore}}
	declares = words[transport.Declare]{{"passive", transport.DeclarePassive}, {"classic", transport.DeclareClassic},
		{"quorum", transport.DeclareQuorum}}
	drains = words[managed.Drain]{{"auto", managed.DrainAuto}, {"hand_back", managed.DrainHandBack},
		{"finish_prefetched", managed.DrainFinishPrefetched}, {"ordered", managed.DrainOrdered}}
	onErrors   = words[managed.OnError]{{"requeue", managed.OnErrorRequeue}, {"reject", managed.OnErrorReject}}
	duplicates = words[managed.DuplicateStart]{{"hold", managed.DuplicateStartHold}, {"hand_back", managed.DuplicateStartHandBack},
		{"allow", managed.DuplicateStartAllow}}
	exitZero = words[managed.TermExitZero]{{"interrupted", managed.TermExitZeroInterrupted}, {"ack", managed.TermExitZeroAck}}
	kinds    = words[struct{}]{{RabbitMQ, struct{}{}}, {Memory, struct{}{}}}
)

// words is an enumeration: what is written, and what it means.
type words[T any] []struct {
	word  string
	means T
}

func (w words[T]) list() []string {
	out := make([]string, len(w))
	for i := range w {
		out[i] = w[i].word
	}
	return out
}

// of returns what word means, the zero T for a word that is none of them.
func (w words[T]) of(word string) T {
	for i := range w {
		if w[i].word == word {
			return w[i].means
		}
	}
	var none T
	return none
}

// Consumer returns the configuration of the consumer that f describes, its handlers included. Transport is left to the caller,
// who knows [Broker.Kind] and [Broker.Address], and so are Logger and Service.Version.
func (f *File) Consumer() managed.Config {
	cfg := managed.Config{
		Service: managed.Service{Name: f.Service.Name, Labels: f.Service.Labels},
		Lifecycle: managed.Lifecycle{
			ShutdownTimeout: time.Duration(f.Lifecycle.ShutdownTimeout), ForceWindow: time.Duration(f.Lifecycle.ForceWindow),
			PlatformGrace: time.Duration(f.Lifecycle.PlatformGrace), PlatformPrestop: time.Duration(f.Lifecycle.PlatformPrestop),
		},
		SecondSignal: seconds.of(f.Signals.Second),
		Report:       managed.Report{Dir: f.Report.Dir, Keep: f.Report.Keep},
		Reconnect:    managed.Reconnect{Max: time.Duration(f.Broker.ReconnectMax), GiveUpAfter: time.Duration(f.Broker.GiveUpAfter)},
		StartRetry:   time.Duration(f.Lifecycle.StartRetry),
		Digest:       f.Digest,
	}
	for _, s := range f.Subscriptions {
		cfg.Subscriptions = append(cfg.Subscriptions, s.managed())
	}
	return cfg
}

func (s Subscription) managed() managed.Subscription {
	// Exec refuses only a command that Parse refuses; without a handler managed.New says what is missing.
	handler, _ := managed.Exec(managed.ExecConfig{Command: s.Exec, TermExitZero: exitZero.of(s.TermExitZero)})
	delay := time.Duration(s.RequeueDelay)
	if delay == 0 {
		delay = managed.NoRequeueDelay
	}
	return managed.Subscription{
		Queue: s.Queue, Handler: handler, Prefetch: s.Prefetch, Concurrency: s.Concurrency,
		HandlerTimeout: time.Duration(s.HandlerTimeout), Drain: drains.of(s.Drain), OnError: onErrors.of(s.OnError),
		RequeueDelay: delay, DuplicateStart: duplicates.of(s.DuplicateStart), MaxBodyBytes: s.MaxBodyBytes, Declare: declares.of(s.Declare), Arguments: s.Arguments,
		Exclusive: s.Exclusive, ConsumerTag: s.ConsumerTag,
	}
}
