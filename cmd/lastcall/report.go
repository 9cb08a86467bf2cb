package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lastcall-go/lastcall/report"
)

func reportCommand(p process) *cobra.Command {
	cmd := &cobra.Command{Use: "report", Short: "Read shutdown reports"}
	group(cmd)
	cmd.AddCommand(&cobra.Command{
		Use:   "show FILE|DIR|-",
		Short: "Render a report as a timeline; of a directory, the newest one",
		Long: `Render a report as a timeline, for the terminal's width and in colour where
stdout is one; NO_COLOR turns colours off. Of a directory the newest report is
shown, - reads one from standard input.

Exits 65 for what is no shutdown report and 66 for what cannot be read.
`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one report, a directory of reports, or - for standard input; there are %d arguments", len(args))
			}
			return nil
		},
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.release()
			name, raw, err := readReport(args[0], cmd.InOrStdin())
			if err != nil {
				return &exitError{exitNoInput, fmt.Errorf("lastcall: %w", err)}
			}
			d, err := report.Parse(raw)
			if err != nil {
				return &exitError{exitData, fmt.Errorf("lastcall: %w, in %s", err, name)}
			}
			if err := report.VerifyDigest(raw); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "lastcall: warning: %s, in %s\n", report.Redact(err.Error()), report.Redact(name))
			}
			return writeOut(cmd.OutOrStdout(), report.Text(d, textOptions(os.Stdout)))
		},
	})
	return cmd
}

// textOptions fits a report to the terminal that out is, if it is one.
func textOptions(out *os.File) report.TextOptions {
	o := report.TextOptions{Width: defaultWidth}
	if !term.IsTerminal(int(out.Fd())) {
		return o
	}
	if width, _, err := term.GetSize(int(out.Fd())); err == nil && width > 0 {
		o.Width = width
	}
	o.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return o
}

const defaultWidth = 100

// readReport reads one report, from standard input, a file, or the newest of a directory, and says what it has read.
func readReport(name string, stdin io.Reader) (string, []byte, error) {
	if name == "-" {
		raw, err := readLimited(stdin)
		return "standard input", raw, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return name, nil, err
	}
	if info.IsDir() {
		if name, err = newestReport(name); err != nil {
			return name, nil, err
		}
	}
	f, err := os.Open(name)
	if err != nil {
		return name, nil, err
	}
	defer f.Close()
	raw, err := readLimited(f)
	return name, raw, err
}

func readLimited(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, report.MaxSize+1)) // Parse says what is wrong with one that is larger
}

// reportName is how reports are called, see [report.Store.Save]: their time comes first.
var reportName = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}Z-[0-9a-f-]+\.json$`)

func newestReport(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return dir, err
	}
	for _, e := range slices.Backward(entries) {
		if e.Type().IsRegular() && reportName.MatchString(e.Name()) {
			return filepath.Join(dir, e.Name()), nil
		}
	}
	return dir, &fs.PathError{Op: "find a report in", Path: dir, Err: errors.New("there is none")}
}
