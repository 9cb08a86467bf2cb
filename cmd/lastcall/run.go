package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-go/lastcall/config"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/signals"
)

// runFlags are what `run` and `check` share.
type runFlags struct {
	file      string
	overrides config.Overrides
}

func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.file, "config", "c", "", "configuration `FILE` (required)")
	flags.DurationVar(&f.overrides.ShutdownTimeout, "shutdown-timeout", 0, "the whole shutdown may take `TIME`, such as 30s (LASTCALL_SHUTDOWN_TIMEOUT)")
	flags.DurationVar(&f.overrides.PlatformGrace, "grace", 0, "the platform kills `TIME` after its signal (LASTCALL_PLATFORM_GRACE)")
	flags.StringVar(&f.overrides.BrokerURL, "broker-url", "", "`URL` of the broker; a password is better kept in the environment (LASTCALL_BROKER_URL)")
	flags.StringVar(&f.overrides.ReportDir, "report-dir", "", "reports go to `DIR` (LASTCALL_REPORT_DIR)")
}

// beats says how a value is found that is given more than once.
const beats = "\nFlags beat the environment variables in brackets, these beat the file.\n"

func (f *runFlags) load() (*config.File, error) {
	if f.file == "" {
		return nil, errors.New("name the configuration file: -c FILE")
	}
	file, err := f.overrides.Load(f.file)
	if err != nil {
		return nil, &exitError{exitConfiguration, err}
	}
	return file, nil
}

func runCommand(p process) *cobra.Command {
	var flags runFlags
	var format string
	cmd := &cobra.Command{
		Use:   "run -c FILE",
		Short: "Consume until something asks it to stop, then end well",
		Long: `Consume until SIGTERM, SIGINT, SIGQUIT or a fault, then shut down in phases
under one deadline. A second SIGTERM or SIGINT, or SIGQUIT, cuts the drain
short; one more seals the report at once, with what is known.

The report goes to the directory in [report], log lines and a summary to stderr.
The exit code is the report's:

    0  clean
    1  failed or incomplete
    2  panic (of a task or closer, never of a handler)
    3  drain cut short: force was used, or a handler did not come back
   64  usage
   69  the broker was not available at the start
   78  the configuration is not valid, or the broker refused it
` + beats,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := newLogger(cmd.ErrOrStderr(), format)
			if err != nil {
				return err
			}
			file, err := flags.load()
			if err != nil {
				return err
			}
			cfg := file.Consumer()
			cfg.Logger = logger
			if cfg.Transport, err = dialer(file, cfg.Service); err != nil {
				return &exitError{exitConfiguration, fmt.Errorf("%s: %w", flags.file, err)}
			}
			c, err := managed.New(cfg)
			if err != nil {
				return &exitError{exitConfiguration, fmt.Errorf("%s: %w", flags.file, err)}
			}
			signals.OutlivePipes()
			bounded(stderrPatience, func() {
				for _, w := range file.Warnings {
					logger.Warn(w.String())
				}
			})
			return summarised(c, consume(p, c, nil))
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&format, "log", "text", "log lines are `FORMAT`, text or json")
	return cmd
}

// consume runs c to its end and returns why it never began, if it did not.
func consume(p process, c *managed.Consumer, setup func(context.Context, *managed.Consumer) error) *managed.StartError {
	err := c.RunWith(context.Background(), managed.RunConfig{Signals: p.signals, Setup: setup})
	start, _ := errors.AsType[*managed.StartError](err)
	return start // how it ended otherwise stands in the report
}

// summarised prints how c ended to stderr, as far as stderr takes it in time, and returns the exit code.
func summarised(c *managed.Consumer, start *managed.StartError) error {
	d, ok := c.ShutdownReport()
	text := ""
	if start != nil {
		text = "lastcall: " + report.Redact(start.Error()) + "\n"
	}
	if ok {
		text += report.Summary(&d)
	}
	patience := stderrPatience
	if ok { // the root deadline holds here, too
		hard := d.Trigger.At.Add(time.Duration(d.Budget.HardTUS) * time.Microsecond)
		patience = min(patience, max(deadline.Until(hard), lastWord))
	}
	writeBounded(os.Stderr, text, patience)
	return ended(c)
}

// ended carries the report's exit code, 1 without a report.
func ended(c *managed.Consumer) error {
	if code := c.ExitCode(); code != 0 {
		return &exitError{code: code}
	}
	return nil
}

const (
	// stderrPatience is how long a reader of stderr may take for what is not logged; a full pipe must not keep the process.
	stderrPatience = 100 * time.Millisecond
	// lastWord is what is left of that after the root deadline: enough for a stderr that takes what it is given.
	lastWord = 5 * time.Millisecond
)

func writeBounded(w io.Writer, text string, patience time.Duration) {
	bounded(patience, func() { _, _ = io.WriteString(w, text) })
}

// bounded calls f and does not wait for it longer than patience.
func bounded(patience time.Duration, f func()) {
	done := make(chan struct{})
	go func() { // ends when f's writes do, or with the process
		defer close(done)
		f()
	}()
	timer := deadline.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

func newLogger(w io.Writer, format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	}
	return nil, fmt.Errorf("--log is %q: write text or json", format)
}
