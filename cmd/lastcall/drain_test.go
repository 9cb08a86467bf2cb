//go:build linux

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/report"
)

// slow handles a message in 0.3 s and writes its id, in one piece, to the file "out".
var slow = shell(`sleep 0.3; echo "$(cat)" >> out`)

// second is the second consumer of a queue: what it got, and when.
type second struct {
	mu      sync.Mutex
	got     []string
	arrived []time.Time
	changed chan struct{}
}

func consume(b *rabbittest.Broker, queue string) *second {
	s := &second{changed: make(chan struct{}, 1)}
	b.Consume(queue, func(id string, _ bool) {
		s.mu.Lock()
		s.got, s.arrived = append(s.got, id), append(s.arrived, time.Now())
		s.mu.Unlock()
		select {
		case s.changed <- struct{}{}:
		default:
		}
	})
	return s
}

// await waits until what it has got is enough, and returns that and when the last of it came.
func (s *second) await(t *testing.T, enough func(got []string) bool) ([]string, time.Time) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		got, arrived := slices.Clone(s.got), s.arrived
		s.mu.Unlock()
		if enough(got) {
			return got, arrived[len(got)-1]
		}
		select {
		case <-s.changed:
		case <-timeout.C:
			t.Fatalf("the second consumer got no more than %v", got)
		}
	}
}

func count(n int) func([]string) bool { return func(got []string) bool { return len(got) >= n } }

// Work in hand at SIGTERM: what has been started is finished and acked, what was prefetched is with the other consumer within
// milliseconds, nothing is done twice or lost, and the process ends with its last handler.
func TestShown02_WorkInHand(t *testing.T) {
	t.Parallel()
	for _, kind := range []rabbittest.Kind{rabbittest.Classic, rabbittest.Quorum} {
		t.Run(string(kind), func(t *testing.T) {
			b := rabbittest.New(t)
			onTime(t, func(t *testing.T, c *clock) { workInHand(t, c, b, kind) })
		})
	}
}

func workInHand(t *testing.T, c *clock, b *rabbittest.Broker, kind rabbittest.Kind) {
	queue := b.Queue(kind)
	b.Publish(queue, ids(40)...)
	l := runs(t, configuration{queue: queue, exec: slow, subscription: []string{"prefetch = 20", "concurrency = 4"}})
	l.awaitStarted(1)
	first := time.Now()
	other := consume(b, queue)
	other.await(t, count(20)) // what is ready beyond the prefetch
	time.Sleep(time.Until(first.Add(450 * time.Millisecond)))
	c.begin()
	stop := l.signal(syscall.SIGTERM)
	d := l.report()
	out := l.lines("out")
	in, all := d.Deliveries.InShutdown, d.Deliveries.SinceStart
	if d.Completion != report.GracefulCompleted || d.ExitCode != 0 {
		t.Errorf("%s, exit code %d, findings %+v", d.Completion, d.ExitCode, d.Findings)
	}
	at := d.Deliveries.AtTrigger
	c.missed(at.Started != 4 || at.Buffered == 0, fmt.Sprintf("the signal found %+v", at)) // between two handlers, or after all
	begun := at.Started + at.Settling
	want := report.Sheet{Received: begun + at.Buffered, Started: begun, Acked: begun, HandedBack: at.Buffered, Conserved: true}
	if diff := cmp.Diff(want, in); diff != "" {
		t.Errorf("what was in hand (-want +got):\n%s", diff)
	}
	if !all.Conserved || all.Acked != uint64(len(out)) {
		t.Errorf("since the start %+v, and handlers wrote %d lines", all, len(out))
	}
	got, last := other.await(t, count(40-len(out)))
	if diff := cmp.Diff(sorted(ids(40)), sorted(slices.Concat(out, got))); diff != "" {
		t.Errorf("every message once, here or there (-want +got):\n%s", diff)
	}
	if left := b.Drain(queue); len(left) > 0 {
		t.Errorf("left in the queue: %v", left)
	}
	c.within(0, 50*time.Millisecond, last.Sub(stop), "the hand-over")
	info, err := os.Stat(filepath.Join(l.dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	c.within(0, 100*time.Millisecond, l.ended.Sub(info.ModTime()), "the end after the last handler")
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// Killed in the middle of the same work: what had not been handled is delivered again, so nothing was acked before that.
func TestShown10_Killed(t *testing.T) {
	t.Parallel()
	for _, kind := range []rabbittest.Kind{rabbittest.Classic, rabbittest.Quorum} {
		t.Run(string(kind), func(t *testing.T) {
			b := rabbittest.New(t)
			queue := b.Queue(kind)
			b.Publish(queue, ids(40)...)
			l := runs(t, configuration{queue: queue, exec: slow, subscription: []string{"prefetch = 20", "concurrency = 4"}})
			l.awaitStarted(6) // so that at least two have been handled
			l.signal(syscall.SIGKILL)
			l.exit()
			handled := l.lines("out")
			if n := len(l.reports()); n != 0 {
				t.Errorf("%d reports of a process that was killed", n)
			}
			got, _ := consume(b, queue).await(t, func(got []string) bool { return len(without(ids(40), append(got, handled...))) == 0 })
			if len(handled) == 0 || len(got) == 0 {
				t.Errorf("%d handled, %d delivered again: this has not been in the middle", len(handled), len(got))
			}
		})
	}
}

// without returns what of all is not in some.
func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(some, id) })
}
