package logq

import (
	"context"
	"log/slog"
)

// handler is the slog.Handler in front of a Queue. next has the attributes and groups added so far.
type handler struct {
	queue *Queue
	next  slog.Handler
}

func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	h.queue.put(line{ctx: context.WithoutCancel(ctx), next: h.next, record: r.Clone()})
	return nil
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.queue, h.next.WithAttrs(attrs)}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.queue, h.next.WithGroup(name)}
}
