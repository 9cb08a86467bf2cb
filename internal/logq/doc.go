// Package logq puts a bounded queue between a logger and its slog.Handler, so that logging never blocks: not on a full pipe,
// not on a slow disk, not on a handler that hangs.
//
//	slog.Logger -> Queue.Handler -> [ up to size lines ] -> goroutine -> next
//	                     |
//	                     +-- full: dropped and counted; the count is a line of its own as soon as there is space
//
// It knows lines and their order. It does not know what is logged, and it reads no clock.
package logq
