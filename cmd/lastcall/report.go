package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lastcall-go/lastcall/report"
)

func reportCommand(p process) *cobra.Command {
	cmd := &cobra.Command{Use: "report", Short: "Read shutdown reports"}
	cmd.AddCommand(&cobra.Command{
		Use:   "show FILE|DIR|-",
		Short: "Render a report as a timeline; of a directory, the newest one",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.release()
			raw, err := readReport(args[0], cmd.InOrStdin())
			if err != nil {
				return &exitError{1, err}
			}
			d, err := report.Parse(raw)
			if err != nil {
				return &exitError{1, fmt.Errorf("%s: %w", args[0], err)}
			}
			if err := report.VerifyDigest(raw); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: %s\n", args[0], report.Redact(err.Error()))
			}
			_, err = io.WriteString(cmd.OutOrStdout(), report.Text(d, textOptions(os.Stdout)))
			return err
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
	o.Color = os.Getenv("NO_COLOR") == ""
	return o
}

const defaultWidth = 100

// readReport reads one report: from standard input, a file, or the newest of a directory.
func readReport(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return readLimited(stdin)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if name, err = newestReport(name); err != nil {
			return nil, err
		}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readLimited(f)
}

func readLimited(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, report.MaxSize+1)) // Parse says what is wrong with one that is larger
}

// newestReport relies on report names beginning with their time.
func newestReport(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range slices.Backward(entries) {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".json") && !strings.HasPrefix(e.Name(), ".") {
			return filepath.Join(dir, e.Name()), nil
		}
	}
	return "", &fs.PathError{Op: "find a report in", Path: dir, Err: errors.New("there is none")}
}
