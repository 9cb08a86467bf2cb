package report_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/report"
)

var update = flag.Bool("update", false, "rewrite testdata/reports from what the code makes now")

const golden = "../testdata/reports"

// file compares got with a golden file, or writes it under -update.
func file(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join(golden, name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestGolden(t *testing.T) {
	for _, tc := range walkthrough {
		t.Run(tc.name, func(t *testing.T) {
			d := tc.build()
			file(t, tc.name+".json", mustSeal(t, d))
			for _, width := range []int{80, 120} {
				text := report.Text(d, report.TextOptions{Width: width})
				file(t, tc.name+"."+strconv.Itoa(width)+".txt", []byte(text))
				for line := range strings.Lines(text) {
					if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > width && strings.Contains(strings.TrimSpace(line), " ") {
						t.Errorf("%d columns at width %d: %s", n, width, line)
					}
				}
			}
			summary := report.Summary(d)
			file(t, tc.name+".summary.txt", []byte(summary))
			if n := strings.Count(summary, "\n"); n < 2 || n > 3 || !strings.HasSuffix(summary, "\n") {
				t.Errorf("a summary of %d lines", n)
			}
		})
	}
}

// TestGoldenIsRead: what an earlier version stored is a sealed report for this one.
func TestGoldenIsRead(t *testing.T) {
	paths, err := filepath.Glob(golden + "/*.json")
	if err != nil || len(paths) < len(walkthrough) {
		t.Fatalf("%d golden reports, want %d: %v", len(paths), len(walkthrough), err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := report.VerifyDigest(raw); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		d, err := report.Parse(raw)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for _, err := range report.Check(d) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9]+m")

// TestColorSaysNothing: without its colours a page is the page without colour.
func TestColorSaysNothing(t *testing.T) {
	for _, tc := range walkthrough {
		d := tc.build()
		mustSeal(t, d)
		plain, colored := report.Text(d, report.TextOptions{}), report.Text(d, report.TextOptions{Color: true})
		if plain == colored {
			t.Errorf("%s: no colour", tc.name)
		}
		if diff := cmp.Diff(plain, sgr.ReplaceAllString(colored, "")); diff != "" {
			t.Errorf("%s: colour changes the text (-without +with):\n%s", tc.name, diff)
		}
	}
}

// TestTextIsSafe renders a document that nobody cleaned, as it may come from a file.
func TestTextIsSafe(t *testing.T) {
	d := full(func(n int) string {
		return []string{"\x1b]0;owned\a", "amqp://guest:hunter2@mq/", "a\r\nb", "\u202e\u2066", "\xff", ""}[n%6]
	})
	for _, text := range []string{report.Text(d, report.TextOptions{}), report.Summary(d)} {
		if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) || r == '\u00a0' }); i >= 0 {
			t.Errorf("%q could act on a terminal", text[max(i-20, 0):i+20])
		}
		if !utf8.ValidString(text) {
			t.Error("not valid UTF-8")
		}
	}
	if d.Trigger.Detail == report.Redact(d.Trigger.Detail) && strings.ContainsAny(d.Trigger.Detail, "\x1b\r") {
		t.Error("Text changed its argument")
	}
}

func TestTextLeavesItsArgumentAlone(t *testing.T) {
	d := full(func(int) string { return "\x1b[31m" })
	before := report.Clone(d)
	report.Text(d, report.TextOptions{})
	report.Summary(d)
	if diff := cmp.Diff(before, d); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// TestTextOfOddDocuments: a document that says impossible things is shown all the same.
func TestTextOfOddDocuments(t *testing.T) {
	for name, change := range map[string]func(*report.ShutdownReport){
		"empty":   func(d *report.ShutdownReport) { *d = report.ShutdownReport{} },
		"endless": func(d *report.ShutdownReport) { d.Budget.ElapsedUS, d.Budget.HardTUS = 1<<63-1, 1<<63-1 },
		"backwards": func(d *report.ShutdownReport) {
			d.Phases[1].BeganTUS, d.Phases[1].ElapsedUS, d.Budget.ElapsedUS = -1<<62, -5, -7
		},
		"beyond the end": func(d *report.ShutdownReport) { d.Phases[1].BeganTUS, d.Phases[1].ElapsedUS = 1<<62, 1<<61 },
		"no stack":       func(d *report.ShutdownReport) { d.Unsettled = []report.Unsettled{{Stack: 99}} },
		"not conserved":  func(d *report.ShutdownReport) { d.Deliveries.InShutdown = report.Sheet{Received: 3, InFlight: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			d := clean()
			change(d)
			for _, width := range []int{-1, 0, 1, 80, 1000} {
				if text := report.Text(d, report.TextOptions{Width: width, Color: true}); !strings.HasSuffix(text, "\n") {
					t.Errorf("width %d: %q", width, text)
				}
			}
		})
	}
}
