//go:build linux

package main_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
	"github.com/lastcall-go/lastcall/report"
)

// secret is a password that must not be seen anywhere, as it is and as it stands in a URL.
const (
	secret        = "p@ss!"
	secretEscaped = "p%40ss!"
)

// noSecret fails the test if a piece of the password is in what a process wrote.
func noSecret(t *testing.T, l *life) {
	t.Helper()
	texts := [][]byte{[]byte(l.stderr.text()), l.stdout.Bytes()}
	for _, text := range append(texts, l.reports()...) {
		for _, s := range []string{secret, secretEscaped, "ss!"} {
			if strings.Contains(string(text), s) {
				t.Errorf("the password (%q) is shown in:\n%s", s, text)
			}
		}
	}
}

func TestShown08_StartFails(t *testing.T) {
	t.Parallel()
	withSecret := func(addr string) string { return "amqp://lc:" + secretEscaped + "@" + addr + "/" }
	for name, tc := range map[string]struct {
		configuration configuration
		code          int
		reason        report.ExitReason
		says          string
	}{
		"broker refuses the connection": {configuration{url: withSecret(refusing(t))}, 69, report.ReasonBrokerUnavailable, "connection refused"},
		"broker refuses the user":       {configuration{url: withSecret(brokerAddr(t))}, 78, report.ReasonConfiguration, "ACCESS_REFUSED"},
		"queue is missing":              {configuration{queue: "lc.test.no-such-queue"}, 78, report.ReasonConfiguration, "lc.test.no-such-queue"},
	} {
		t.Run(name, func(t *testing.T) {
			l := runs(t, tc.configuration)
			d := l.report()
			if d.ExitCode != tc.code || d.ExitReason != tc.reason || d.Completion != report.Failed || d.Trigger.Kind != report.TriggerStartup {
				t.Errorf("exit code %d (%s), %s by %s; want %d (%s)", d.ExitCode, d.ExitReason, d.Completion, d.Trigger.Kind, tc.code, tc.reason)
			}
			if !strings.Contains(l.stderr.text(), tc.says) {
				t.Errorf("stderr does not say %q", tc.says)
			}
			noSecret(t, l)
		})
	}
}

// refusing is an address at which nobody listens.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A configuration that is not valid ends it before anything has begun: no report.
func TestShown08_ConfigurationNotValid(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		configuration configuration
		want          string
	}{
		"unknown key": {configuration{subscription: []string{"concurency = 2"}}, `lastcall.toml:11:1: unknown key "concurency" in [[subscription]]; write "concurrency"` + "\n"},
		"URL":         {configuration{url: "amqp://lc:" + secret + "@127.0.0.1:99999/"}, "lastcall.toml:4:1: url names a port outside 1 to 65535"},
	} {
		t.Run(name, func(t *testing.T) {
			l := runs(t, tc.configuration)
			code := l.exit()
			if text := l.stderr.text(); code != 78 || !strings.HasPrefix(text, tc.want) {
				t.Errorf("exit code %d, stderr %q; want 78, %q", code, text, tc.want)
			}
			if n := len(l.reports()); n != 0 {
				t.Errorf("%d reports, want none", n)
			}
			noSecret(t, l)
		})
	}
}

// silent listens, accepts, and says nothing. accepted gets a value for each connection.
func silent(t *testing.T) (addr string, accepted <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ch := make(chan struct{}, 1024)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			ch <- struct{}{}
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String(), ch
}

// A signal while the broker does not answer the handshake rolls back what there is, and that is clean.
func TestShown08_SignalDuringTheHandshake(t *testing.T) {
	t.Parallel()
	addr, accepted := silent(t)
	onTime(t, func(t *testing.T, c *clock) {
		l := runs(t, configuration{url: "amqp://lc:" + secretEscaped + "@" + addr + "/"})
		select {
		case <-accepted:
		case <-l.over:
			t.Fatal("it ended without dialling")
		}
		c.begin()
		stop := l.signal(syscall.SIGTERM)
		compare(t, verdict{report.GracefulCompleted, 0, report.Sheet{}, []string{"SIGTERM graceful"}}, l.report())
		noSecret(t, l)
		c.within(0, 100*time.Millisecond, l.ended.Sub(stop), "the shutdown")
	})
}

// SIGTERM in the first milliseconds of the process, 50 or as many as it needs to dial: either it comes before main, where Go's
// default effect ends the process by the signal, or it is a clean end with a report. Once the process has dialled it is always
// the latter.
func TestCase_G03_SignalAtOnce(t *testing.T) {
	t.Parallel()
	const runsInAll = 40
	addr, accepted := silent(t)
	dir := configuration{url: "amqp://" + addr + "/"}.write(t)
	begin := func() *life {
		l := prepare(t, dir, "lastcall", "run", "-c", "lastcall.toml")
		l.start()
		return l
	}
	begun := time.Now()
	l := begin()
	<-accepted
	span := max(50*time.Millisecond, 3*time.Since(begun)/2)
	l.signal(syscall.SIGTERM)
	l.exit()

	clean := 0
	for i := range runsInAll {
		must(t, os.RemoveAll(filepath.Join(dir, "reports")))
		l := begin()
		time.Sleep(time.Duration(i) * span / runsInAll)
		dialled := len(accepted) > 0
		sent := l.signal(syscall.SIGTERM)
		switch code := l.exit(); {
		case code == 0:
			clean++
			if d := l.report(); d.Trigger.Detail != "SIGTERM" {
				t.Errorf("run %d: trigger %+v", i, d.Trigger)
			}
		case code == 128+int(syscall.SIGTERM) && !dialled:
		default:
			t.Errorf("run %d: exit code %d (had dialled: %v), stderr:\n%s", i, code, dialled, l.stderr.text())
		}
		if took := l.ended.Sub(sent); took > 5*time.Second {
			t.Errorf("run %d: ended %s after the signal", i, took)
		}
		for len(accepted) > 0 {
			<-accepted
		}
	}
	t.Logf("%d of %d reached main before the signal, within %s", clean, runsInAll, span)
	if clean == 0 || clean == runsInAll {
		t.Error("only one of the two cases has been tested")
	}
}

// Nothing comes before the handlers of signals: they are there 5 ms after the last package has been initialised.
func TestCase_G03_SignalsComeFirst(t *testing.T) {
	t.Parallel()
	addr, _ := silent(t)
	const tries = 5
	for i := range tries {
		l := prepare(t, configuration{url: "amqp://" + addr + "/"}.write(t), "lastcall", "run", "-c", "lastcall.toml")
		l.cmd.Env = append(l.cmd.Env, "GODEBUG=inittrace=1")
		l.start()
		l.await(1, "init main @")
		time.Sleep(5 * time.Millisecond) // for the first line of main
		l.signal(syscall.SIGTERM)
		if code := l.exit(); code == 0 {
			return
		} else if code != 128+int(syscall.SIGTERM) {
			t.Fatalf("try %d: exit code %d", i, code)
		}
	}
	t.Errorf("ended by the signal %d times", tries)
}

// A password in the configuration is shown by nothing that explains it either.
func TestCheckShowsNoPassword(t *testing.T) {
	t.Parallel()
	dir := configuration{url: "amqp://lc:" + secretEscaped + "@127.0.0.1:1/", exec: []string{"cat", "--password=" + secret}}.write(t)
	l := prepare(t, dir, "lastcall", "check", "-c", "lastcall.toml")
	l.start()
	if diff := cmp.Diff(0, l.exit()); diff != "" {
		t.Errorf("exit code (-want +got):\n%s", diff)
	}
	if !strings.Contains(l.stdout.String(), "rabbitmq at amqp://lc@127.0.0.1:1/") {
		t.Errorf("stdout does not name the broker:\n%s", &l.stdout)
	}
	noSecret(t, l)
}

// A broker that is not there yet is waited for as long as the configuration says.
func TestStartRetry(t *testing.T) {
	t.Parallel()
	l := runs(t, configuration{url: "amqp://lc:" + secretEscaped + "@" + refusing(t) + "/", lifecycle: []string{`start_retry = "10m"`}})
	l.await(2, "broker unavailable, trying again")
	l.signal(syscall.SIGTERM)
	compare(t, verdict{report.GracefulCompleted, 0, report.Sheet{}, []string{"SIGTERM graceful"}}, l.report())
	noSecret(t, l)
}

// The broker's address from a file of its own, as secrets are mounted.
func TestBrokerFromAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "url")
	must(t, os.WriteFile(file, []byte(rabbittest.URL()+"\n"), 0o600))
	l := runs(t, configuration{urlFile: file, queue: rabbittest.New(t).Queue(rabbittest.Classic)})
	l.await(1, `"msg":"consuming"`)
	l.signal(syscall.SIGTERM)
	compare(t, verdict{report.GracefulCompleted, 0, report.Sheet{}, []string{"SIGTERM graceful"}}, l.report())
}
