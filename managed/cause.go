package managed

import (
	"context"

	"github.com/lastcall-go/lastcall/report"
)

// cause is what is known of the error behind an outcome. Errors are code of the application: an Unwrap may panic, as that of a
// nil pointer in an interface does, or lead back to itself, so they are looked at here alone, guarded and bounded.
type cause struct {
	class, text string
	panicked    *PanicError
	malformed   bool // could not be decoded, or is too large
	unborn      bool // a child process could not be started
	empty       bool // only the notice coming back
}

// maxErrors bounds how many errors of one tree are looked at.
const maxErrors = 64

// inspect looks at err. notice is why the handler's context ended, nil if it had not.
func inspect(err, notice error) (c cause) {
	if err == nil {
		return c
	}
	e := report.NewError(err)
	c.class, c.text = e.Class, e.Text
	visit(err, func(e error) {
		switch e := e.(type) {
		case *PanicError:
			if c.panicked == nil {
				c.panicked = e
			}
		case *MalformedError, *BodySizeError:
			c.malformed = true
		case *ExecStartError:
			c.unborn = true
		}
		c.empty = c.empty || comesBack(e, notice)
	})
	return c
}

// comesBack reports whether e itself is the notice, or the context's own word for it.
func comesBack(e, notice error) bool {
	return notice != nil && (is(e, notice) || is(e, context.Canceled) || is(e, context.DeadlineExceeded))
}

// is is errors.Is without the descent, which visit makes.
func is(e, target error) bool {
	if e == target {
		return true
	}
	x, ok := e.(interface{ Is(error) bool })
	return ok && x.Is(target)
}

// visit calls see for the errors of err's tree. It ends early where one of them panics.
func visit(err error, see func(error)) {
	defer func() { _ = recover() }()
	queue := []error{err}
	for seen := 0; len(queue) > 0 && seen < maxErrors; seen++ {
		e := queue[0]
		queue = queue[1:]
		if e == nil {
			continue
		}
		see(e)
		switch e := e.(type) {
		case interface{ Unwrap() error }:
			queue = append(queue, e.Unwrap())
		case interface{ Unwrap() []error }:
			queue = append(queue, e.Unwrap()...)
		}
	}
}

// saysOnly reports whether every leaf of err's tree is one of the causes: whoever returns it has nothing else to say.
func saysOnly(err error, causes ...error) bool {
	only, found := true, false
	visit(err, func(e error) {
		for _, c := range causes {
			if c != nil && is(e, c) {
				found = true
				return
			}
		}
		switch e := e.(type) {
		case interface{ Unwrap() error }:
			only = only && e.Unwrap() != nil
		case interface{ Unwrap() []error }:
			only = only && len(e.Unwrap()) > 0
		default:
			only = false
		}
	})
	return only && found
}
