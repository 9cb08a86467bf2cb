package managed

import (
	"context"
	"errors"
	"fmt"
)

// Verdict is what a handler decides about its delivery.
type Verdict uint8

// The verdicts. The zero Verdict says nothing and is treated as an error outcome.
const (
	_              Verdict = iota
	VerdictAck             // done
	VerdictRequeue         // give it to somebody again
	VerdictReject          // not again: dead-lettered where the queue says so
	VerdictError           // the handler failed; the subscription's OnError decides between requeue and reject
)

var verdictNames = [...]string{"", "ack", "requeue", "reject", "error"}

// String returns the verdict in lower_snake.
func (v Verdict) String() string {
	if v > 0 && int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// Outcome is what a handler returns: a verdict and its cause in one value. Use [Ack], [Requeue], [Reject] and [Fail]; the
// zero Outcome is a mistake and is treated as an error.
type Outcome struct {
	verdict Verdict
	cause   error
}

// Ack says that the message has been handled.
var Ack = Outcome{verdict: VerdictAck}

// Requeue gives the message back, to be delivered again. cause may be nil.
func Requeue(cause error) Outcome { return Outcome{VerdictRequeue, cause} }

// Reject refuses the message for good. cause may be nil.
func Reject(cause error) Outcome { return Outcome{VerdictReject, cause} }

// Fail says that handling failed with err; the subscription's OnError decides what becomes of the message. A nil err, or one
// that wraps [Permanent], is decided at once: Ack, Reject.
func Fail(err error) Outcome {
	if err == nil {
		return Ack
	}
	if _, ok := errors.AsType[*permanentError](err); ok {
		return Outcome{VerdictReject, err}
	}
	return Outcome{VerdictError, err}
}

// Verdict returns the decision.
func (o Outcome) Verdict() Verdict { return o.verdict }

// Cause returns why; nil where there is no reason.
func (o Outcome) Cause() error { return o.cause }

// Handler handles one delivery. It runs on a context that ends with one of the exported causes and is never the context of
// whoever started the shutdown. It may panic or call runtime.Goexit; both count as an error outcome.
type Handler func(ctx context.Context, d *Delivery) Outcome

// ErrHandler adapts a func that returns an error: nil acks, an error is the error outcome (the subscription's OnError
// applies), and an error wrapped by [Permanent] rejects.
func ErrHandler(f func(ctx context.Context, d *Delivery) error) Handler {
	return func(ctx context.Context, d *Delivery) Outcome { return Fail(f(ctx, d)) }
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks err as one that trying again cannot cure: a handler that returns it rejects the message. Permanent(nil)
// is nil. A permanent error that Is the cause of the handler's own cancelled context is still "no outcome": a stop never
// dead-letters.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}
