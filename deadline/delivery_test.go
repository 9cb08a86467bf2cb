package deadline_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lastcall-go/lastcall/deadline"
)

func TestForDelivery(t *testing.T) {
	for name, tc := range map[string]struct{ timeout, notice time.Duration }{
		"a quarter":     {2 * time.Second, 1500 * ms},
		"at most 1 s":   {25 * time.Second, 24 * time.Second},
		"the crossing":  {4 * time.Second, 3 * time.Second},
		"one ns":        {1, 1},
		"three of four": {4, 3},
	} {
		t.Run(name, func(t *testing.T) {
			want := deadline.Delivery{Start: epoch, Notice: epoch.Add(tc.notice), Hard: epoch.Add(tc.timeout)}
			if diff := cmp.Diff(want, deadline.ForDelivery(epoch, tc.timeout)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCapByTheRoot(t *testing.T) {
	in := budget(t, deadline.Config{Total: 30 * time.Second}).Plan(epoch) // graceful 28, F 29
	for name, tc := range map[string]struct{ start, timeout, notice, hard time.Duration }{
		"ends before":      {0, 25 * time.Second, 24 * time.Second, 25 * time.Second},
		"only the end":     {3 * time.Second, 26500 * ms, 28 * time.Second, 29 * time.Second},
		"both":             {20 * time.Second, time.Minute, 28 * time.Second, 29 * time.Second},
		"started long ago": {-time.Minute, 2 * time.Minute, 28 * time.Second, 29 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			start := epoch.Add(tc.start)
			want := deadline.Delivery{Start: start, Notice: epoch.Add(tc.notice), Hard: epoch.Add(tc.hard)}
			if diff := cmp.Diff(want, deadline.ForDelivery(start, tc.timeout).Cap(in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCapKeepsNoticeBeforeEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyBudget.Draw(t, "budget").Plan(epoch)
		day := int64(24 * time.Hour)
		d := deadline.ForDelivery(epoch.Add(time.Duration(rapid.Int64Range(-day, day).Draw(t, "start"))),
			time.Duration(rapid.Int64Range(1, day).Draw(t, "timeout")))
		capped := d.Cap(in)
		if capped.Hard.Before(capped.Notice) || capped.Notice.After(d.Notice) || capped.Hard.After(d.Hard) {
			t.Fatalf("%+v capped to %+v", d, capped)
		}
		if capped.Notice.After(in.Graceful) || capped.Hard.After(in.Force) {
			t.Fatalf("%+v goes beyond the root", capped)
		}
	})
}

func TestKillAt(t *testing.T) {
	for name, tc := range map[string]struct{ end, want time.Duration }{
		"three quarters":  {time.Second, 750 * ms},
		"to the ns":       {7, 5},
		"no time":         {0, 0},
		"the end is past": {-time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := deadline.KillAt(epoch, epoch.Add(tc.end)).Sub(epoch); got != tc.want {
				t.Errorf("killed after %s, want %s", got, tc.want)
			}
		})
	}
}
