//go:build linux

package main_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// onTime runs a test whose claims are about milliseconds, on a machine that others use too. What is right or wrong at any speed
// fails at once; what was merely late is tried again, and fails if it is late every time.
func onTime(t *testing.T, f func(t *testing.T, c *clock)) {
	t.Helper()
	const tries = 4
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

// clock notes what took too long. Slack is meant for a machine of our own: it is stretched by the number of threads that
// wanted to run for each processor, and by twice the worst delay of a goroutine that wants to run every other millisecond.
type clock struct {
	late          []string
	stop, stopped chan struct{}

	mu                sync.Mutex // guards what has been seen since begin
	noise             time.Duration
	samples, runnable int
}

const tick = 2 * time.Millisecond

// listen is owned by onTime, which ends it.
func (c *clock) listen() {
	defer close(c.stopped)
	for {
		begun := time.Now()
		select {
		case <-c.stop:
			return
		case <-time.After(tick):
		}
		delay, runnable := time.Since(begun)-tick, runnable()
		c.mu.Lock()
		c.noise = max(c.noise, delay)
		c.samples, c.runnable = c.samples+1, c.runnable+runnable
		c.mu.Unlock()
	}
}

// runnable is how many threads of the machine run or want to, without ours, which asks.
func runnable() (n int) {
	b, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscanf(string(b), "%f %f %f %d/", new(float64), new(float64), new(float64), &n)
	}
	if err != nil {
		return 0
	}
	return n - 1
}

// begin makes the allowance count from now on.
func (c *clock) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noise, c.samples, c.runnable = 0, 0, 0
}

func (c *clock) stretch(slack time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	crowd := float64(c.runnable) / float64(max(c.samples, 1)) / float64(runtime.NumCPU())
	return time.Duration(float64(slack)*max(crowd, 1)) + 2*c.noise
}

// within notes what took longer than its share of a budget, which nothing stretches, and the slack for the machinery.
func (c *clock) within(budget, slack, took time.Duration, what string) {
	if stretched := c.stretch(slack); took > budget+stretched {
		c.late = append(c.late, fmt.Sprintf("%s took %s, want at most %s and %s, here %s", what, took.Round(100*time.Microsecond), budget, slack, stretched))
	}
}

// missed notes, if it has happened, what happens to those who are too slow, and returns whether it has.
func (c *clock) missed(happened bool, what string) bool {
	if happened {
		c.late = append(c.late, what)
	}
	return happened
}

// at notes an instant that is before the one that was planned, or more than slack after it.
func (c *clock) at(planned, was, slack time.Duration, what string) {
	if stretched := c.stretch(slack); was < planned || was > planned+stretched {
		c.late = append(c.late, fmt.Sprintf("%s at %s, want %s and at most %s later, here %s", what, was.Round(100*time.Microsecond), planned, slack, stretched))
	}
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
