package report

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
)

// sentinels are errors of the standard library whose type says nothing and whose name does.
var sentinels = []struct {
	err  error
	name string
}{
	{context.Canceled, "context.Canceled"},
	{context.DeadlineExceeded, "context.DeadlineExceeded"},
	{io.EOF, "io.EOF"},
	{io.ErrUnexpectedEOF, "io.ErrUnexpectedEOF"},
	{net.ErrClosed, "net.ErrClosed"},
	{os.ErrClosed, "os.ErrClosed"},
	{os.ErrNotExist, "os.ErrNotExist"},
	{os.ErrPermission, "os.ErrPermission"},
}

// NewError returns err as data: its class, and its text redacted and cut. It returns nil for nil. It survives an Error method
// that panics.
func NewError(err error) *Error {
	if err == nil {
		return nil
	}
	return &Error{Class: Class(err), Text: Redact(errorText(err))}
}

// errorText calls Error, which is user code.
func errorText(err error) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("(the Error method of %T panicked)", err)
		}
	}()
	return err.Error()
}

// Class names the innermost error of err for machines to group by: what its ErrorClass method says if it has one, the name of
// a well-known sentinel, or its Go type. Of several joined errors the first counts. Class(nil) is "".
func Class(err error) (class string) {
	if err == nil {
		return ""
	}
	defer func() {
		if p := recover(); p != nil { // Unwrap and ErrorClass are user code
			class = fmt.Sprintf("%T", err)
		}
	}()
	for range 100 { // an Unwrap may go round in circles
		if named, ok := err.(interface{ ErrorClass() string }); ok {
			return Redact(named.ErrorClass())
		}
		inner := unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	for _, s := range sentinels {
		if err == s.err {
			return s.name
		}
	}
	return fmt.Sprintf("%T", err)
}

// unwrap returns the first error inside err, nil if there is none.
func unwrap(err error) error {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return e.Unwrap()
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if inner != nil {
				return inner
			}
		}
	}
	return nil
}
