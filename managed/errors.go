package managed

import "errors"

// Causes of a handler's or task's cancelled context, read with context.Cause.
var (
	// ErrForced: force was asked for explicitly, by a signal or by Force.
	ErrForced = errors.New("lastcall: forced to stop")
	// ErrDeadline: the graceful part of the shutdown budget is used up.
	ErrDeadline = errors.New("lastcall: the graceful shutdown window is over")
	// ErrDeliveryTimeout: the handler has used up its own timeout.
	ErrDeliveryTimeout = errors.New("lastcall: the handler timeout is over")
	// ErrSessionLost: the session that delivered the message has ended; nothing can be settled on it any more.
	ErrSessionLost = errors.New("lastcall: the broker session that delivered this message is lost")
	// ErrTaskStopping: the consumer is shutting down; a task should finish the item in hand and return.
	ErrTaskStopping = errors.New("lastcall: the consumer is stopping")
)

// Errors of the Consumer's methods.
var (
	// ErrStopping: the consumer is shutting down or has ended; nothing can be registered any more.
	ErrStopping = errors.New("lastcall: the consumer is stopping")
	// ErrStarted: the call is legal only before Start.
	ErrStarted = errors.New("lastcall: the consumer has been started")
)
