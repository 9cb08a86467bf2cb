package deadline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lastcall-go/lastcall/deadline"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := deadline.Now()
		if err := deadline.Sleep(t.Context(), time.Second); err != nil || deadline.Since(start) != time.Second {
			t.Errorf("slept %s: %v", deadline.Since(start), err)
		}
		cancelled, cancel := context.WithCancelCause(t.Context())
		cancel(errDone)
		if err := deadline.Sleep(cancelled, 0); err != nil {
			t.Errorf("no sleep at all: %v", err)
		}
		short, stop := deadline.Timeout(t.Context(), time.Second, errOver)
		defer stop()
		if err := deadline.Sleep(short, time.Hour); err != errOver || deadline.Since(start) != 2*time.Second {
			t.Errorf("woken after %s by %v; want 2s, %v", deadline.Since(start), err, errOver)
		}
	})
}

func TestContextOfAnInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := deadline.Now()
		ctx, cancel := deadline.Context(t.Context(), start.Add(time.Second), errOver)
		defer cancel()
		if at, cause := ended(start, ctx); at != time.Second || cause != errOver {
			t.Errorf("ended after %s with %v", at, cause)
		}
		if left := deadline.Until(start); left != -time.Second {
			t.Errorf("until the start: %s, want -1s", left)
		}
	})
}
