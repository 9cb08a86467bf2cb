package deadline_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lastcall-go/lastcall/deadline"
)

func TestShare(t *testing.T) {
	for name, tc := range map[string]struct {
		left, limit time.Duration
		togo        int
		want        time.Duration
	}{
		"its own limit":            {10 * time.Second, time.Second, 2, time.Second},
		"the default limit":        {time.Minute, 0, 1, 5 * time.Second},
		"an equal part":            {3 * time.Second, time.Minute, 3, time.Second},
		"none to go counts as one": {3 * time.Second, time.Minute, 0, 3 * time.Second},
		"expired":                  {0, time.Second, 1, 0},
		"long expired":             {-time.Hour, time.Second, 1, 0},
		"a limit below zero":       {time.Second, -time.Second, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := deadline.Share(epoch, epoch.Add(tc.left), tc.limit, tc.togo); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestSharesFitTheCutoff: closers that each use up their share still leave one to each that follows, and none ends late.
func TestSharesFitTheCutoff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		left := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "left"))
		n := rapid.IntRange(1, 20).Draw(t, "closers")
		now, cutoff := epoch, epoch.Add(left)
		for togo := n; togo > 0; togo-- {
			share := deadline.Share(now, cutoff, time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "limit")), togo)
			if share < 0 || (share == 0 && left >= time.Duration(n) && now.Before(cutoff)) {
				t.Fatalf("share %s with %s left and %d to go", share, cutoff.Sub(now), togo)
			}
			now = now.Add(share)
		}
		if now.After(cutoff) {
			t.Fatalf("the closers end %s after the cutoff", now.Sub(cutoff))
		}
	})
}

func TestCloseEndAndTelemetryShare(t *testing.T) {
	in := budget(t, deadline.Config{Total: 30 * time.Second}).Plan(epoch)
	for name, tc := range map[string]struct{ at, closeEnd, telemetry time.Duration }{
		"idle stop":           {10 * ms, 2010 * ms, 2 * time.Second},
		"late":                {28500 * ms, 29375 * ms, 1450 * ms},
		"at the cutoff":       {29950 * ms, 29375 * ms, 0},
		"after everything is": {time.Minute, 29375 * ms, 0},
	} {
		t.Run(name, func(t *testing.T) {
			now := epoch.Add(tc.at)
			if got := in.CloseEnd(now).Sub(epoch); got != tc.closeEnd {
				t.Errorf("close evidence ends at %s, want %s", got, tc.closeEnd)
			}
			if got := in.TelemetryShare(now); got != tc.telemetry {
				t.Errorf("telemetry may take %s, want %s", got, tc.telemetry)
			}
		})
	}
}

func TestGrace(t *testing.T) {
	for name, tc := range map[string]struct {
		grace           deadline.Grace
		total           time.Duration
		needed, largest time.Duration
		fits            bool
	}{
		"unknown":              {deadline.Grace{}, 30 * time.Second, 31 * time.Second, 30 * time.Second, true},
		"unknown with prestop": {deadline.Grace{PreStop: 5 * time.Second}, 30 * time.Second, 36 * time.Second, 30 * time.Second, true},
		"just fits": {deadline.Grace{Granted: 36 * time.Second, PreStop: 5 * time.Second}, 30 * time.Second,
			36 * time.Second, 30 * time.Second, true},
		"just too long": {deadline.Grace{Granted: 36*time.Second - 1, PreStop: 5 * time.Second}, 30 * time.Second,
			36 * time.Second, 30*time.Second - 1, false},
		"nothing left":   {deadline.Grace{Granted: time.Second}, 30 * time.Second, 31 * time.Second, 250 * ms, false},
		"eaten entirely": {deadline.Grace{Granted: time.Second, PreStop: time.Hour}, 300 * ms, time.Hour + 1300*ms, 250 * ms, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.grace.Needed(tc.total); got != tc.needed {
				t.Errorf("needed %s, want %s", got, tc.needed)
			}
			if got := tc.grace.Fits(tc.total); got != tc.fits {
				t.Errorf("fits: %t, want %t", got, tc.fits)
			}
			if got := tc.grace.Largest(tc.total); got != tc.largest {
				t.Errorf("largest %s, want %s", got, tc.largest)
			}
		})
	}
}
