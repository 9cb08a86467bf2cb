//go:build linux

package main_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// onTime runs a test whose claims are about milliseconds, on a machine that others use too. What is right or wrong at any speed
// fails at once; what was merely late is tried again, and fails if it is late every time.
func onTime(t *testing.T, f func(t *testing.T, c *clock)) {
	t.Helper()
	const tries = 3
	for i := 1; ; i++ {
		c := &clock{stop: make(chan struct{}), stopped: make(chan struct{})}
		go c.listen()
		f(t, c)
		close(c.stop)
		<-c.stopped
		if t.Failed() || len(c.late) == 0 {
			return
		}
		if i == tries {
			t.Fatalf("late %d times: %s", tries, strings.Join(c.late, "; "))
		}
		t.Logf("late, once more: %s", strings.Join(c.late, "; "))
	}
}

// clock notes what took too long. It allows for the machine being late: for twice the worst delay, since begin, of a goroutine
// that wants to run every millisecond.
type clock struct {
	late          []string
	noise         atomic.Int64
	stop, stopped chan struct{}
}

func (c *clock) listen() {
	defer close(c.stopped)
	for {
		begun := time.Now()
		select {
		case <-c.stop:
			return
		case <-time.After(time.Millisecond):
			c.noise.Store(max(c.noise.Load(), int64(time.Since(begun)-time.Millisecond)))
		}
	}
}

// begin makes the allowance count from now on.
func (c *clock) begin() { c.noise.Store(0) }

func (c *clock) allowance() time.Duration { return 2 * time.Duration(c.noise.Load()) }

func (c *clock) within(limit, took time.Duration, what string) {
	if took > limit+c.allowance() {
		c.late = append(c.late, fmt.Sprintf("%s took %s, want at most %s and %s for the machine", what, took.Round(100*time.Microsecond), limit, c.allowance()))
	}
}

// at notes an instant that is before the one that was planned, or more than slack after it.
func (c *clock) at(planned, was, slack time.Duration, what string) {
	if d := was - planned; d < 0 || d > slack+c.allowance() {
		c.late = append(c.late, fmt.Sprintf("%s at %s, want %s and at most %s later, and %s for the machine", what, was.Round(100*time.Microsecond), planned, slack, c.allowance()))
	}
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
