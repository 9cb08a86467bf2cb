package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/resources"
	"github.com/lastcall-go/lastcall/transport/memory"
)

func demoCommand(p process) *cobra.Command {
	var stuck, asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a whole life on an in-process broker, in about two seconds",
		Long: `Run a whole life on an in-process broker in about two seconds: three queues, a
pool that handlers use, a task. While handlers are at work it is told to stop,
shuts down in phases, and shows its report. Signals do what they do to run.
`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo(p, cmd.OutOrStdout(), cmd.ErrOrStderr(), stuck, asJSON)
		},
	}
	cmd.Flags().BoolVar(&stuck, "stuck", false, "with a handler that never returns: it is abandoned,\nand the exit code is 3")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON, and nothing else")
	return cmd
}

const (
	demoRunning = 900 * time.Millisecond // from the first delivery to the stop
	demoBudget  = 2 * time.Second
	demoStuck   = 1200 * time.Millisecond
	demoForce   = 100 * time.Millisecond // leaves the close of a small budget more than a few milliseconds
)

func demo(p process, out, diagnostics io.Writer, stuck, asJSON bool) error {
	broker := memory.New(memory.Config{Queues: map[string]memory.Options{"orders": {}, "emails": {}, "invoices": {}}})
	for queue, n := range map[string]int{"orders": 5000, "emails": 40, "invoices": 12} {
		for i := range n {
			if err := broker.Publish(queue, memory.Message{MessageID: fmt.Sprintf("%s-%d", queue, i+1), Body: []byte("{}")}); err != nil {
				return err
			}
		}
	}
	budget := demoBudget
	if stuck {
		budget = demoStuck
	}
	logger := slog.New(slog.DiscardHandler)
	if !asJSON {
		logger = slog.New(slog.NewTextHandler(diagnostics, &slog.HandlerOptions{ReplaceAttr: dropTime}))
	}
	c, err := managed.New(managed.Config{
		Service:   managed.Service{Name: "demo"},
		Transport: broker,
		Lifecycle: managed.Lifecycle{ShutdownTimeout: budget, ForceWindow: demoForce},
		Logger:    logger,
		Subscriptions: []managed.Subscription{
			{Queue: "orders", Handler: takes(2 * time.Millisecond), Prefetch: 64, Concurrency: 8},
			{Queue: "emails", Handler: takes(350 * time.Millisecond), Prefetch: 16, Concurrency: 4},
			{Queue: "invoices", Handler: invoices(stuck), Prefetch: 8, Concurrency: 1},
		},
	})
	if err != nil {
		return err
	}
	start := consume(p, c, func(ctx context.Context, c *managed.Consumer) error {
		// What a real program would hold: a pool that handlers use, and a loop of its own.
		if err := c.Own("database", resources.Pool, func() {}); err != nil {
			return err
		}
		if err := c.Borrow("shared-cache", resources.Other); err != nil {
			return err
		}
		return c.Go("stop after a while", func(ctx context.Context) error {
			if deadline.Sleep(ctx, demoRunning) == nil {
				go func() { _ = c.Shutdown(context.Background()) }() // the task itself is part of what is shut down
				<-ctx.Done()
			}
			return nil
		})
	})
	p.release() // whoever reads the report may keep us waiting, and interrupt us
	d, ok := c.ShutdownReport()
	if !ok {
		return summarised(c, start)
	}
	text := string(c.ReportJSON())
	if !asJSON {
		fmt.Fprintln(diagnostics) // between the log and the report
		text = report.Text(&d, textOptions(os.Stdout))
	}
	if err := writeOut(out, text); err != nil {
		return err
	}
	return ended(c)
}

// takes handles a message in d, sooner if it must come back.
func takes(d time.Duration) managed.Handler {
	return managed.ErrHandler(func(ctx context.Context, _ *managed.Delivery) error { return deadline.Sleep(ctx, d) })
}

// invoices is slow: the first ones come back before the stop does, the last one is still at work. With stuck it never returns.
func invoices(stuck bool) managed.Handler {
	return func(ctx context.Context, d *managed.Delivery) managed.Outcome {
		if stuck && d.MessageID == "invoices-1" {
			waitForALockThatIsNeverReleased()
		}
		return managed.Fail(deadline.Sleep(ctx, 700*time.Millisecond))
	}
}

func waitForALockThatIsNeverReleased() { select {} }

// dropTime leaves the clock out of the demo's log lines: the report has the times.
func dropTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
