package config

import (
	"errors"
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"750ms": 750 * time.Millisecond, "1m30s": 90 * time.Second, "0s": 0, "-1s": -time.Second, "1.5h": 90 * time.Minute, "24h": 24 * time.Hour,
	} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want {
			t.Errorf("%q = %s, %v, want %s", text, d, err, want)
		}
	}
	for _, text := range []string{"", "0", "-0", "25", "1.5", " 1s", "1s ", "1 s", "1d", "s", "1s5"} {
		d := Duration(7)
		err := d.UnmarshalText([]byte(text))
		if e, ok := errors.AsType[*DurationError](err); !ok || e.Text != text || d != 7 {
			t.Errorf("%q = %s, %v, want a *DurationError and no change", text, d, err)
		}
	}
	for want, d := range map[string]time.Duration{
		"24h": 24 * time.Hour, "1h0m5s": time.Hour + 5*time.Second, "10m": 10 * time.Minute, "1m30s": 90 * time.Second, "0s": 0, "20s": 20 * time.Second,
		"1h30m": 90 * time.Minute, "100ms": 100 * time.Millisecond, "-10m": -10 * time.Minute,
	} {
		if got := Duration(d).String(); got != want {
			t.Errorf("%s is written %q, want %q", d, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"queue", "prefetch", "concurrency", "on_error", "dir"}
	for word, want := range map[string]string{
		"queue": "queue", "QUEUE": "queue", "queu": "queue", "queeu": "queue", "prefech": "prefetch", "prefetches": "prefetch", "concurency": "concurrency",
		"onerror": "on_error", "dri": "dir", "bar": "", "": "", "d": "", "quota": "", "timeout": "", "größe": "",
	} {
		if got, _ := nearest(word, known); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}
