package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/lastcall-go/lastcall/config"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/signals"
)

// Exit codes that are not a report's; the numbers are those of sysexits.h.
const (
	exitUsage         = 64
	exitData          = 65 // what was read is no report
	exitNoInput       = 66 // it could not be read
	exitOutput        = 74 // stdout did not take what was written
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
		Use:     "lastcall",
		Short:   "Run message consumers that end well, and prove how they ended",
		Version: managed.Version(),
	}
	root.SetVersionTemplate("lastcall {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetUsageTemplate(usageTemplate)
	group(root)
	root.AddCommand(demoCommand(p), runCommand(p), checkCommand(p), reportCommand(p), versionCommand(p))
	root.SetHelpCommand(helpCommand())
	root.SetArgs(p.args)
	cmd, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	code, text := exitUsage, ""
	if exit, ok := errors.AsType[*exitError](err); ok {
		code, text = exit.code, exit.Error()
	} else { // flags, arguments, commands
		text = fmt.Sprintf("%s: %s\nRun '%s --help' for usage.", cmd.CommandPath(), err, cmd.CommandPath())
	}
	if _, ok := errors.AsType[*config.Error](err); !ok { // which holds no secret, but an example of where one belongs
		text = report.RedactLines(text, maxErrorText)
	}
	if text != "" {
		writeBounded(os.Stderr, text+"\n", stderrPatience)
	}
	return code
}

const maxErrorText = 16 << 10

// usageTemplate is cobra's without what is not used here, for terminals of 80 columns.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} COMMAND --help" for more about a command.{{end}}
`

// group makes a command that only has others. Left out in a manifest, the command that was meant must not look like one that
// ended well.
func group(cmd *cobra.Command) {
	cmd.Use += " COMMAND"
	cmd.DisableFlagsInUseLine = true
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			cmd.SetOut(cmd.ErrOrStderr())
			_ = cmd.Help() // what stderr does not take nobody misses
			return &exitError{code: exitUsage}
		}
		return unknown(cmd, args[0])
	}
}

func unknown(group *cobra.Command, name string) error {
	if near := group.SuggestionsFor(name); len(near) > 0 {
		return fmt.Errorf("unknown command %q; did you mean %q?", name, near[0])
	}
	return fmt.Errorf("unknown command %q", name)
}

// helpCommand is cobra's, except that it does not answer with something else where it knows nothing.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND]",
		Hidden: true,
		RunE: func(help *cobra.Command, args []string) error {
			cmd, rest, err := help.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = unknown(cmd, rest[0])
			}
			if err != nil {
				return err
			}
			return cmd.Help()
		},
	}
}

// noArguments refuses arguments. It says so, where cobra takes them for commands.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

func versionCommand(p process) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.release()
			return writeOut(cmd.OutOrStdout(), "lastcall "+managed.Version()+"\n")
		},
	}
}

// writeOut writes what a command was asked for.
func writeOut(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return &exitError{exitOutput, fmt.Errorf("lastcall: %w", err)}
	}
	return nil
}
