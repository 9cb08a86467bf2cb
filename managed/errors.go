package managed

// sentinel is an error whose identity is enough. The report groups by its class.
type sentinel struct{ class, text string }

func (e *sentinel) Error() string      { return e.text }
func (e *sentinel) ErrorClass() string { return e.class }

// Causes of a handler's or task's cancelled context, read with context.Cause.
var (
	// ErrForced: force was asked for explicitly, by a signal or by Force.
	ErrForced error = &sentinel{"managed.ErrForced", "lastcall: forced to stop"}
	// ErrDeadline: the graceful part of the shutdown budget is used up.
	ErrDeadline error = &sentinel{"managed.ErrDeadline", "lastcall: the graceful shutdown window is over"}
	// ErrDeliveryTimeout: the handler has used up its own timeout.
	ErrDeliveryTimeout error = &sentinel{"managed.ErrDeliveryTimeout", "lastcall: the handler timeout is over"}
	// ErrSessionLost: the session that delivered the message has ended; nothing can be settled on it any more.
	ErrSessionLost error = &sentinel{"managed.ErrSessionLost", "lastcall: the broker session that delivered this message is lost"}
	// ErrTaskStopping: the consumer is shutting down; a task should finish the item in hand and return.
	ErrTaskStopping error = &sentinel{"managed.ErrTaskStopping", "lastcall: the consumer is stopping"}
)

// Errors of the Consumer's methods.
var (
	// ErrStopping: the consumer is shutting down or has ended; nothing can be registered any more.
	ErrStopping error = &sentinel{"managed.ErrStopping", "lastcall: the consumer is stopping"}
	// ErrStarted: the call is legal only before Start.
	ErrStarted error = &sentinel{"managed.ErrStarted", "lastcall: the consumer has been started"}
)
