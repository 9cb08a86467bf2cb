//go:build linux

package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/report"
	"github.com/lastcall-go/lastcall/report/reporttest"
)

func demo(t *testing.T, args ...string) *life {
	t.Helper()
	l := prepare(t, t.TempDir(), "lastcall", append([]string{"demo"}, args...)...)
	l.start()
	return l
}

// The demo is a whole life in about two seconds, and a report that can be read.
func TestShown01_Demo(t *testing.T) {
	t.Parallel()
	onTime(t, func(t *testing.T, c *clock) {
		begun := time.Now()
		l := demo(t)
		if code := l.exit(); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		for _, words := range []string{"✔ demo ended well.", "graceful_completed, exit 0 (clean)", "orders", "emails", "invoices", "close_admission"} {
			if !strings.Contains(l.stdout.String(), words) {
				t.Errorf("stdout does not say %q:\n%s", words, &l.stdout)
			}
		}
		if strings.Contains(l.stdout.String(), "\x1b") {
			t.Error("there are escapes in what is no terminal")
		}
		c.within(2*time.Second, 500*time.Millisecond, l.ended.Sub(begun), "the demo")
	})
}

// With a handler that does not return the demo shows what is said of one.
func TestShown01_DemoStuck(t *testing.T) {
	t.Parallel()
	l := demo(t, "--stuck")
	if code := l.exit(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	for _, words := range []string{"✘ demo", "abandoned", "main.waitForALockThatIsNeverReleased"} {
		if !strings.Contains(l.stdout.String(), words) {
			t.Errorf("stdout does not say %q:\n%s", words, &l.stdout)
		}
	}
}

// For machines: one report on stdout and nothing else, nothing at all on stderr.
func TestShown01_DemoJSON(t *testing.T) {
	t.Parallel()
	onTime(t, func(t *testing.T, c *clock) {
		l := demo(t, "--stuck", "--json")
		code := l.exit()
		d := reporttest.Check(t, l.stdout.Bytes())
		if d == nil || code != 3 || d.ExitCode != code {
			t.Fatalf("exit code %d, stdout:\n%s", code, &l.stdout)
		}
		in := d.Deliveries.InShutdown
		if d.Completion != report.Incomplete || in.Abandoned != 1 {
			t.Errorf("%s, in the shutdown %+v", d.Completion, in)
		}
		c.missed(in.Unresolved > 0, "the close came too late for proof")
		if text := l.stderr.text(); text != "" {
			t.Errorf("stderr: %s", text)
		}
	})
}
