package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-go/lastcall/config"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/report"
)

func checkCommand(p process) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Validate a configuration and explain its budget",
		Long: `Validate a configuration and explain what a shutdown with it would do, and when.
It needs no broker and runs no handler.

Exits 78 if the file is not valid, names a program that is not there, or needs
more time than the platform grants.
` + beats,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.release()
			file, err := flags.load()
			if err != nil {
				return err
			}
			cfg := file.Consumer()
			if cfg.Transport, err = dialer(file, cfg.Service); err != nil {
				return &exitError{exitConfiguration, fmt.Errorf("%s: %w", flags.file, err)}
			}
			if _, err := managed.New(cfg); err != nil {
				return &exitError{exitConfiguration, fmt.Errorf("%s: %w", flags.file, err)}
			}
			text, err := explanation(file)
			if err != nil {
				return &exitError{exitConfiguration, fmt.Errorf("%s: %w", flags.file, err)}
			}
			if err := writeOut(cmd.OutOrStdout(), report.RedactLines(text, maxErrorText)); err != nil {
				return err
			}
			warnings, errors := 0, 0
			for _, w := range file.Warnings {
				kind := "warning"
				if w.FailsCheck() {
					kind, errors = "error", errors+1
				} else {
					warnings++
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", kind, report.Redact(w.String()))
			}
			switch {
			case errors > 0:
				return &exitError{code: exitConfiguration}
			case warnings > 0:
				return writeOut(cmd.OutOrStdout(), flags.file+": valid, with warnings\n")
			}
			return writeOut(cmd.OutOrStdout(), flags.file+": valid\n")
		},
	}
	flags.add(cmd)
	return cmd
}

// explanation says what a shutdown with this file would do, and when, in lines of at most 80 columns where names allow it.
func explanation(file *config.File) (string, error) {
	lifecycle, grace := file.Lifecycle.Deadline(), file.Lifecycle.Grace()
	asked := lifecycle.Total
	lifecycle.Total = grace.Largest(asked)
	budget, err := deadline.New(lifecycle)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	field := func(name, format string, args ...any) { line("%-10s"+format, append([]any{name}, args...)...) }
	if file.Service.Name != "" {
		field("service", "%s", file.Service.Name)
	}
	if file.Broker.URL != "" || file.Broker.URLFile != "" {
		field("broker", "%s at %s", file.Broker.Kind, address(file.Broker))
	} else {
		field("broker", "%s", file.Broker.Kind)
	}
	if file.Report.Dir != "" {
		field("reports", "in %s, the newest %d", file.Report.Dir, file.Report.Keep)
	} else {
		field("reports", "none; [report] dir says where they go")
	}
	field("budget", "%s, of which %s are kept in reserve", short(budget.Total()), short(budget.Reserve()))
	if grace.Granted > 0 {
		field("platform", "grants %s; %s are needed: %s, %s before its signal, 1s to spare", short(grace.Granted), short(grace.Needed(asked)),
			short(asked), short(grace.PreStop))
		if !grace.Fits(asked) {
			field("", "that does not fit: run would plan inside %s", short(budget.Total()))
		}
	}

	var start time.Time
	in := budget.Plan(start)
	line("\nAfter the first signal, at the latest:\n")
	for _, row := range []struct {
		at   time.Time
		what string
	}{
		{start, "no handler starts; prefetched messages go back to their queue"},
		{in.Graceful, "handlers that still run are told to come back (exec: SIGTERM)"},
		{deadline.KillAt(in.Graceful, in.Force), "exec: what still runs is killed (SIGKILL)"},
		{in.Force, "what has not come back is abandoned"},
		{in.Close, "channels and connections are closed, or their sockets cut"},
		{in.Hard, "the report is sealed and the process ends, whatever hangs"},
	} {
		line("%10s  %s", short(row.at.Sub(start)), row.what)
	}
	if file.Signals.Second == "ignore" {
		line("\nA second SIGTERM or SIGINT changes nothing; SIGQUIT tells them at once, and all\nis over within %s.", short(budget.Reserve()))
	} else {
		line("\nA second SIGTERM or SIGINT, or SIGQUIT, tells them at once, and all is over\nwithin %s.", short(budget.Reserve()))
	}

	line("\nSubscriptions:\n")
	for _, s := range file.Subscriptions {
		d := deadline.ForDelivery(start, time.Duration(s.HandlerTimeout))
		line("  %s (%s)", s.Queue, s.Declare)
		line("    exec       %s", command(s.Exec))
		line("    prefetch   %d, concurrency %d", s.Prefetch, s.Concurrency)
		line("    timeout    %s, with SIGTERM after %s", short(d.Hard.Sub(start)), short(d.Notice.Sub(start)))
		line("    on error   %s", onError(s))
		line("    at a stop  %s", drains[s.Drain])
	}
	line("")
	return b.String(), nil
}

// drains says what a drain mode does with what was received and not started.
var drains = map[string]string{
	"auto":              "hand back what has not started, unless returns are counted (auto)",
	"hand_back":         "hand back what has not started (hand_back)",
	"finish_prefetched": "handle what was prefetched first (finish_prefetched)",
	"ordered":           "finish the current one, keep the order of the rest (ordered)",
}

// command writes arguments so that it can be seen where each ends.
func command(arguments []string) string {
	shown := make([]string, len(arguments))
	for i, a := range arguments {
		if shown[i] = a; a == "" || strings.ContainsAny(a, " \t\n\"'\\") {
			shown[i] = strconv.Quote(a)
		}
	}
	return strings.Join(shown, " ")
}

func onError(s config.Subscription) string {
	if s.OnError == "requeue" && s.RequeueDelay > 0 {
		return s.OnError + " after " + s.RequeueDelay.String()
	}
	return s.OnError
}

func address(b config.Broker) string {
	if b.URLFile != "" {
		return "the address in " + b.URLFile
	}
	return b.URL.String()
}

// short writes a duration as a configuration does.
func short(d time.Duration) string { return config.Duration(d).String() }
