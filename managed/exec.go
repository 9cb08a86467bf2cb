package managed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/report"
)

// ExecConfig says which program handles deliveries.
type ExecConfig struct {
	// Command is the program and its arguments. Required. No shell is involved; a program without a slash in its name is looked
	// up in PATH at each delivery.
	Command []string
	// Dir is the working directory. Empty means the consumer's.
	Dir string
	// Env is added to the consumer's own environment, as "NAME=value". Nil means nothing is added.
	Env []string
	// TermExitZero is what exit code 0 means after our SIGTERM. Zero means TermExitZeroInterrupted.
	TermExitZero TermExitZero
}

// TermExitZero is what exit code 0 says of a child that was asked to end.
type TermExitZero uint8

// The meanings. The zero TermExitZero means TermExitZeroInterrupted.
const (
	TermExitZeroDefault TermExitZero = iota
	// TermExitZeroInterrupted: nothing. Many programs end on SIGTERM with 0 whatever they were doing.
	TermExitZeroInterrupted
	// TermExitZeroAck: the message has been handled. For programs that finish what they are doing, or exit with another code.
	TermExitZeroAck
)

// Exit codes by which a child decides.
const (
	exitReject        = 65 // EX_DATAERR
	exitRequeue       = 75 // EX_TEMPFAIL
	exitNotExecutable = 126
	exitNotFound      = 127
)

// ErrNoCommand: an ExecConfig names no program.
var ErrNoCommand = errors.New("lastcall: exec names no program")

// ErrExecUnsupported: this platform has no process groups and signals.
var ErrExecUnsupported = errors.New("lastcall: exec needs a Unix system")

// ExecStartError is the cause of a requeue: the child could not be started, or exited with 126 or 127, by which a shell says
// the same.
type ExecStartError struct {
	Program string
	Code    int   // 126 or 127, 0 if Err says why
	Err     error // nil if Code says why
}

// Error names the program and the reason.
func (e *ExecStartError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("start %q: exit code %d", e.Program, e.Code)
	}
	return fmt.Sprintf("start %q: %v", e.Program, e.Err)
}

// Unwrap returns the operating system's reason.
func (e *ExecStartError) Unwrap() error { return e.Err }

// ExecSignalError is the cause of a requeue: a signal that was not ours ended the child.
type ExecSignalError struct {
	Program string
	Signal  os.Signal
}

// Error names the program and the signal.
func (e *ExecSignalError) Error() string {
	return fmt.Sprintf("%q ended by signal: %v", e.Program, e.Signal)
}

// ExecExitError is the cause of an outcome for which the child exited with a code other than 0: 65 rejects, 75 requeues, any
// other is the error outcome.
type ExecExitError struct {
	Program string
	Code    int
}

// Error names the program and the code.
func (e *ExecExitError) Error() string {
	return fmt.Sprintf("%q exited with code %d", e.Program, e.Code)
}

// Exec returns a handler that runs one child process for each delivery: the body on its stdin, what is known about the
// delivery in its environment, its stdout and stderr in the log. Its exit code is the outcome:
//
//	0                                  ack
//	65 (EX_DATAERR)                    reject
//	75 (EX_TEMPFAIL)                   requeue
//	126, 127, cannot be started        requeue, *ExecStartError
//	a signal that is not ours          requeue, *ExecSignalError
//	any other                          error outcome, *ExecExitError
//
// The child leads a process group of its own, so that a Ctrl-C in the terminal reaches the consumer alone. When the handler's
// context ends the group gets SIGTERM, and SIGKILL at the end of the handler's time or of 3/4 of the force phase; a group never
// outlives a leader that ended after our SIGTERM. 65 and 75 still count then; anything else, 0 included unless TermExitZero
// says otherwise, is no outcome, so that a stop never rejects. A child that ends by itself may leave processes behind, which
// nobody waits for: what they write is read for another 100 ms at most.
//
// A body that the child does not read is no error. Of its output 64 KiB are logged for each delivery and 4 KiB of each line:
// stdout at info, stderr at warn. The rest is read, counted and dropped.
//
// The child inherits the consumer's environment without its LASTCALL_ variables, some of which configure Lastcall and may hold
// a password. Instead it gets, always and empty where nothing is known:
//
//	LASTCALL_QUEUE  LASTCALL_SESSION  LASTCALL_DELIVERY_TAG  LASTCALL_REDELIVERED (true, false)  LASTCALL_DELIVERY_COUNT
//	LASTCALL_EXCHANGE  LASTCALL_ROUTING_KEY  LASTCALL_MESSAGE_ID  LASTCALL_CORRELATION_ID  LASTCALL_REPLY_TO  LASTCALL_TYPE
//	LASTCALL_APP_ID  LASTCALL_CONTENT_TYPE  LASTCALL_CONTENT_ENCODING  LASTCALL_PRIORITY  LASTCALL_PUBLISHED (RFC 3339)
//
// A zero byte in a value, which no environment can hold, becomes U+FFFD. The handler is safe for concurrent use. Exec starts
// nothing and does not look for the program. Errors: ErrNoCommand, ErrExecUnsupported.
func Exec(cfg ExecConfig) (Handler, error) {
	if len(cfg.Command) == 0 || cfg.Command[0] == "" {
		return nil, ErrNoCommand
	}
	if !execSupported {
		return nil, ErrExecUnsupported
	}
	cfg.Command, cfg.Env = slices.Clone(cfg.Command), slices.Clone(cfg.Env)
	return func(ctx context.Context, d *Delivery) Outcome {
		c := child{cfg: cfg, body: d.Body, env: cfg.environ(os.Environ(), d), killAt: d.killAt, revoked: d.revoked(), log: d.log()}
		if d.stream == nil { // a delivery made up by a test
			c.killAt = func(error) time.Time { return deadline.Now().Add(deadline.DefaultForceWindow) }
		}
		return cfg.outcome(c.run(ctx))
	}, nil
}

// childEnd is how a child ended.
type childEnd struct {
	err    error     // it could not be started
	notice error     // the cause for which it was asked to end, nil if it was not
	signal os.Signal // what ended it, nil if it exited
	code   int
	unborn bool // the notice came before it was started
}

// String says how it ended.
func (e childEnd) String() string {
	switch {
	case e.err != nil:
		return e.err.Error()
	case e.signal != nil:
		return "signal: " + e.signal.String()
	case e.unborn:
		return "not started"
	default:
		return "exit code " + strconv.Itoa(e.code)
	}
}

// outcome judges how a child ended.
func (cfg ExecConfig) outcome(end childEnd) Outcome {
	program := cfg.Command[0]
	exited := end.err == nil && end.signal == nil && !end.unborn
	exit := &ExecExitError{Program: program, Code: end.code}
	switch {
	case exited && end.code == exitRequeue:
		return Requeue(exit)
	case exited && end.code == exitReject:
		return Reject(exit)
	case end.err != nil:
		return Requeue(&ExecStartError{Program: program, Err: end.err})
	case exited && end.code == 0 && (end.notice == nil || cfg.TermExitZero == TermExitZeroAck):
		return Ack
	case end.notice != nil:
		return Fail(fmt.Errorf("%w (child: %s)", end.notice, end))
	case end.signal != nil:
		return Requeue(&ExecSignalError{Program: program, Signal: end.signal})
	case end.code == exitNotExecutable || end.code == exitNotFound:
		return Requeue(&ExecStartError{Program: program, Code: end.code})
	default:
		return Fail(exit)
	}
}

const envPrefix = "LASTCALL_"

// environ returns the child's environment. What comes later wins.
func (cfg ExecConfig) environ(inherited []string, d *Delivery) []string {
	published := ""
	if !d.Published.IsZero() {
		published = d.Published.UTC().Format(time.RFC3339Nano)
	}
	own := [...]struct{ name, value string }{
		{"QUEUE", d.Queue},
		{"SESSION", strconv.FormatUint(d.Session, 10)},
		{"DELIVERY_TAG", strconv.FormatUint(d.Tag, 10)},
		{"REDELIVERED", strconv.FormatBool(d.Redelivered)},
		{"DELIVERY_COUNT", strconv.FormatUint(d.DeliveryCount, 10)},
		{"EXCHANGE", d.Exchange},
		{"ROUTING_KEY", d.RoutingKey},
		{"MESSAGE_ID", d.MessageID},
		{"CORRELATION_ID", d.CorrelationID},
		{"REPLY_TO", d.ReplyTo},
		{"TYPE", d.Type},
		{"APP_ID", d.AppID},
		{"CONTENT_TYPE", d.ContentType},
		{"CONTENT_ENCODING", d.Encoding},
		{"PRIORITY", strconv.FormatUint(uint64(d.Priority), 10)},
		{"PUBLISHED", published},
	}
	env := make([]string, 0, len(inherited)+len(cfg.Env)+len(own))
	for _, v := range inherited {
		if !strings.HasPrefix(v, envPrefix) {
			env = append(env, v)
		}
	}
	env = append(env, cfg.Env...)
	for _, v := range own {
		env = append(env, envPrefix+v.name+"="+strings.ReplaceAll(v.value, "\x00", "\ufffd"))
	}
	return env
}

// log is where the output of the delivery's child goes: the consumer's queue, which never blocks.
func (d *Delivery) log() *slog.Logger {
	log := slog.Default()
	if d.stream != nil {
		log = d.stream.sub.consumer.log
	}
	return log.With("queue", d.Queue, "delivery_tag", d.Tag, "message_id", report.Redact(d.MessageID))
}
