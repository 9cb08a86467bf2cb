package managed

import (
	"io"
	"log/slog"
	"time"

	"github.com/lastcall-go/lastcall/signals"
	"github.com/lastcall-go/lastcall/transport"
)

// Config configures a Consumer. It is plain data, passed by value; New validates it and touches nothing.
type Config struct {
	// Service says whose consumer this is. Zero means the program's own name, version and host.
	Service Service
	// Transport is where subscriptions consume that name none of their own. Required if any subscription needs it.
	Transport transport.Transport
	// Lifecycle is the time budget. Zero means 30 s, of which 1 s at the most for force.
	Lifecycle Lifecycle
	// SecondSignal is what a second SIGINT or SIGTERM does. Zero means signals.SecondForce.
	SecondSignal signals.Second
	// Report says where the report goes. Zero means that no file is written.
	Report Report
	// Reconnect says how lost sessions and streams are opened again. Zero means at most 10 s apart, for 5 min.
	Reconnect Reconnect
	// StartRetry is for how long Start tries again when a broker cannot be reached. Zero means one try. Negative is an error.
	StartRetry time.Duration
	// Logger receives Lastcall's log lines; it is fed from a bounded queue and can never block the consumer. Nil means
	// slog.Default().
	Logger *slog.Logger
	// Digest identifies the configuration in the report ("sha256:…"). Empty means none.
	Digest string
	// Subscriptions are added as if by Subscribe before Start. Nil means none.
	Subscriptions []Subscription
}

// Service says whose consumer this is.
type Service struct {
	Name     string            // empty means the program's base name
	Version  string            // empty means the main module's version
	Instance string            // empty means the host name
	Labels   map[string]string // nil means none
}

// Lifecycle is the time budget. A negative field is an error.
type Lifecycle struct {
	// ShutdownTimeout is the whole shutdown, 250 ms to 24 h. Zero means 30 s.
	ShutdownTimeout time.Duration
	// ForceWindow caps the force phase. Zero means 1 s.
	ForceWindow time.Duration
	// PlatformGrace is what the platform grants between its signal and its kill. Zero means unknown. If the budget does not
	// fit, the consumer plans inside what fits, warns, and says so in the report.
	PlatformGrace time.Duration
	// PlatformPrestop is what runs inside the grace before the signal. Zero means none.
	PlatformPrestop time.Duration
}

// Reconnect says how lost sessions and streams are opened again: after a random part of an interval that doubles from 100 ms to
// Max. A negative field is an error.
type Reconnect struct {
	// Max caps the interval. Zero means 10 s.
	Max time.Duration
	// GiveUpAfter is for how long: a subscription that has been down longer is failed, and when all are, or the connection has
	// been gone that long, that is a fault. Zero means 5 min.
	GiveUpAfter time.Duration
}

// Defaults of Reconnect.
const (
	DefaultReconnectMax = 10 * time.Second
	DefaultGiveUpAfter  = 5 * time.Minute
)

func (r Reconnect) complete() Reconnect {
	if r.Max == 0 {
		r.Max = DefaultReconnectMax
	}
	if r.GiveUpAfter == 0 {
		r.GiveUpAfter = DefaultGiveUpAfter
	}
	return r
}

// Report says where the report goes.
type Report struct {
	// Dir is the directory for reports, created 0700 at start if missing. Empty means none is written.
	Dir string
	// Keep is how many reports of this service and instance stay in Dir. Zero means 100. Negative is an error.
	Keep int
	// Fallback gets the report as one JSON line when Dir does not take it in time. Nil means os.Stderr.
	Fallback io.Writer
}

// Drain is what becomes of deliveries that were received and not started when the shutdown begins.
type Drain uint8

// The drain modes. The zero Drain means DrainAuto.
const (
	DrainDefault Drain = iota
	// DrainAuto hands back, except a delivery for which returns are known to be counted (quorum queue, broker below 4.3,
	// x-delivery-count above 0): that one is finished if the graceful window allows.
	DrainAuto
	// DrainHandBack always hands back.
	DrainHandBack
	// DrainFinishPrefetched handles what was received, within the graceful window.
	DrainFinishPrefetched
	// DrainOrdered is for single-active, exclusive and FIFO queues: no cancel, no nack; the current delivery is finished, then
	// the channel is closed.
	DrainOrdered
)

// OnError is what an error outcome does to the message.
type OnError uint8

// The policies. The zero OnError means OnErrorRequeue.
const (
	OnErrorDefault OnError = iota
	OnErrorRequeue
	OnErrorReject
)

// DuplicateStart is what becomes of a redelivered message whose earlier hand-over is still with a handler of this process,
// because its session was lost meanwhile. Such a message is recognised by its message id; without one it is not.
type DuplicateStart uint8

// The policies. The zero DuplicateStart means DuplicateStartHold.
const (
	DuplicateStartDefault DuplicateStart = iota
	// DuplicateStartHold keeps it until that handler is back, at most for a handler timeout, and then gives it back.
	DuplicateStartHold
	// DuplicateStartHandBack gives it back after the requeue delay.
	DuplicateStartHandBack
	// DuplicateStartAllow starts it.
	DuplicateStartAllow
)

// Subscription is a queue consumed with one handler. A negative number or duration is an error, NoRequeueDelay apart.
type Subscription struct {
	// Queue is the queue's name. Required, and unique per transport.
	Queue string
	// Transport overrides the Config's. Nil means the Config's.
	Transport transport.Transport
	// Handler handles each delivery. Required.
	Handler Handler
	// Prefetch is the broker's cap on unsettled deliveries. Zero means 4 times Concurrency, at least 16. At most 65,535.
	Prefetch int
	// Concurrency is our cap on handlers running at once. Zero means 1.
	Concurrency int
	// HandlerTimeout bounds one handler. Zero means the graceful window (shutdown timeout less reserve), so that a handler
	// that has just started when a stop comes can still finish.
	HandlerTimeout time.Duration
	// Drain is the drain mode. Zero means DrainAuto.
	Drain Drain
	// OnError is what an error outcome, a panic or a Goexit does to the message. Zero means OnErrorRequeue.
	OnError OnError
	// RequeueDelay is how long a requeue after an error waits in its slot, ended by a stop. Zero means 1 s. NoRequeueDelay
	// turns it off.
	RequeueDelay time.Duration
	// DuplicateStart is what becomes of a redelivery whose message is still being handled here. Zero means hold.
	DuplicateStart DuplicateStart
	// MaxBodyBytes rejects larger messages, in bytes, without calling the handler. Zero means no limit of ours (the broker has one).
	MaxBodyBytes int
	// Declare says what to do about the queue. Zero means passive: it must exist.
	Declare transport.Declare
	// Arguments are the queue's arguments when it is declared. Nil means none.
	Arguments map[string]any
	// Exclusive asks to be the only consumer of the queue. False means that there may be others.
	Exclusive bool
	// ConsumerTag is the tag to consume under. Empty means one made unique by Lastcall.
	ConsumerTag string
}

// NoRequeueDelay turns the delay of a requeue after an error off.
const NoRequeueDelay = time.Duration(-1)
