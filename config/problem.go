package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Problem is one thing wrong with a configuration: where, what, and what to change. It holds no password.
type Problem struct {
	// Source is the file as it was named, or the environment variable or flag that the value came from.
	Source string
	// Line and Col count from 1, columns in characters. Both are 0 where there is no line to point at: a value from elsewhere,
	// or something that is missing altogether.
	Line, Col int
	// Key is the dotted path of the key, such as "subscription[0].queue". Empty for text that is no TOML.
	Key string
	// What is wrong, and what to Change.
	What, Change string
}

// String writes the problem on one line: "file:line:col: what is wrong; what to change".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Source)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Col)
	}
	b.WriteString(": " + p.What)
	if p.Change != "" {
		b.WriteString("; " + p.Change)
	}
	return b.String()
}

// Error is a configuration that cannot be used. It lists every problem, in the order of the file, then those of environment
// and flags.
type Error struct {
	Problems []Problem
	// Err is why the file could not be read; nil if it could.
	Err error
}

// Error writes one problem a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns why the file could not be read.
func (e *Error) Unwrap() error { return e.Err }

// WarningKind names a warning.
type WarningKind string

// The kinds of warning.
const (
	// GraceTooSmall: the budget does not fit into what the platform grants; deadline.Grace holds the arithmetic.
	GraceTooSmall WarningKind = "grace_too_small"
	// HandlerOutlastsDrain: a handler may take longer than the graceful window.
	HandlerOutlastsDrain WarningKind = "handler_outlasts_drain"
	// PrefetchBelowConcurrency: some handlers can never run.
	PrefetchBelowConcurrency WarningKind = "prefetch_below_concurrency"
	// ProgramNotFound: the program of an exec is not there, or cannot be executed.
	ProgramNotFound WarningKind = "program_not_found"
	// LabelUnset: the environment variable of a label is not set; the label is left out.
	LabelUnset WarningKind = "label_unset"
)

// Warning is something that runs, though hardly as it was meant.
type Warning struct {
	Kind WarningKind
	Problem
}

// FailsCheck reports whether the warning makes `check` fail: it is wrong here and now, and no reason not to start.
func (w Warning) FailsCheck() bool { return w.Kind == GraceTooSmall || w.Kind == ProgramNotFound }

// source is one text with the name it goes by, and turns offsets into lines and columns.
type source struct {
	name, text string
}

func (s source) at(offset int) (line, col int) {
	before := s.text[:max(min(offset, len(s.text)), 0)]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}

// inOrder sorts by place: lines first, then what has none, in the order in which it was found.
func inOrder[T any](list []T, problem func(T) Problem) {
	slices.SortStableFunc(list, func(x, y T) int {
		a, b := problem(x), problem(y)
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
}

const maxEcho = 64

// echo quotes a value for a message, cut short where a URL or a pair of user and password, and with them a secret, may begin.
func echo(s string) string {
	cut := false
	if i := strings.IndexByte(s, ':'); i >= 0 && (strings.HasPrefix(s[i:], "://") || strings.Contains(s[i:], "@")) {
		s, cut = s[:i+1], true
	}
	if r := []rune(s); len(r) > maxEcho {
		s, cut = string(r[:maxEcho]), true
	}
	if cut {
		s += "…"
	}
	return fmt.Sprintf("%q", s)
}
