//go:build linux

package main_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/report"
)

// idle starts a consumer of an empty queue and waits until it consumes.
func idle(t *testing.T) *life {
	t.Helper()
	l := runs(t, configuration{queue: rabbittest.New(t).Queue(rabbittest.Classic)})
	l.await(1, `"msg":"consuming"`)
	return l
}

func TestOneSignal(t *testing.T) {
	t.Parallel()
	for sig, want := range map[syscall.Signal]verdict{
		syscall.SIGTERM: {report.GracefulCompleted, 0, report.Sheet{}, []string{"SIGTERM graceful"}},
		syscall.SIGINT:  {report.GracefulCompleted, 0, report.Sheet{}, []string{"SIGINT graceful"}},
		syscall.SIGQUIT: {report.ForcedCompleted, 3, report.Sheet{}, []string{"SIGQUIT force"}},
	} {
		t.Run(want.Effects[0], func(t *testing.T) {
			l := idle(t)
			l.signal(sig)
			compare(t, want, l.report())
		})
	}
}

// Two SIGTERMs in a moment are one request: a process group gets them, and a pod that is deleted twice.
func TestDuplicateSignal(t *testing.T) {
	t.Parallel()
	b := rabbittest.New(t)
	onTime(t, func(t *testing.T, c *clock) {
		queue := b.Queue(rabbittest.Classic)
		b.Publish(queue, "m1")
		l := runs(t, configuration{queue: queue, exec: shell("sleep 1")})
		l.awaitStarted(1)
		first := l.signal(syscall.SIGTERM)
		l.await(1, `"effect":"graceful"`) // or the kernel makes one of both
		second := l.signal(syscall.SIGTERM)
		d := l.report()
		if c.missed(second.Sub(first) > 150*time.Millisecond, "the second signal came when it was no duplicate any more") {
			return
		}
		compare(t, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 1, Started: 1, Acked: 1},
			[]string{"SIGTERM graceful", "SIGTERM duplicate"}}, d)
	})
}

// Under `second = "ignore"` a second SIGTERM is recorded and the drain goes on.
func TestSecondSignalIgnored(t *testing.T) {
	t.Parallel()
	b := rabbittest.New(t)
	queue := b.Queue(rabbittest.Classic)
	b.Publish(queue, "m1")
	l := runs(t, configuration{queue: queue, exec: shell("sleep 1"), more: []string{"[signals]", `second = "ignore"`}})
	l.awaitStarted(1)
	l.signal(syscall.SIGTERM)
	l.await(1, `"effect":"graceful"`)
	l.signal(syscall.SIGINT)
	compare(t, verdict{report.GracefulCompleted, 0, report.Sheet{Received: 1, Started: 1, Acked: 1},
		[]string{"SIGTERM graceful", "SIGINT none"}}, l.report())
}

// PID 1 has no default effect of signals to fall back on.
func TestCase_G04_PID1(t *testing.T) {
	t.Parallel()
	queue := rabbittest.New(t).Queue(rabbittest.Classic)
	l := prepare(t, configuration{queue: queue}.write(t), "lastcall", "run", "-c", "lastcall.toml", "--log", "json")
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
	l.cmd.SysProcAttr = attr
	l.start()
	l.await(1, `"msg":"consuming"`)
	l.signal(syscall.SIGTERM)
	d := l.report()
	compare(t, verdict{report.GracefulCompleted, 0, report.Sheet{}, []string{"SIGTERM graceful"}}, d)
	if d.Service.PID != 1 {
		t.Errorf("the process was %d, not 1", d.Service.PID)
	}
}

// A process that is not told where its broker is in a file reads the environment, and does not hand it on to its children.
func TestBrokerFromTheEnvironment(t *testing.T) {
	t.Parallel()
	b := rabbittest.New(t)
	queue := b.Queue(rabbittest.Classic)
	b.Publish(queue, "m1")
	l := prepare(t, configuration{url: "amqp://127.0.0.1:1/", queue: queue, exec: shell("env")}.write(t),
		"lastcall", "run", "-c", "lastcall.toml", "--log", "json")
	l.cmd.Env = append(l.cmd.Env, "LASTCALL_BROKER_URL="+rabbittest.URL())
	l.start()
	l.await(1, `"msg":"LASTCALL_QUEUE=`+queue+`"`)
	l.signal(syscall.SIGTERM)
	d := l.report()
	if diff := cmp.Diff(report.GracefulCompleted, d.Completion); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(l.stderr.text(), "LASTCALL_BROKER_URL") {
		t.Error("the child was given the broker's URL")
	}
}
