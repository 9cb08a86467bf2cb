package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-go/lastcall/config"
	"github.com/lastcall-go/lastcall/deadline"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
)

// runFlags are what `run` and `check` share.
type runFlags struct {
	file      string
	overrides config.Overrides
}

func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "config", "c", "", "configuration file (required)")
	flags.DurationVar(&f.overrides.ShutdownTimeout, "shutdown-timeout", 0, "the whole shutdown, for example 30s; beats file and environment")
	flags.DurationVar(&f.overrides.PlatformGrace, "grace", 0, "what the platform grants between its signal and its kill, for example 45s")
	flags.StringVar(&f.overrides.BrokerURL, "broker-url", "", "broker URL; beats file and environment")
	flags.StringVar(&f.overrides.ReportDir, "report-dir", "", "directory for reports; beats file and environment")
	_ = cmd.MarkFlagRequired("config") // fails only for a flag that does not exist
}

func (f *runFlags) load() (*config.File, error) {
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
		Short: "Consume until something asks it to stop, and leave with the report's exit code",
		Long: `Consume until SIGTERM, SIGINT, SIGQUIT or a fault, shut down in phases under one deadline, and leave with the report's exit code:
0 clean, 1 failed or incomplete, 2 panic, 3 drain cut short, 69 broker unavailable, 78 configuration.
The report goes to [report] dir, a summary to stderr.`,
		Args: cobra.NoArgs,
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
				return &exitError{exitConfiguration, err}
			}
			for _, w := range file.Warnings {
				logger.Warn(w.String())
			}
			return finish(p, c, nil)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&format, "log", "text", "log format on stderr: text or json")
	return cmd
}

// finish runs c to its end, prints the summary to stderr as far as stderr takes it in time, and returns the exit code.
func finish(p process, c *managed.Consumer, setup func(context.Context, *managed.Consumer) error) error {
	err := c.RunWith(context.Background(), managed.RunConfig{Signals: p.signals, Setup: setup})
	d, ok := c.ShutdownReport()
	if !ok {
		return &exitError{code: c.ExitCode(), err: err}
	}
	text := report.Summary(&d)
	if start, ok := errors.AsType[*managed.StartError](err); ok {
		text = "lastcall: " + report.Redact(start.Error()) + "\n" + text
	}
	writeBounded(os.Stderr, text, summaryPatience)
	return &exitError{code: d.ExitCode}
}

// summaryPatience is how long a reader of stderr may take for the last lines; a full pipe must not keep the process.
const summaryPatience = 100 * time.Millisecond

func writeBounded(w io.Writer, text string, patience time.Duration) {
	done := make(chan struct{})
	go func() { // ends when the write does, or with the process
		defer close(done)
		_, _ = io.WriteString(w, text)
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
	return nil, fmt.Errorf("--log is %q: use text or json", format)
}

// dialer makes the transport that the file names.
func dialer(file *config.File, service managed.Service) (transport.Transport, error) {
	if file.Broker.Kind == config.Memory {
		b := memory.New(memory.Config{})
		for _, s := range file.Subscriptions {
			if s.Declare == "passive" {
				if err := b.Declare(s.Queue, memory.Options{}); err != nil {
					return nil, err
				}
			}
		}
		return b, nil
	}
	address, err := file.Broker.Address()
	if err != nil {
		return nil, err
	}
	cfg := rabbitmq.Config{URL: string(address), ConnectionName: connectionName(service)}
	if file.Broker.URLFile != "" {
		cfg.Credentials = func(context.Context) (string, string, error) { return credentials(file.Broker) }
	}
	return rabbitmq.New(cfg)
}

func connectionName(service managed.Service) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := service.Name
	if name == "" {
		name = "lastcall"
	}
	return fmt.Sprintf("%s@%s#%d", name, host, os.Getpid())
}

// credentials reads the file with the URL again, so that a rotated password is found at the next dial.
func credentials(b config.Broker) (user, password string, err error) {
	address, err := b.Address()
	if err != nil {
		return "", "", err
	}
	u, err := url.Parse(string(address))
	if err != nil {
		return "", "", errors.New("url_file does not hold a valid URL")
	}
	password, _ = u.User.Password()
	return u.User.Username(), password, nil
}
