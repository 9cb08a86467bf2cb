package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-go/lastcall/config"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/managed"
)

func checkCommand(p process) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Validate a configuration and explain its budget; needs no broker and runs no handler",
		Long: `Validate a configuration and explain its budget. Exits 78 if the file is not valid or the budget does not fit into what the platform
grants. It needs no broker and runs no handler.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.release()
			file, err := flags.load()
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			cfg := file.Consumer()
			if cfg.Transport, err = dialer(file, cfg.Service); err != nil {
				return &exitError{exitConfiguration, fmt.Errorf("%s: %w", flags.file, err)}
			}
			if _, err := managed.New(cfg); err != nil {
				return &exitError{exitConfiguration, err}
			}
			if err := explain(out, file); err != nil {
				return err
			}
			bad := false
			for _, w := range file.Warnings {
				kind := "warning"
				if w.FailsCheck() {
					kind, bad = "error", true
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", kind, w.String())
			}
			if bad {
				return &exitError{code: exitConfiguration}
			}
			_, err = fmt.Fprintf(out, "\n%s: valid\n", flags.file)
			return err
		},
	}
	flags.add(cmd)
	return cmd
}

// explain prints what a shutdown with this file would do, and when.
func explain(w io.Writer, file *config.File) error {
	lifecycle := file.Lifecycle.Deadline()
	grace := file.Lifecycle.Grace()
	asked := lifecycle.Total
	lifecycle.Total = grace.Largest(lifecycle.Total)
	budget, err := deadline.New(lifecycle)
	if err != nil {
		return &exitError{exitConfiguration, err}
	}
	start := time.Time{}
	in := budget.Plan(start)
	var b strings.Builder
	fmt.Fprintf(&b, "budget       %s in all, %s of it kept in reserve\n", budget.Total(), budget.Reserve())
	if grace.Granted > 0 {
		fmt.Fprintf(&b, "platform     grants %s; needed: %s + %s before the signal + 1s = %s\n", grace.Granted, asked, grace.PreStop, grace.Needed(asked))
		if !grace.Fits(asked) {
			fmt.Fprintf(&b, "             that does not fit: raise the platform's grace to %s, or set shutdown_timeout to %s\n", grace.Needed(asked), budget.Total())
		}
	}
	fmt.Fprintf(&b, "\nafter a stop\n")
	for _, row := range []struct {
		at   time.Time
		what string
	}{
		{start, "no handler starts any more; prefetched messages go back; started ones finish"},
		{in.Graceful, "handlers that still run are told to come back (exec: SIGTERM)"},
		{in.Force, "what is not back is abandoned (exec: killed before)"},
		{in.Close, "channels and connection are closed, or their socket is cut"},
		{in.Dispose, "owned resources are closed"},
		{in.Telemetry, "owned telemetry is flushed"},
		{in.Hard, "the report is sealed and the process ends, whatever hangs"},
	} {
		fmt.Fprintf(&b, "  %10s  %s\n", "+"+row.at.Sub(start).String(), row.what)
	}
	fmt.Fprintf(&b, "\nsubscriptions\n")
	for _, s := range file.Subscriptions {
		fmt.Fprintf(&b, "  %s: prefetch %d, concurrency %d, handler timeout %s, drain %s, on error %s\n", s.Queue, s.Prefetch, s.Concurrency,
			s.HandlerTimeout, s.Drain, s.OnError)
	}
	_, err = io.WriteString(w, b.String())
	return err
}
