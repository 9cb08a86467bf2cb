package coordinator

import (
	"errors"
	"fmt"
)

// Errors of New, Register and Wait.
var (
	// ErrStopping: a shutdown has begun and nothing can be registered any more.
	ErrStopping = errors.New("coordinator: the shutdown has begun")
	// ErrDuplicate: the phase has an action of that name.
	ErrDuplicate = errors.New("coordinator: the phase has an action of that name")
	// ErrAction: the action has no name, no half, or a phase that takes no actions.
	ErrAction = errors.New("coordinator: an action needs a name, a half, and one of the phases close_admission, drain and close_evidence")
	// ErrConfig: the Config has no Budget or no Resources.
	ErrConfig = errors.New("coordinator: a Budget and Resources are required")
)

// Causes of an action's cancelled context, read with context.Cause.
var (
	// ErrGracefulOver: the graceful part of the budget is used up.
	ErrGracefulOver error = &sentinel{"coordinator.ErrGracefulOver", "the graceful shutdown window is over"}
	// ErrForced: force was asked for explicitly.
	ErrForced error = &sentinel{"coordinator.ErrForced", "the shutdown was forced"}
	// ErrForceOver: the force phase is over.
	ErrForceOver error = &sentinel{"coordinator.ErrForceOver", "the force phase is over"}
	// ErrCloseOver: the time for close evidence is over.
	ErrCloseOver error = &sentinel{"coordinator.ErrCloseOver", "the time for close evidence is over"}
	// ErrAbandoned: the report is sealed without waiting for anything.
	ErrAbandoned error = &sentinel{"coordinator.ErrAbandoned", "the shutdown was abandoned"}
	// ErrHardOver: the whole shutdown budget is used up. It ends the context of Config.Store.
	ErrHardOver error = &sentinel{"coordinator.ErrHardOver", "the shutdown budget is over"}
)

// errPhaseOver releases a phase's context; whatever it bounded is back by then, or was cancelled with another cause.
var errPhaseOver = errors.New("coordinator: the phase is over")

// sentinel is an error that stands in reports, where its class is its name.
type sentinel struct{ class, text string }

func (e *sentinel) Error() string      { return e.text }
func (e *sentinel) ErrorClass() string { return e.class }

// CallbackError says that a callback of the Config panicked or left its goroutine. The shutdown went on without it.
type CallbackError struct {
	Callback string
	// Err is a *resources.PanicError or resources.ErrGoexit.
	Err error
}

// Error names the callback.
func (e *CallbackError) Error() string { return fmt.Sprintf("coordinator: %s: %v", e.Callback, e.Err) }

// Unwrap returns Err.
func (e *CallbackError) Unwrap() error { return e.Err }
