package resources

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
)

// ErrGoexit is the error of foreign code that left its goroutine with runtime.Goexit: neither a return nor a panic.
var ErrGoexit error = &sentinel{"resources.ErrGoexit", "it left its goroutine with runtime.Goexit"}

// sentinel is an error that stands in reports, where its class is its name.
type sentinel struct{ class, text string }

func (e *sentinel) Error() string      { return e.text }
func (e *sentinel) ErrorClass() string { return e.class }

// PanicError is the error of foreign code that panicked.
type PanicError struct {
	Value any
	// Site is the function, file and line that panicked, empty if unknown.
	Site string
}

// Error names the value and the place.
func (e *PanicError) Error() string {
	if e.Site == "" {
		return fmt.Sprintf("panic: %v", e.Value)
	}
	return fmt.Sprintf("panic: %v, in %s", e.Value, e.Site)
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Returned is how foreign code came back.
type Returned struct {
	At time.Time
	// Err is what it returned, a *PanicError, or ErrGoexit.
	Err      error
	Panicked bool
}

// Call calls f in a goroutine of its own and tells back once how it came back: by a return, a panic or runtime.Goexit. Foreign
// code cannot be ended from outside, so that its caller waits for back as long as it can afford and leaves the goroutine
// behind after that. The goroutine ends when f and back have returned; back must not panic.
func Call(f func() error, back func(Returned)) {
	go func() {
		ret := Returned{Err: ErrGoexit}
		defer func() {
			if v := recover(); v != nil {
				ret.Panicked, ret.Err = true, &PanicError{Value: v, Site: panicSite()}
			}
			ret.At = deadline.Now()
			back(ret)
		}()
		ret.Err = f()
	}()
}

// panicSite returns where the panic that is being recovered was raised. It is called by the deferred function.
func panicSite() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for raised, more := false, true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			raised = true
		case raised && !strings.HasPrefix(f.Function, "runtime."):
			return fmt.Sprintf("%s (%s:%d)", f.Function, filepath.Base(f.File), f.Line)
		}
	}
	return ""
}
