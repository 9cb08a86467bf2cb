package transport

import (
	"errors"
	"fmt"
	"strings"
)

// ErrorKind classifies a transport error by what can be done about it.
type ErrorKind uint8

// The kinds of error. The zero ErrorKind is invalid.
const (
	_               ErrorKind = iota
	KindUnavailable           // the broker cannot be reached, or went away: later may help
	KindRefused               // credentials, virtual host or permission: somebody must change something
	KindNotFound              // the queue does not exist
	KindMismatch              // the queue exists with other arguments
	KindLocked                // another consumer has it for itself: later may help
	KindInvalid               // the request itself makes no sense
	KindUnanswered            // a request was sent and its answer did not come
	KindClosed                // the stream or session had ended
)

var kindNames = [...]string{"", "unavailable", "refused", "not_found", "mismatch", "locked", "invalid", "unanswered", "closed"}

// String returns the kind in lower_snake.
func (k ErrorKind) String() string {
	if k > 0 && int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("ErrorKind(%d)", uint8(k))
}

// Configuration reports whether the kind is cured only by changing something, so that trying again is pointless.
func (k ErrorKind) Configuration() bool {
	return k == KindRefused || k == KindNotFound || k == KindMismatch || k == KindInvalid
}

// Error is a failure at the broker boundary. Its text never holds a password.
type Error struct {
	Kind    ErrorKind
	Op      string // "dial", "handshake", "open channel", "declare", "qos", "consume", "close", …
	Subject string // the address or the queue
	Code    int    // the broker's code, 0 where there is none
	Text    string // the broker's words, or what to change
	Err     error  // the cause; nil where Code and Text are all there is
}

// Error says what failed, on what, and why.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Subject != "" {
		fmt.Fprintf(&b, " %q", e.Subject)
	}
	if e.Code != 0 {
		fmt.Fprintf(&b, ": %d", e.Code)
	}
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the first *Error in err's tree, 0 if there is none.
func KindOf(err error) ErrorKind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return 0
}
