package managed

import "fmt"

// ErrGoexit: the handler or task ended its goroutine with runtime.Goexit instead of returning.
var ErrGoexit error = &sentinel{"managed.ErrGoexit", "lastcall: the handler left its goroutine with runtime.Goexit"}

var errNoOutcome error = &sentinel{"managed.errNoOutcome", "lastcall: the handler returned the zero Outcome"}

// PanicError is what a handler, a task or the setup panicked with: the cause of an outcome, or the error of a task or start.
type PanicError struct {
	Value any    // what the handler panicked with
	Stack []byte // where
}

// Error names the value.
func (e *PanicError) Error() string { return fmt.Sprintf("panicked: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// BodySizeError is the cause of a reject for a body larger than MaxBodyBytes.
type BodySizeError struct {
	Size, Limit int // bytes
}

// Error names both sizes.
func (e *BodySizeError) Error() string {
	return fmt.Sprintf("body of %d bytes exceeds the limit of %d bytes", e.Size, e.Limit)
}

// MalformedError is the cause of a reject for a body that could not be decoded.
type MalformedError struct{ Err error }

// Error says what the decoder said.
func (e *MalformedError) Error() string { return "malformed body: " + e.Err.Error() }

// Unwrap returns the decoder's error.
func (e *MalformedError) Unwrap() error { return e.Err }

// EndError says how a stream or session ended that should not have ended that way.
type EndError struct {
	Kind string // peer_close, peer_reset, silent, …
	By   string // "us", "peer" or ""
	Code int    // the broker's code, 0 where there is none
	Text string // the broker's words
}

// Error says how it ended.
func (e *EndError) Error() string {
	if e.Code != 0 {
		return fmt.Sprintf("%s: %d %s", e.Kind, e.Code, e.Text)
	}
	if e.Text != "" {
		return e.Kind + ": " + e.Text
	}
	return e.Kind
}
