// Command lastcall runs a message consumer from a configuration file, shows what its shutdown did, and explains its budget.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/signals"
)

// Exit codes that are not a report's.
const (
	exitUsage         = 64
	exitConfiguration = 78
)

// exitError ends the command with a code; its text, if any, has yet to be printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func main() {
	// Before anything else: a signal in the first milliseconds must find its handler installed.
	received, stop := signals.Notify()
	os.Exit(execute(process{signals: received, release: stop, args: os.Args[1:]}))
}

// process is what a command takes from the process it runs in.
type process struct {
	signals <-chan os.Signal
	release func() // gives signals back to their default effect, for commands that end nothing
	args    []string
}

func execute(p process) int {
	root := &cobra.Command{
		Use:           "lastcall",
		Short:         "Run message consumers that end well, and prove how they ended",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(demoCommand(p), runCommand(p), checkCommand(p), reportCommand(p), versionCommand(p))
	root.SetArgs(p.args)
	err := root.Execute()
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		if text := exit.Error(); text != "" {
			fmt.Fprintln(os.Stderr, report.RedactLines(text, maxErrorText))
		}
		return exit.code
	}
	fmt.Fprintf(os.Stderr, "lastcall: %s\nRun 'lastcall --help' for usage.\n", report.Redact(err.Error()))
	return exitUsage
}

const maxErrorText = 16 << 10

func versionCommand(p process) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.release()
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "lastcall", managed.Version())
			return err
		},
	}
}
