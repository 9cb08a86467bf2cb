//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/faultproxy"
	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/report"
)

// effects are what each request to end changed.
func effects(d *report.ShutdownReport) (out []string) {
	for _, e := range d.Triggers {
		out = append(out, e.Detail+" "+string(e.Effect))
	}
	return out
}

// verdict is what the tests of a cut drain hold against a report.
type verdict struct {
	Completion report.Completion
	Code       int
	Sheet      report.Sheet
	Effects    []string
}

func verdictOf(d *report.ShutdownReport) verdict {
	return verdict{d.Completion, d.ExitCode, d.Deliveries.InShutdown, effects(d)}
}

func compare(t *testing.T, want verdict, d *report.ShutdownReport) {
	t.Helper()
	want.Sheet.Conserved = true
	if diff := cmp.Diff(want, verdictOf(d)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

var interrupted = report.Sheet{Received: 1, Started: 1, Interrupted: 1}

// back fails the test unless the message is in the queue again, delivered before.
func back(t *testing.T, b *rabbittest.Broker, queue string) {
	t.Helper()
	got, _ := consume(b, queue).await(t, count(1))
	if diff := cmp.Diff(ids(1), got); diff != "" {
		t.Errorf("in the queue (-want +got):\n%s", diff)
	}
}

// gone fails the test if a process of the group that a handler wrote down still runs.
func gone(t *testing.T, l *life) {
	t.Helper()
	group := strings.Join(l.lines("group"), "")
	if group == "" {
		t.Fatal("the handler has not written its group down")
	}
	var left []string
	for until := time.Now().Add(time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) { // a killed process takes a moment to die
		if left = running(t, group); len(left) == 0 {
			return
		}
	}
	t.Errorf("left of the handler's group: %q", left)
	if n, err := strconv.Atoi(group); err == nil {
		_ = syscall.Kill(-n, syscall.SIGKILL)
	}
}

// running lists the processes of a group, without those that are dead and not yet reaped by whoever inherited them.
func running(t *testing.T, group string) (stats []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		t.Fatalf("no processes in /proc: %v", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has just ended
		}
		_, rest, _ := strings.Cut(string(b), ") ") // state, parent, group
		if f := strings.Fields(rest); len(f) > 2 && f[2] == group && f[0] != "Z" && f[0] != "X" {
			stats = append(stats, string(b))
		}
	}
	return stats
}

// A child that ignores SIGTERM, with children of its own, is killed at A + 3/4 (F - A) and reaped.
func TestShown03_ChildThatIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	b := rabbittest.New(t)
	onTime(t, func(t *testing.T, c *clock) {
		queue := b.Queue(rabbittest.Classic)
		b.Publish(queue, "m1")
		l := runs(t, configuration{queue: queue, total: 2 * time.Second, subscription: []string{`handler_timeout = "1h"`}, exec: []string{"sh", "-c",
			`trap "" TERM; echo $$ > group; sleep 60 & sleep 60 & echo started; wait`}})
		l.awaitStarted(1)
		c.begin()
		stop := l.signal(syscall.SIGTERM)
		d := l.report()
		if c.missed(d.Deliveries.InShutdown.Abandoned > 0, "the child's end came after F(A)") {
			return
		}
		compare(t, verdict{report.ForcedCompleted, 3, interrupted, []string{"SIGTERM graceful"}}, d)
		gone(t, l)
		back(t, b, queue)
		c.within(2*time.Second, 0, l.ended.Sub(stop), "the shutdown")
		for _, a := range d.Phases[1].Actions { // A = 1.5 s, F = 1.875 s
			if a.Name == queue {
				c.at(1781250*time.Microsecond, micros(a.BeganTUS+a.ElapsedUS), 60*time.Millisecond, "the end of the child")
			}
		}
	})
}

// blocked starts the program whose handler never returns.
func blocked(t *testing.T, queue string, total time.Duration) *life {
	t.Helper()
	l := prepare(t, t.TempDir(), "blocked")
	l.cmd.Env = append(l.cmd.Env, "AMQP_URL="+rabbittest.URL(), "QUEUE="+queue, "REPORTS=reports", "TOTAL="+total.String())
	l.start()
	l.await(1, "started")
	return l
}

var abandoned = report.Sheet{Received: 1, Started: 1, Abandoned: 1}

// A Go handler that never returns is abandoned: on time, with its stack, and its message is delivered again.
func TestShown03_HandlerThatNeverReturns(t *testing.T) {
	t.Parallel()
	b := rabbittest.New(t)
	onTime(t, func(t *testing.T, c *clock) {
		queue := b.Queue(rabbittest.Classic)
		b.Publish(queue, "m1")
		l := blocked(t, queue, 2*time.Second)
		c.begin()
		stop := l.signal(syscall.SIGTERM)
		d := l.report()
		compare(t, verdict{report.Incomplete, 3, abandoned, []string{"SIGTERM graceful"}}, d)
		if len(d.Unsettled) != 1 || d.Unsettled[0].Stack != 0 || len(d.Stacks) != 1 || !strings.Contains(d.Stacks[0], "main.waitForNothing") {
			t.Errorf("unsettled %+v\nstacks %q", d.Unsettled, d.Stacks)
		}
		back(t, b, queue)
		c.within(2*time.Second, 50*time.Millisecond, l.ended.Sub(stop), "the shutdown")
	})
}

// A second SIGTERM gives the notice at once, long before the deadline would.
func TestShown04_SecondSignal(t *testing.T) {
	t.Parallel()
	b := rabbittest.New(t)
	onTime(t, func(t *testing.T, c *clock) {
		queue := b.Queue(rabbittest.Classic)
		b.Publish(queue, "m1")
		l := runs(t, configuration{queue: queue, total: 30 * time.Second, exec: shell("exec sleep 60")})
		l.awaitStarted(1)
		c.begin()
		first := l.signal(syscall.SIGTERM)
		time.Sleep(time.Second) // the situation: one second into the drain
		c.begin()
		second := l.signal(syscall.SIGTERM)
		d := l.report()
		compare(t, verdict{report.ForcedCompleted, 3, interrupted, []string{"SIGTERM graceful", "SIGTERM force"}}, d)
		back(t, b, queue)
		c.within(0, 1500*time.Millisecond, l.ended.Sub(second), "the shutdown after the second signal")
		if d.Force.Cause != report.ForceSignal || d.Force.TUS == nil {
			t.Fatalf("force %+v", d.Force)
		}
		c.at(second.Sub(first), micros(*d.Force.TUS)+time.Millisecond, 50*time.Millisecond, "the notice")
	})
}

// The same while the broker does not say a word any more: over within the reserve.
func TestShown04_SecondSignalBeforeASilentBroker(t *testing.T) {
	t.Parallel()
	b := rabbittest.New(t)
	proxy, err := faultproxy.New(brokerAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	onTime(t, func(t *testing.T, c *clock) {
		queue := b.Queue(rabbittest.Classic)
		b.Publish(queue, "m1")
		proxy.Set(faultproxy.ToServer, faultproxy.Pass)
		proxy.Set(faultproxy.ToClient, faultproxy.Pass)
		l := runs(t, configuration{url: through(t, proxy.Addr()), queue: queue, total: 30 * time.Second, exec: shell("exec sleep 60")})
		l.awaitStarted(1)
		l.signal(syscall.SIGTERM)
		time.Sleep(time.Second) // the situation: one second into the drain
		proxy.Set(faultproxy.ToServer, faultproxy.Discard)
		proxy.Set(faultproxy.ToClient, faultproxy.Discard)
		c.begin()
		second := l.signal(syscall.SIGTERM)
		d := l.report()
		compare(t, verdict{report.Incomplete, 3, interrupted, []string{"SIGTERM graceful", "SIGTERM force"}}, d)
		c.within(2*time.Second, 50*time.Millisecond, l.ended.Sub(second), "the shutdown after the second signal")
		proxy.ResetAll() // now the broker sees it, too
		back(t, b, queue)
	})
}

// A third signal does not wait for anybody.
func TestShown04_ThirdSignal(t *testing.T) {
	t.Parallel()
	b := rabbittest.New(t)
	onTime(t, func(t *testing.T, c *clock) {
		queue := b.Queue(rabbittest.Classic)
		b.Publish(queue, "m1")
		l := blocked(t, queue, 30*time.Second)
		c.begin()
		first := l.signal(syscall.SIGTERM)
		time.Sleep(300 * time.Millisecond) // the same signal within 200 ms is a duplicate
		l.signal(syscall.SIGTERM)
		time.Sleep(300 * time.Millisecond)
		c.begin()
		third := l.signal(syscall.SIGTERM)
		d := l.report()
		compare(t, verdict{report.Incomplete, 3, abandoned, []string{"SIGTERM graceful", "SIGTERM force", "SIGTERM abandon"}}, d)
		if d.RuntimeJoined {
			t.Error("runtime_joined is true after an abandon")
		}
		back(t, b, queue)
		c.within(0, 100*time.Millisecond, micros(d.Budget.ElapsedUS)-third.Sub(first), "the seal after the third signal")
		c.within(0, 150*time.Millisecond, l.ended.Sub(third), "the end after the third signal")
	})
}

// A third signal leaves no child behind that would handle a message which is delivered again.
func TestShown04_ThirdSignalKillsChildren(t *testing.T) {
	t.Parallel()
	b := rabbittest.New(t)
	queue := b.Queue(rabbittest.Classic)
	b.Publish(queue, "m1")
	l := runs(t, configuration{queue: queue, exec: []string{"sh", "-c", `trap "" TERM; echo $$ > group; echo started; sleep 60`}})
	l.awaitStarted(1)
	l.signal(syscall.SIGTERM)
	l.await(1, `"effect":"graceful"`)
	l.signal(syscall.SIGQUIT)
	l.await(1, `"effect":"force"`)
	l.signal(syscall.SIGINT)
	d := l.report()
	if diff := cmp.Diff([]string{"SIGTERM graceful", "SIGQUIT force", "SIGINT abandon"}, effects(d)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	gone(t, l)
	back(t, b, queue)
}

// Exit code 0 after our SIGTERM says nothing, unless the configuration says that it does.
func TestShown05_ChildExitsZeroAfterSIGTERM(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		subscription []string
		want         report.Sheet
	}{
		"interrupted": {nil, interrupted},
		"ack":         {[]string{`term_exit_zero = "ack"`}, report.Sheet{Received: 1, Started: 1, Acked: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := rabbittest.New(t)
			queue := b.Queue(rabbittest.Classic)
			b.Publish(queue, "m1")
			l := runs(t, configuration{queue: queue, subscription: tc.subscription, exec: []string{"sh", "-c",
				`trap "exit 0" TERM; echo $$ > group; (trap "" TERM; exec sleep 60) & echo started; wait`}})
			l.awaitStarted(1)
			l.signal(syscall.SIGTERM)
			l.await(1, `"effect":"graceful"`)
			l.signal(syscall.SIGQUIT) // the notice now, not after 28 s
			compare(t, verdict{report.ForcedCompleted, 3, tc.want, []string{"SIGTERM graceful", "SIGQUIT force"}}, l.report())
			gone(t, l)
			if tc.want.Acked == 0 {
				back(t, b, queue)
			} else if left := b.Drain(queue); len(left) > 0 {
				t.Errorf("left in the queue: %v", left)
			}
		})
	}
}
